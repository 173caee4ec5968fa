package take_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// gapped is the backups of a cluster with a gap: a full and a delta, then changes that nobody watched, then a full and deltas.
type gapped struct {
	*taketest.Rig
	bucket *backuptest.Memory
	before int64         // newest revision before the gap
	full   backup.Header // after it
	last   int64
}

func makeGapped(t *testing.T) gapped {
	b := backuptest.NewMemory()
	r := begin(t, b, nil)
	r.Put("a", "1")
	r.Flush()
	g := gapped{bucket: b, before: r.Taker.Status().Revision}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		r.Put("a", fmt.Sprint(i))
	}
	if _, err := r.Server.Client.Compact(etcdtest.Context(t), r.Server.State(t, 0).Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	g.Rig = taketest.Start(t, r.Server, taketest.Config(r.Server, b))
	g.full = g.Await(take.FullStored).Header
	for i := range 50 {
		g.last = g.Put("b", fmt.Sprint(i))
		if i%10 == 9 {
			g.Flush()
		}
	}
	return g
}

// delta is the name of the n-th delta after the gap.
func (g gapped) delta(n int) string {
	list, err := g.bucket.List(g.T.Context(), fmt.Sprintf("prod/a1b2/delta/%020d/%010d-", g.full.Last+1, n))
	if err != nil || len(list) != 1 {
		g.T.Fatal(list, err)
	}
	return list[0].Name
}

func storeOf(t *testing.T, b backup.Bucket) *backup.Store {
	return &backup.Store{Bucket: b, Cluster: "prod", Scratch: t.TempDir()}
}

// isLost checks that every way to read a store reports damage, and that what is restorable in spite of it is restored on request only.
func isLost(t *testing.T, b backup.Bucket, object string, good int64, lost ...backup.Span) {
	t.Helper()
	ctx := etcdtest.Context(t)
	s := storeOf(t, b)
	for name, do := range map[string]func() error{
		"find":  func() error { _, err := s.Find(ctx, backup.At{}); return err },
		"drill": func() error { _, err := s.Drill(ctx, backup.At{}, nil); return err },
		"extract": func() error {
			_, err := s.Extract(ctx, backup.At{}, filepath.Join(t.TempDir(), "x"), backup.ExtractOptions{CheckHash: true})
			return err
		},
	} {
		var d *backup.DamagedError
		if err := do(); !errors.As(err, &d) || d.Object != object || d.LastGood != good {
			t.Errorf("%s: %v, want damage of %s, last good %d", name, err, object, good)
		}
	}
	x, err := s.Extract(ctx, backup.At{}, filepath.Join(t.TempDir(), "x"), backup.ExtractOptions{AllowPartial: true})
	if err != nil || x.Revision != good || x.Damage == nil {
		t.Errorf("with AllowPartial: revision %d, %v, %v; want %d", x.Revision, x.Damage, err, good)
	}
	r, err := s.Check(ctx, "")
	if err != nil || len(r.Findings) != 1 || r.Findings[0].Object != object || r.LastGood != good || !slices.Equal(r.Lost, lost) {
		t.Errorf("verify: %+v, %v; want %s, last good %d, lost %v", r, err, object, good, lost)
	}
}

func TestTaker_ALostFullAfterAGapIsDamage(t *testing.T) {
	g := makeGapped(t)
	if r, err := g.Store().Check(etcdtest.Context(t), ""); err != nil || len(r.Findings) != 0 || len(r.Lost) != 0 || r.Unlinked != 0 {
		t.Fatalf("whole: %+v, %v", r, err)
	}
	g.bucket.Delete(t.Context(), g.full.Place.Name())
	isLost(t, g.bucket, g.full.Place.Name(), g.before, backup.Span{From: g.full.Last, To: g.last})
}

func TestTaker_ALostFirstDeltaIsDamage(t *testing.T) {
	g := makeGapped(t)
	name := g.delta(0)
	next, _ := backup.ParsePlace(g.delta(1))
	g.bucket.Delete(t.Context(), name)
	missing := fmt.Sprintf("prod/a1b2/delta/%020d/0000000000-*.cke", g.full.Last+1)
	isLost(t, g.bucket, missing, g.full.Last, backup.Span{From: next.Revision, To: g.last})
}

