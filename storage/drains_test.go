package storage

import (
	"errors"
	"sync"
	"testing"
	"time"

	"cke"
)

func lease(node string, at time.Time) cke.Drain {
	return cke.Drain{Node: node, By: "me@here", Since: at, Until: at.Add(time.Hour)}
}

// Requirement A22: at most one node of a cluster has a lease that lasts.
func TestDrains_OneNodeAtATime(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "here")
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for range 2 { // a second one of the same node takes the first one's place
		if err := term.PutDrain(ctx, lease("cp1", noon)); err != nil {
			t.Fatal(err)
		}
	}
	err := term.PutDrain(ctx, lease("cp2", noon.Add(59*time.Minute)))
	if !errors.Is(err, cke.ErrConflict) || cke.CodeOf(err) != cke.CodeDrain {
		t.Errorf("a second node is leased: %v", err)
	}
	if err := term.PutDrain(ctx, lease("cp2", noon.Add(time.Hour))); err != nil {
		t.Errorf("the first lease is over: %v", err)
	}
	r, err := s.RequestsOf(ctx, "prod")
	if err != nil || len(r.Drains) != 1 || r.Drains[0] != lease("cp2", noon.Add(time.Hour)) {
		t.Errorf("%+v %v", r.Drains, err)
	}
	if err := s.EndDrain(ctx, "prod", "cp2"); err != nil {
		t.Fatal(err)
	}
	if err := s.EndDrain(ctx, "prod", "cp2"); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("ended twice: %v", err)
	}
	if err := s.EndDrain(ctx, "dev", "cp2"); cke.CodeOf(err) != cke.CodeCluster {
		t.Error(err)
	}
	for range 2 {
		if err := term.EndDrain(ctx, "cp9"); err != nil {
			t.Error(err)
		}
	}
}

// Whoever writes at the same moment: one wins.
func TestDrains_TwoAtOnceAreOne(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "here")
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for range 20 {
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i, node := range []string{"cp1", "cp2", "cp3", "cp4"} {
			wg.Go(func() { errs[i] = term.PutDrain(ctx, lease(node, noon)) })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, cke.ErrConflict):
				t.Error(err)
			}
		}
		r, err := s.RequestsOf(ctx, "prod")
		if err != nil || len(r.Drains) != 1 || won != 1 {
			t.Fatalf("%d won, %+v, %v", won, r.Drains, err)
		}
		if err := term.EndDrain(ctx, r.Drains[0].Node); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDrains_AreWrittenInATermOnly(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "here")
	if err := term.Resign(ctx); err != nil {
		t.Fatal(err)
	}
	if err := term.PutDrain(ctx, lease("cp1", time.Now())); !errors.Is(err, cke.ErrDeposed) {
		t.Error(err)
	}
	if err := term.EndDrain(ctx, "cp1"); !errors.Is(err, cke.ErrDeposed) {
		t.Error(err)
	}
}

func TestHibernation_LastsUntilItIsEnded(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	if err := s.SetHibernation(ctx, "prod", "me@here"); cke.CodeOf(err) != cke.CodeCluster {
		t.Error(err)
	}
	setCluster(t, s, "prod")
	if err := s.EndHibernation(ctx, "prod"); !errors.Is(err, cke.ErrNotFound) {
		t.Error(err)
	}
	states := s.WatchCluster(ctx, "prod")
	if err := s.SetHibernation(ctx, "prod", "me@here"); err != nil {
		t.Fatal(err)
	}
	state := await(t, states, func(c ClusterState) bool { return c.Asked().Hibernation != nil })
	if h := state.Asked().Hibernation; h.By != "me@here" || h.Since.IsZero() {
		t.Errorf("%+v", h)
	}
	if err := s.EndHibernation(ctx, "prod"); err != nil {
		t.Fatal(err)
	}
	await(t, states, func(c ClusterState) bool { return c.Asked().Hibernation == nil })
}
