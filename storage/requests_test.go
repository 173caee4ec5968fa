package storage

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
)

func TestRequestApply_ReleasesThePresentGeneration(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	if _, err := s.RequestApply(ctx, "prod", "me@here", false); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("there is no cluster yet: %v", err)
	}
	setCluster(t, s, "prod")
	states := s.WatchCluster(ctx, "prod")
	if got := (<-states).Asked().Applied; got != 0 {
		t.Errorf("generation %d is released, and nobody asked", got)
	}
	apply := func(want int64) {
		t.Helper()
		got, err := s.RequestApply(ctx, "prod", "me@here", false)
		if err != nil || got != want {
			t.Fatalf("released %d, %v; want %d", got, err, want)
		}
		await(t, states, func(c ClusterState) bool { return c.Asked().Applied == want })
	}
	apply(1)
	changed := testCluster("prod")
	changed.Options.Etcd.ClientPort = 12379
	if _, err := s.SetSpec(ctx, "prod", changed, nil, "me@here", SetOptions{}); err != nil {
		t.Fatal(err)
	}
	state := await(t, states, func(c ClusterState) bool { return c.Spec.Generation == 2 })
	if got := state.Asked().Applied; got != 1 {
		t.Errorf("a new generation counts as released: %d", got)
	}
	if r := state.Requests[requestApply]; r.By != "me@here" || r.At.IsZero() {
		t.Errorf("who asked and when is not kept: %+v", r)
	}
	apply(2)
	if err := s.RequestDelete(ctx, "prod", "me@here"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RequestApply(ctx, "prod", "me@here", false); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("the cluster is being deleted: %v", err)
	}
}

func TestHold_LastsUntilItIsEnded(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	since := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	first := cke.Hold{Reason: "a new switch", By: "me@here", Since: since}
	if err := s.SetHold(ctx, "prod", first); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("there is no cluster yet: %v", err)
	}
	if err := s.EndHold(ctx, "prod"); !errors.Is(err, cke.ErrNotFound) || cke.CodeOf(err) != cke.CodeCluster {
		t.Errorf("there is no cluster yet: %v", err)
	}
	setCluster(t, s, "prod")
	states := s.WatchCluster(ctx, "prod")
	is := func(want *cke.Hold) {
		t.Helper()
		got, err := s.HoldOf(ctx, "prod")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("read (-want +got):\n%s", d)
		}
		await(t, states, func(c ClusterState) bool { return cmp.Equal(c.Asked().Hold, want) })
	}
	ended := func() {
		t.Helper()
		if err := s.EndHold(ctx, "prod"); !errors.Is(err, cke.ErrNotFound) || cke.CodeOf(err) != cke.CodeNotPaused {
			t.Errorf("there is no hold: %v", err)
		}
	}
	is(nil)
	ended()
	second := cke.Hold{Reason: "a new rack", By: "you@here", Since: since.Add(time.Hour), Until: since.Add(3 * time.Hour)}
	for _, h := range []cke.Hold{first, second} {
		if err := s.SetHold(ctx, "prod", h); err != nil {
			t.Fatal(err)
		}
		is(&h)
	}
	if err := s.EndHold(ctx, "prod"); err != nil {
		t.Fatal(err)
	}
	is(nil)
	ended()
}

func TestHold_OneThatCannotBeReadHolds(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	if err := s.PutRequest(ctx, "prod", requestHold, "me@here", "no hold"); err != nil {
		t.Fatal(err)
	}
	h, err := s.HoldOf(ctx, "prod")
	if err != nil || !h.Active(time.Now()) || h.By != "me@here" {
		t.Errorf("%+v, %v", h, err)
	}
	if err := s.EndHold(ctx, "prod"); err != nil {
		t.Error(err)
	}
}
