package etcdnode

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"cke"
)

func TestMembership_AnswersAndRefusals(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	m, f := newFakeEtcd(t, ca.TLS("server", "127.0.0.1")), etcdFleet(t, ca)
	ctx := t.Context()
	if id, err := f.AddLearner(ctx, m.url(), "https://127.0.0.1:2380"); id != "b2" || err != nil {
		t.Errorf("AddLearner: %q, %v", id, err)
	}
	for what, err := range map[string]error{
		"Promote": f.Promote(ctx, m.url(), "b2"), "RemoveMember": f.RemoveMember(ctx, m.url(), "b2"), "MoveLeader": f.MoveLeader(ctx, m.url(), "b2"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, test := range []struct{ refusal, is error }{
		{rpctypes.ErrGRPCMemberNotFound, cke.ErrNotFound},
		{rpctypes.ErrGRPCPeerURLExist, cke.ErrConflict},
		{rpctypes.ErrGRPCMemberNotLearner, cke.ErrConflict},
		{rpctypes.ErrGRPCLearnerNotReady, cke.ErrNotReady},
		{rpctypes.ErrGRPCUnhealthy, cke.ErrNotReady},
		{rpctypes.ErrGRPCTooManyLearners, cke.ErrNotReady},
		{rpctypes.ErrGRPCTimeout, nil},
	} {
		m.set(func() { m.refusal = test.refusal })
		asked := m.count("add")
		_, err := f.AddLearner(ctx, m.url(), "https://127.0.0.1:2380")
		if err == nil || test.is != nil && !errors.Is(err, test.is) || cke.CodeOf(err) != cke.CodeMemberSilent {
			t.Errorf("%v: %s %v", test.refusal, cke.CodeOf(err), err)
		}
		if test.is == nil && (errors.Is(err, cke.ErrConflict) || errors.Is(err, cke.ErrNotFound) || errors.Is(err, cke.ErrNotReady)) {
			t.Errorf("%v: a time-out means unknown, not %v", test.refusal, err)
		}
		if n := m.count("add") - asked; n != 1 {
			t.Errorf("%v: asked %d times", test.refusal, n)
		}
	}
	if err := f.Promote(ctx, m.url(), "no id"); err == nil {
		t.Error("a faulty id was asked for")
	}
}

func TestMembership_ChangesNothingOnceDeposed(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	m := newFakeEtcd(t, ca.TLS("server", "127.0.0.1"))
	c := ca.TLS("cke")
	f := New(Config{ClientTLS: func(context.Context) (*tls.Config, error) { return c, nil }, Guard: func() error { return cke.ErrDeposed }})
	defer f.Close()
	_, added := f.AddLearner(t.Context(), m.url(), "https://127.0.0.1:2380")
	for what, err := range map[string]error{
		"AddLearner": added, "Promote": f.Promote(t.Context(), m.url(), "b2"),
		"RemoveMember": f.RemoveMember(t.Context(), m.url(), "b2"), "MoveLeader": f.MoveLeader(t.Context(), m.url(), "b2"),
	} {
		if !errors.Is(err, cke.ErrDeposed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, change := range []string{"add", "promote", "remove", "move"} {
		if m.count(change) != 0 {
			t.Errorf("%s was asked for", change)
		}
	}
}
