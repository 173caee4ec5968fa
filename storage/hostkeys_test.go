package storage

import (
	"context"
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

func TestHostKeys(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	const first, second, third = "ssh-ed25519 AAAAfirst", "ssh-ed25519 AAAAsecond", "ssh-ed25519 AAAAthird"
	const node, v6 = "10.0.0.11", "fd00::11"
	term := campaign(t, s, "prod", "here")

	must := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	must("first sight", term.PinHostKey(ctx, node, first+" root@cp1"), nil)
	must("again", s.PinHostKey(ctx, "prod", node, first), nil)
	must("another", term.PinHostKey(ctx, node, second), cke.ErrConflict)
	must("another, not led", s.PinHostKey(ctx, "prod", node, second), cke.ErrConflict)
	must("IPv6", s.PinHostKey(ctx, "prod", v6, third), nil)
	if err := s.PinHostKey(ctx, "prod", node, "rubbish"); cke.CodeOf(err) != cke.CodeHostKey {
		t.Errorf("got %v", err)
	}

	must("offer", term.OfferHostKey(ctx, node, second), nil)
	before := revision(t, s)
	must("offer again", term.OfferHostKey(ctx, node, second), nil)
	if revision(t, s) != before {
		t.Error("offering the same again was a write")
	}
	offered, err := s.OfferedHostKey(ctx, "prod", node)
	if err != nil || offered.Line != second {
		t.Errorf("got %+v, %v", offered, err)
	}
	must("accept", s.AcceptHostKey(ctx, "prod", node, offered.Line), nil)
	if _, err := s.OfferedHostKey(ctx, "prod", node); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("still offered: %v", err)
	}
	keys, err := s.HostKeys(ctx, "prod")
	if err != nil || len(keys) != 2 || keys[node] != second || keys[v6] != third {
		t.Errorf("got %v, %v", keys, err)
	}
}

// revision is the store's: unchanged when nothing was written.
func revision(t interface {
	Helper()
	Fatal(...any)
}, s *Store) int64 {
	t.Helper()
	resp, err := s.client.Get(context.Background(), s.keys.prefix, clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}
