package keep_test

import (
	"strings"
	"testing"

	"golang.org/x/sync/semaphore"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
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
				h.full()
				fulls := h.lineage("life1").Fulls
				damaged = fulls[1].ID()
				h.spoil(fulls[1].Name())
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
			h.full()
			h.config.Turn.Release(1)
			h.await("the end of the trouble", func(s *cke.BackupStatus) bool { return s.Trouble("verify") == nil })
		})
	}
}

// While no daemon leads, the target is set back to an earlier state, or everything but its marker is deleted. The next
// leader knows from the status how far it led.
func TestKeeper_ANewLeaderNoticesWhatTheTargetLost(t *testing.T) {
	for name, c := range map[string]struct{ setBack, emptied bool }{"nothing": {}, "its newest part": {setBack: true}, "all": {emptied: true}} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			id := h.run().await("a full", hasFull).TargetID
			stored := func() (last int64) {
				for range 3 {
					last = h.put("a")
					h.await("a delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
					h.full()
				}
				return last
			}
			stored()
			old := h.memory.Clone()
			last := stored()
			h.stop()
			if c.emptied {
				old = backuptest.NewMemory()
				old.Set(".target/prod/"+id, nil)
			}
			if c.setBack || c.emptied {
				h.memory, h.target = old, old
			}
			h.wanted.TargetID, h.wanted.Stored = id, last
			s := h.run().await("all to be stored", func(s *cke.BackupStatus) bool { return hasFull(s) && s.Revision >= last && s.Problem == nil })
			if lost := s.Lost != nil; lost != (c.setBack || c.emptied) || lost && s.Lost.Code != cke.CodeLostBackups {
				t.Fatalf("%+v", s.Lost)
			}
			if s.Lost != nil && s.Full.Revision < last {
				t.Errorf("no full followed: %+v", s.Full)
			}
		})
	}
}
