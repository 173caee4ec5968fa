package keep_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/backup"
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
