package keep_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// Between an order to restore and its first read, and between its reads, nothing of the backups is in use.
func TestKeeper_PrunesNothingWhileARestoreIsOrdered(t *testing.T) {
	h := newHouse(t)
	var ordered atomic.Bool
	asked := make(chan struct{}, 1)
	ordered.Store(true)
	h.config.Ordered = func(context.Context) error {
		if !ordered.Load() {
			return nil
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		return backup.ErrBusy
	}
	h.run().await("a full", hasFull)
	h.takeFulls(4)
	h.stop()
	fulls := len(h.lineage("life1").Fulls)
	h.wanted.Spec.Cluster.Backup.Retention = cke.Retention{Last: 1}
	h.run()
	select {
	case <-asked:
	case <-etcdtest.Context(t).Done():
		t.Fatal("it does not ask what is ordered")
	}
	last := h.put("x")
	s := h.await("a delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
	if left := len(h.lineage("life1").Fulls); left != fulls || s.Trouble("prune") != nil {
		t.Errorf("%d of %d fulls are left, %+v", left, fulls, s.Trouble("prune"))
	}
	ordered.Store(false)
	h.ahead.Store(int64(2 * time.Minute))
	h.put("y")
	h.until("them to be pruned", func() bool { return len(h.lineage("life1").Fulls) == 1 })
}

// An old store has an old cluster file and old authorities, and its members do not exist anymore: nothing of that is put
// beside the backups, where a new management host would take it for the newest.
func TestKeeper_PutsNothingBesideBeforeAMemberAnswered(t *testing.T) {
	h := newHouse(t)
	answers := h.config.Endpoint
	h.config.Endpoint = func(cke.Join) string { return "http://127.0.0.1:1" }
	h.run().await("that no member answers", func(s *cke.BackupStatus) bool {
		return s.Problem != nil && s.Problem.Code == cke.CodeMemberSilent
	})
	if files := h.lineage("life1").Files; len(files) > 0 {
		t.Errorf("it put %v there", files)
	}
	h.stop()
	h.config.Endpoint = answers
	h.run()
	h.until("the files", func() bool { return len(h.lineage("life1").Files) == 2 })
}