// A later full makes the newest state restorable again; what lies before it stays lost, and is reported.
func TestTaker_WhatWasLostBeforeANewerFullIsReported(t *testing.T) {
	g := makeGapped(t)
	h, err := g.Taker.Full(etcdtest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	g.Put("c", "1")
	g.Flush()
	g.bucket.Delete(t.Context(), g.full.Place.Name())
	r, err := g.Store().Check(etcdtest.Context(t), "")
	if err != nil || len(r.Findings) != 1 || r.Findings[0].Object != g.full.Place.Name() || r.LastGood != h.Last+1 ||
		!slices.Equal(r.Lost, []backup.Span{{From: g.full.Last, To: h.Last - 1}}) {
		t.Errorf("verify: %+v, %v", r, err)
	}
	if _, err := g.Store().Drill(etcdtest.Context(t), backup.At{}, nil); err != nil {
		t.Error(err)
	}
	_, err = g.Store().Find(etcdtest.Context(t), backup.At{Revision: h.Last - 1})
	var d *backup.DamagedError
	if !errors.As(err, &d) || d.Object != g.full.Place.Name() {
		t.Errorf("a lost revision: %v", err)
	}
}

// A person who deletes the full that alone leads to the newest changes has to insist.
func TestDelete_TheOnlyFullThatLeadsToTheNewest(t *testing.T) {
	g := makeGapped(t)
	ctx := etcdtest.Context(t)
	s := g.Store()
	if _, err := s.Delete(ctx, g.full.Place.ID(), false); !errors.Is(err, backup.ErrOnlyFull) {
		t.Fatal(err)
	}
	if _, err := s.Delete(ctx, g.full.Place.ID(), true); err != nil {
		t.Fatal(err)
	}
	if x, err := s.Find(ctx, backup.At{}); err != nil || x.Revision != g.before {
		t.Errorf("revision %d, %v", x.Revision, err)
	}
	if r, err := s.Check(ctx, ""); err != nil || len(r.Findings) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// After a gap, nothing that is stored can be restored before the full is: a flush waits for it.
func TestTaker_AFlushAfterAGapWaitsForTheFull(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	mem := backuptest.NewMemory()
	r := begin(t, mem, nil)
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	r.Put("unwatched", "1")
	if _, err := r.Server.Client.Compact(ctx, r.Put("unwatched", "2")); err != nil {
		t.Fatal(err)
	}
	stored := make(chan struct{}) // a full takes its time
	r = taketest.Start(t, r.Server, taketest.Config(r.Server, &backuptest.Faulty{Bucket: mem, Before: func(ctx context.Context, op, name string) error {
		if op == "create" && strings.Contains(name, "/full/") {
			select {
			case <-stored:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}}))
	r.Await(take.Gap)                                                         // of the deltas
	r.Await(take.Gap)                                                         // of the full before them
	for after := r.Put("acknowledged", "0"); r.Taker.Status().Seen < after; { // until the stream after the gap has begun
		r.Put("acknowledged", "1")
		if err := backup.Pause(ctx, 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	last := r.Put("acknowledged", "2")
	flushed := make(chan error, 1)
	brief, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { flushed <- r.Taker.Flush(brief) }()
	r.Await(take.DeltaStored)
	select {
	case err := <-flushed:
		t.Errorf("the flush did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
		cancel()
	}
	close(stored)
	r.Flush()
	covers(t, r, last, last)
}

// A delta in the middle of a stream was lost. The full that follows has to reach the run after the hole: one of a member that is behind, from before
// the hole, leads to nothing that was stored since.
func TestTaker_AFullFromBeforeAHoleConnectsNothing(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.StartCluster(t, 1)
	voter := cluster[0]
	learner := etcdtest.AddLearner(t, cluster)
	b := backuptest.NewMemory()
	c := taketest.Config(voter, b)
	c.Endpoints = []string{learner.Endpoint, voter.Endpoint}
	r := taketest.Start(t, voter, c)
	r.Await(take.FullStored)
	voter.Etcd.Server.CutPeer(learner.Etcd.Server.MemberID())
	defer voter.Etcd.Server.MendPeer(learner.Etcd.Server.MemberID())
	var names []string
	for i := range 6 {
		r.Put(fmt.Sprint("k", i), "v")
		r.Flush()
		names = append(names, r.Await(take.DeltaStored).Header.Place.Name())
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), names[2]); err != nil {
		t.Fatal(err)
	}
	r = taketest.Start(t, voter, c)
	h := r.Await(take.FullStored).Header
	last := r.Put("later", "v")
	r.Flush()
	s := r.Taker.Status()
	l, err := r.Store().Lineage(t.Context(), c.Lineage)
	if err != nil {
		t.Fatal(err)
	}
	reach := int64(0)
	for _, x := range l.Chains() {
		reach = max(reach, x.Last)
	}
	if reach < last && s.Connected {
		t.Errorf("the full is of revision %d; told: connected %v up to revision %d, problem %q; but restorable up to %d only", h.Last, s.Connected, s.Revision, s.Problem, reach)
	}
}
