package keep_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// noFulls refuses fulls while on, as a target that has no room for one.
type noFulls struct {
	backup.Bucket
	on, asked atomic.Bool
}

func (n *noFulls) Create(ctx context.Context, name string, c backup.Content) error {
	if n.on.Load() && strings.Contains(name, "/full/") {
		n.asked.Store(true)
		return errors.New("no room")
	}
	return n.Bucket.Create(ctx, name, c)
}

// What leads to the newest state is a full that is damaged. Until another one is stored, the status does not say that this state can be restored:
// within the session that finds the damage, and in the next one, which takes the full that a kill prevented.
func TestKeeper_ReplacesAFullThatWasFoundWrong(t *testing.T) {
	for name, drills := range map[string]bool{"read back": false, "drilled": true} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			ctx := etcdtest.Context(t)
			h.run().await("a full", hasFull)
			h.put("a")
			h.full()
			h.stop()
			last := h.put("lost1", "lost2", "lost3") // a gap: compacted while no daemon runs
			if _, err := h.etcd.Client.Compact(ctx, last); err != nil {
				t.Fatal(err)
			}
			h.run().await("the full after the gap", func(s *cke.BackupStatus) bool { return hasFull(s) && s.Full.Revision >= last && s.Problem == nil })
			last = h.put("after")
			h.await("a delta", func(s *cke.BackupStatus) bool { return s.Revision >= last && s.LagRevisions == 0 })
			h.stop()
			fulls := h.lineage("life1").Fulls
			bad := fulls[len(fulls)-1]
			h.spoil(bad.Name())

			n := &noFulls{Bucket: h.memory}
			n.on.Store(true)
			h.target = n
			work := "prune"
			if drills {
				work = "verify"
				h.wanted.Spec.Cluster.Backup.Verify.Schedule = "0 * * * *"
				h.run().await("the target to be read", hasFull)
				h.ahead.Store(int64(2 * time.Hour))
				h.put("b")
			} else {
				h.wanted.Spec.Cluster.Backup.Retention = cke.Retention{Last: 2}
				h.run()
			}
			h.until("a full to be taken", n.asked.Load)
			if s := h.await("the damage", func(s *cke.BackupStatus) bool { return s.Trouble(work) != nil }); s.Connected || s.Full.ID == bad.ID() {
				t.Errorf("the full that was found wrong counts: %+v", s)
			}
			h.stop()

			n.asked.Store(false)
			h.run().await("a status", func(s *cke.BackupStatus) bool { return s.Known && n.asked.Load() })
			if s := h.keeper.Status(); s.Connected || s.Full.ID == bad.ID() {
				t.Errorf("in the next session it counts: %+v", s)
			}
			n.on.Store(false)
			h.put("x")
			if s := h.await("another full", hasFull); s.Full.Revision < last {
				t.Errorf("%+v", s)
			}
			if found, err := h.store().Find(ctx, backup.At{}); err != nil || found.Revision < last {
				t.Errorf("restore of the newest: %+v, %v", found, err)
			}
		})
	}
}
