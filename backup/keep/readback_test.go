package keep_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// threeFulls returns a house with three fulls, in which no daemon runs.
func threeFulls(t *testing.T) (*house, []backup.Entry) {
	h := newHouse(t)
	h.run().await("a full", hasFull)
	for _, key := range []string{"a", "b"} {
		h.put(key)
		h.full()
	}
	h.stop()
	return h, h.lineage("life1").Fulls
}

// A process may be killed after it uploaded a full and before it read that back. The next one prunes nothing on its account until it has read it.
func TestKeeper_ReadsAFullBackBeforeItPrunesOnItsAccount(t *testing.T) {
	for name, damages := range map[string]bool{"whole": false, "damaged": true} {
		t.Run(name, func(t *testing.T) {
			h, fulls := threeFulls(t)
			oldest, good, unread := fulls[0], fulls[1], fulls[2].Name()
			if damages {
				h.spoil(unread)
			}
			var mu sync.Mutex
			var did []string
			h.target = &watched{h.memory, func(what, name string) {
				mu.Lock()
				defer mu.Unlock()
				did = append(did, what+" "+name)
			}}
			h.wanted.Spec.Cluster.Backup.Retention = cke.Retention{Last: 2}
			h.run()
			if damages {
				if tr := h.await("the damage", func(s *cke.BackupStatus) bool { return s.Trouble("prune") != nil }).Trouble("prune"); tr.Code != cke.CodeBackupDamaged || !strings.Contains(tr.Message, unread) {
					t.Errorf("%+v", tr)
				}
				h.ahead.Store(int64(time.Minute)) // it is tried again
				h.put("c")
			}
			h.until("the oldest full to be pruned", func() bool { return !h.has(oldest) })
			if !h.has(good) {
				t.Error("the damaged full takes the place of one that is whole")
			}
			mu.Lock()
			defer mu.Unlock()
			before := did[:slices.Index(did, "delete "+oldest.Name())]
			if !slices.Contains(before, "read "+unread) {
				t.Error("the newest full was not read back")
			}
			if another := slices.ContainsFunc(before, func(s string) bool { return strings.HasPrefix(s, "create prod/life1/full/") }); another != damages {
				t.Errorf("another full was taken: %v", another)
			}
		})
	}
}

// What was read back and found damaged counts for nothing in the sessions after that, either: nothing is pruned on its account, nor restored from it.
func TestKeeper_DoesNotForgetAFullThatItReadBackDamaged(t *testing.T) {
	h, fulls := threeFulls(t)
	oldest, good, unread := fulls[0], fulls[1], fulls[2]
	h.spoil(unread.Name())
	h.wanted.Spec.Cluster.Backup.Retention = cke.Retention{Last: 2}
	h.run()
	h.await("the damage", func(s *cke.BackupStatus) bool { return s.Trouble("prune") != nil })
	h.ahead.Store(int64(time.Minute))
	h.put("c")
	h.await("the end of it", func(s *cke.BackupStatus) bool { return s.Trouble("prune") == nil })
	if h.has(oldest) || !h.has(good) {
		t.Fatalf("after the first session: the oldest is there: %v, the good one: %v", h.has(oldest), h.has(good))
	}
	h.stop()
	ctx := etcdtest.Context(t)
	plan, err := h.store().Prune(ctx, h.wanted.Spec.Cluster.Backup.Retention, true)
	if err != nil || len(plan.Failing) > 0 || slices.ContainsFunc(plan.Delete, func(r backup.Removal) bool { return r.Name == good.Name() }) {
		t.Errorf("the next session would prune %+v, failing %q, %v", plan.Delete, plan.Failing, err)
	}
	copied := h.store()
	b := h.memory.Clone()
	copied.Bucket = b
	for _, e := range h.lineage("life1").Fulls {
		if e.Name() > unread.Name() { // such as the one of the same revision that was taken instead
			b.Delete(ctx, e.Name())
		}
	}
	if found, err := copied.Find(ctx, backup.At{Revision: unread.Revision}); err != nil || !strings.Contains(strings.Join(found.Notes, " "), unread.ID()) {
		t.Errorf("a restore is not told of the damage: %+v, %v", found, err)
	}
	h.run().await("a full", hasFull)
	h.put("d")
	h.full()
	h.until("the good full to be pruned, since two newer ones are whole", func() bool { return !h.has(good) })
	if s := h.keeper.Status(); s.Trouble("verify") != nil {
		t.Errorf("no drill failed: %+v", s.Trouble("verify"))
	}
}

// What a drill restored was read back. What nothing is deleted on account of is not read.
func TestKeeper_ReadsNoFullBackWithoutNeed(t *testing.T) {
	for name, drilled := range map[string]bool{"drilled": true, "nothing to prune": false} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.run().await("a full", hasFull)
			h.put("a")
			h.full()
			h.stop()
			last := 2
			if drilled {
				last = 1
				if _, err := h.store().Drill(etcdtest.Context(t), backup.At{}, nil); err != nil {
					t.Fatal(err)
				}
			}
			h.target = &watched{h.memory, func(what, name string) {
				if p, is := backup.ParsePlace(name); is && p.Kind == backup.KindFull && what == "read" {
					t.Errorf("%s was read whole", name)
				}
			}}
			h.wanted.Spec.Cluster.Backup.Retention = cke.Retention{Last: last}
			h.run().await("the target to be read", hasFull)
			h.until("what is not kept to be pruned", func() bool { return len(h.lineage("life1").Fulls) <= last })
			h.stop()
		})
	}
}

// watched tells what is read whole, created and deleted, before it is.
type watched struct {
	backup.Bucket
	tell func(what, name string)
}

func (b *watched) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if offset == 0 && length < 0 {
		b.tell("read", name)
	}
	return b.Bucket.Open(ctx, name, offset, length)
}

func (b *watched) Create(ctx context.Context, name string, c backup.Content) error {
	b.tell("create", name)
	return b.Bucket.Create(ctx, name, c)
}

func (b *watched) Delete(ctx context.Context, name string) error {
	b.tell("delete", name)
	return b.Bucket.Delete(ctx, name)
}
