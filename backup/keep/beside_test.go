package keep_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

var someTime = time.Date(2026, 5, 2, 3, 10, 44, 0, time.UTC)

func identityOf(ended []cke.JoinID, joins ...cke.JoinID) (id cke.Identity) {
	id.Incarnation = &cke.Incarnation{ID: "life1", State: cke.Formed}
	for _, j := range joins {
		id.Joins = append(id.Joins, cke.Join{ID: j, Incarnation: "life1", StartedAt: someTime})
	}
	for _, j := range ended {
		id.Ended = append(id.Ended, cke.Join{ID: j, Incarnation: "life1", StartedAt: someTime, EndedAt: someTime})
	}
	return id
}

// besideHouse is a house whose store can be set.
func besideHouse(t *testing.T) (h *house, set func(cke.Identity), beside func() cke.Identity) {
	h = signedHouse(t)
	var now atomic.Pointer[cke.Identity]
	h.config.Escrow = func(context.Context) (cke.Escrow, error) {
		return cke.Escrow{Format: cke.EscrowFormat, Cluster: "prod", SealedWith: "age1x", Identity: *now.Load()}, nil
	}
	set = func(id cke.Identity) { now.Store(&id); h.wanted.Identity = id }
	beside = func() cke.Identity { // none while its signature is still to be written
		if !slices.Contains(h.identities(), signatureOf(h.newestIdentity())) {
			return cke.Identity{}
		}
		data, err := h.store().File(etcdtest.Context(h), "life1", backup.FileIdentity)
		if err != nil {
			return cke.Identity{}
		}
		e, err := cke.ParseEscrow(data)
		if err != nil {
			t.Fatal(err)
		}
		return e.Identity
	}
	return h, set, beside
}

// stays looks for three seconds whether something remains so.
func (h *house) stays(what string, ok func() bool) {
	h.Helper()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if !ok() {
			h.Fatalf("expected %s: %+v", what, h.keeper.Status())
		}
	}
}

// A merge of this cluster takes hours. Members move meanwhile, and the management host is lost: by what lies beside the
// backups a new one knows whom to stop.
func TestKeeper_PutsFilesBesideTheBackupsDuringItsOwnHeavyWork(t *testing.T) {
	h := newHouse(t)
	var slow atomic.Bool
	begun, end := make(chan struct{}, 100), make(chan struct{})
	t.Cleanup(func() {
		if slow.Swap(false) {
			close(end)
		}
	})
	h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(ctx context.Context, op, name string) error {
		if slow.Load() && op == "create" && strings.Contains(name, "/full/") {
			begun <- struct{}{}
			select {
			case <-end:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}}
	h.wanted.Spec.Cluster.Backup.Compaction.Events = 2
	h.run().await("both files", func(s *cke.BackupStatus) bool { return hasFull(s) && len(h.lineage("life1").Files) == 2 })
	slow.Store(true)
	h.put("a", "b", "c")
	<-begun // the merge uploads its full
	h.wanted.Spec.Source, h.wanted.Spec.Generation = "name: prod # members moved\n", 2
	h.keeper.Update(h.wanted)
	h.until("the present file beside the backups", func() bool { return len(h.lineage("life1").Files) > 2 })
}

// The store is brought back from a copy of before two members were replaced. One member of the copy still serves, in the same
// incarnation and with the same history. What lies beside the backups must not become that of the copy, and nothing is
// deleted by its file, until an operator accepts that the members since then are gone.
func TestKeeper_AnOlderStoreOfTheSameIncarnationDoesNotReplaceTheIdentityBeside(t *testing.T) {
	h, set, beside := besideHouse(t)
	older := identityOf(nil, "j1", "j2", "j3")
	set(older)
	h.run().await("a full", hasFull)
	h.until("the first identity", func() bool { return beside().Has("j3") })
	h.stop()

	set(identityOf([]cke.JoinID{"j2", "j3"}, "j1", "j4", "j5"))
	h.wanted.Spec.Generation, h.wanted.Spec.Source = 2, "name: prod\n# nodes 1, 4, 5\n"
	h.run()
	h.until("the present identity", func() bool { return beside().Has("j5") })
	h.takeFulls(3)
	if s := h.keeper.Status(); s.Lacks != nil {
		t.Errorf("lacks %+v", s.Lacks)
	}
	h.stop()

	set(older) // as the copy of the store has it
	h.wanted.Spec.Generation, h.wanted.Spec.Source = 1, "name: prod\n"
	h.wanted.Spec.Cluster.Backup.Retention = cke.Retention{Last: 1}
	before := h.lineage("life1")
	h.run()
	s := h.await("the older store to be found", func(s *cke.BackupStatus) bool { return s.Lacks != nil && !s.Resuming })
	if len(s.Lacks) != 4 || s.Lacks[0].ID != "j4" || s.Lacks[1].ID != "j5" || !s.Lacks[2].Ended || !s.Lacks[3].Ended {
		t.Errorf("lacks %+v", s.Lacks)
	}
	h.wanted.Spec.Source = "name: prod\n# changed\n"
	h.keeper.Update(h.wanted)
	h.takeFulls(2) // each wakes the other work
	if l := h.lineage("life1"); len(l.Files) != len(before.Files) || len(l.Fulls) != len(before.Fulls)+2 || !beside().Has("j5") {
		t.Errorf("%d files and %d fulls, before there were %d and %d", len(l.Files), len(l.Fulls), len(before.Files), len(before.Fulls))
	}

	accepted := older
	accepted.Freeze = &cke.Freeze{ID: "f1", Kind: cke.FreezeOlderStore, Finding: cke.OlderStore([]string{"j2", "j3", "j4", "j5"}), LiftedAt: someTime}
	h.wanted.Identity = accepted
	h.keeper.Update(h.wanted)
	h.until("the identity of the copy", func() bool { return !beside().Has("j5") })
	h.await("nothing to be lacking", func(s *cke.BackupStatus) bool { return s.Lacks == nil })
}

// The leader records a freeze because of what lacks. From then on backups are idle. What lacks has to be known still: restores and
// deletions, which a freeze does not hold, are refused because of it.
func TestKeeper_WhatLacksIsKnownWhileTheClusterIsFrozen(t *testing.T) {
	h, set, beside := besideHouse(t)
	set(identityOf(nil, "j1", "j4", "j5"))
	h.run().await("a full", hasFull)
	h.until("the identity", func() bool { return beside().Has("j5") })
	h.stop()
	set(identityOf(nil, "j1", "j2", "j3"))
	h.run().await("the older store to be found", func(s *cke.BackupStatus) bool { return s.Lacks != nil })
	h.wanted.Idle = "frozen: the store is older than the cluster"
	h.keeper.Update(h.wanted)
	h.stays("what lacks to be known though the cluster is frozen for it", func() bool { return h.keeper.Status().Lacks != nil })
}

// The identity beside the backups cannot be read once while backups are pruned. They have to be pruned later, without another full.
func TestKeeper_PruningIsTriedAgainAfterTheComparisonFailed(t *testing.T) {
	h, set, beside := besideHouse(t)
	var pruning, failed atomic.Bool
	h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(_ context.Context, op, name string) error {
		if pruning.Load() && op == "list" && strings.Contains(name, "/identity") {
			failed.Store(true)
			return errors.New("503 slow down")
		}
		return nil
	}}
	set(identityOf(nil, "j1"))
	h.wanted.Spec.Cluster.Backup.Retention = cke.Retention{Last: 1}
	h.run().await("a full", hasFull)
	h.until("the identity", func() bool { return beside().Has("j1") })
	pruning.Store(true)
	h.takeFulls(1)
	h.until("the failure", failed.Load)
	h.await("the trouble", func(s *cke.BackupStatus) bool {
		return slices.ContainsFunc(s.Troubles, func(t cke.BackupTrouble) bool { return t.Work == "prune" })
	})
	pruning.Store(false)
	h.ahead.Store(int64(2 * 3600 * 1e9)) // two hours later
	h.wanted.Spec.Source = "name: prod # wakes the chores\n"
	h.keeper.Update(h.wanted)
	h.until("the identity to be compared again", func() bool { return len(h.lineage("life1").Files) > 2 })
	h.until("one full to be left, two hours later", func() bool { return len(h.lineage("life1").Fulls) == 1 })
}

