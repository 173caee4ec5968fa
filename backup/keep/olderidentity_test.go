package keep_test

import (
	"context"
	"encoding/json"
	"errors"
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

func pauseABit() { time.Sleep(10 * time.Millisecond) }

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
	beside = func() cke.Identity {
		data, err := h.store().File(etcdtest.Context(h), "life1", backup.FileIdentity)
		if err != nil {
			return cke.Identity{}
		}
		var e cke.Escrow
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatal(err)
		}
		return e.Identity
	}
	return h, set, beside
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
	for range 300 {
		s := h.keeper.Status()
		if s.Lacks == nil {
			t.Fatalf("what lacks is forgotten once the cluster is frozen for it: compared %v", s.Compared)
		}
		pauseABit()
	}
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
	pauseABit()
	pruning.Store(true)
	h.takeFulls(1)
	h.until("the failure", failed.Load)
	h.await("the trouble", func(s *cke.BackupStatus) bool {
		for _, t := range s.Troubles {
			if t.Work == "prune" {
				return true
			}
		}
		return false
	})
	pruning.Store(false)
	h.ahead.Store(int64(2 * 3600 * 1e9)) // two hours later
	h.wanted.Spec.Source = "name: prod # wakes the chores\n"
	h.keeper.Update(h.wanted)
	h.until("the identity to be compared again", func() bool { return len(h.lineage("life1").Files) > 2 })
	for range 400 {
		pauseABit()
		if len(h.lineage("life1").Fulls) == 1 {
			return
		}
	}
	t.Errorf("two hours later there are %d fulls, and the troubles are %+v", len(h.lineage("life1").Fulls), h.keeper.Status().Troubles)
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
	for range 300 {
		if n := len(beside().Joins); n != 3 {
			t.Fatalf("%d members are current beside the backups", n)
		}
		pauseABit()
	}
}
