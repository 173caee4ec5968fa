package keep_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

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
	h := signedHouse(t)
	inc, started := cke.Incarnation{ID: "life1", State: cke.Formed}, h.wanted.Identity.Joins[0].StartedAt
	identity := func(ended []cke.JoinID, joins ...cke.JoinID) (id cke.Identity) {
		id.Incarnation = &inc
		for _, j := range joins {
			id.Joins = append(id.Joins, cke.Join{ID: j, Incarnation: "life1", StartedAt: started})
		}
		for _, j := range ended {
			id.Ended = append(id.Ended, cke.Join{ID: j, Incarnation: "life1", StartedAt: started, EndedAt: started})
		}
		return id
	}
	var now atomic.Pointer[cke.Identity]
	h.config.Escrow = func(context.Context) (cke.Escrow, error) {
		return cke.Escrow{Format: cke.EscrowFormat, Cluster: "prod", SealedWith: "age1x", Identity: *now.Load()}, nil
	}
	set := func(id cke.Identity) { now.Store(&id); h.wanted.Identity = id }
	beside := func(id cke.JoinID) bool {
		data, err := h.store().File(etcdtest.Context(h), "life1", backup.FileIdentity)
		if err != nil {
			return false
		}
		var e cke.Escrow
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatal(err)
		}
		return e.Identity.Has(id)
	}
	older := identity(nil, "j1", "j2", "j3")
	set(older)
	h.run().await("a full", hasFull)
	h.until("the first identity", func() bool { return beside("j3") })
	h.stop()

	set(identity([]cke.JoinID{"j2", "j3"}, "j1", "j4", "j5"))
	h.wanted.Spec.Generation, h.wanted.Spec.Source = 2, "name: prod\n# nodes 1, 4, 5\n"
	h.run()
	h.until("the present identity", func() bool { return beside("j5") })
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
	if l := h.lineage("life1"); len(l.Files) != len(before.Files) || len(l.Fulls) != len(before.Fulls)+2 || !beside("j5") {
		t.Errorf("%d files and %d fulls, before there were %d and %d", len(l.Files), len(l.Fulls), len(before.Files), len(before.Fulls))
	}

	accepted := older
	accepted.Freeze = &cke.Freeze{ID: "f1", Kind: cke.FreezeOlderStore, Finding: cke.OlderStore([]string{"j2", "j3", "j4", "j5"}), LiftedAt: started}
	h.wanted.Identity = accepted
	h.keeper.Update(h.wanted)
	h.until("the identity of the copy", func() bool { return !beside("j5") })
	h.await("nothing to be lacking", func(s *cke.BackupStatus) bool { return s.Lacks == nil })
}