// The cluster shrank from five members to three since the copy of the store was made. Its record of who is to be counted must not
// go back beside the backups either.
func TestKeeper_AnOlderStoreThatLacksEndingsDoesNotReplaceTheIdentityBeside(t *testing.T) {
	h, set, beside := besideHouse(t)
	set(identityOf([]cke.JoinID{"j4", "j5"}, "j1", "j2", "j3"))
	h.run().await("a full", hasFull)
	h.until("the identity", func() bool { return beside().Has("j3") })
	h.stop()
	set(identityOf(nil, "j1", "j2", "j3", "j4", "j5"))
	h.run().await("a member to answer", func(s *cke.BackupStatus) bool { return s.Compared && !s.Resuming })
	h.stays("three members to be current beside the backups", func() bool { return len(beside().Joins) == 3 })
}

// The newest identity beside the backups is damaged. That the store has all that the one before it names does not show that the
// store is not older; what it lacks of it shows that it is.
func TestKeeper_ADamagedIdentityBesideIsNotCompared(t *testing.T) {
	h, set, beside := twoIdentities(t)
	h.memory.Set(h.newestIdentity(), []byte("{}"))

	h.wanted.Idle = "frozen"
	set(identityOf(nil, "j1", "j2"))
	h.run().await("the damage", func(s *cke.BackupStatus) bool { return damaged(s, "older") })
	h.stays("that it is not compared", func() bool { s := h.keeper.Status(); return !s.Compared && s.Lacks == nil })
	h.stop()
	set(identityOf(nil, "j1"))
	h.run().await("the older store to be found", func(s *cke.BackupStatus) bool { return s.Compared && len(s.Lacks) == 1 && damaged(s, "older") })
	h.stop()

	h.wanted.Idle = ""
	set(identityOf(nil, "j1", "j2", "j3"))
	h.run()
	h.until("a new identity", func() bool { return beside().Has("j3") })
	h.await("the comparison", func(s *cke.BackupStatus) bool { return s.Compared && s.Lacks == nil && !damaged(s, "older") })
}
