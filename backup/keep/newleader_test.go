package keep_test

import (
	"strings"
	"testing"

	"golang.org/x/sync/semaphore"

	"cke"
	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// The drill of the daemon that led before failed, or passed over the newest full. The next one reports it before it has drilled by itself, which it does
// without waiting for the schedule.
func TestKeeper_ANewLeaderKnowsWhatADrillFound(t *testing.T) {
	for name, passedOver := range map[string]bool{"it failed": false, "it passed over the newest full": true} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.run().await("a full", hasFull)
			var damaged string
			if passedOver {
				last := h.put("a")
				h.await("the delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
				if _, err := h.keeper.Full(etcdtest.Context(t)); err != nil {
					t.Fatal(err)
				}
				fulls := h.lineage("life1").Fulls
				damaged = fulls[1].ID()
				data := h.memory.Get(fulls[1].Name())
				data[len(data)-5] ^= 1
				h.memory.Set(fulls[1].Name(), data)
			} else {
				h.damageDelta()
				damaged = h.lineage("life1").Streams[0].Deltas[0].Name()
			}
			h.stop()
			if x, err := h.store().Drill(etcdtest.Context(t), backup.At{}, nil); (err == nil) != passedOver {
				t.Fatal(x, err)
			}
			h.config.Turn = semaphore.NewWeighted(1)
			if err := h.config.Turn.Acquire(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			h.wanted.Spec.Cluster.Backup.Verify = cke.BackupSchedule{Schedule: "0 0 1 1 *"}
			s := h.run().await("the backups to be known", hasFull)
			if tr := s.Trouble("verify"); tr == nil || tr.Code != cke.CodeBackupDamaged || !strings.Contains(tr.Message, damaged) {
				t.Fatalf("a new leader forgot it: %+v", tr)
			}
			last := h.put("b")
			h.await("the delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
			if _, err := h.keeper.Full(etcdtest.Context(t)); err != nil {
				t.Fatal(err)
			}
			h.config.Turn.Release(1)
			h.await("the end of the trouble", func(s *cke.BackupStatus) bool { return s.Trouble("verify") == nil })
		})
	}
}
