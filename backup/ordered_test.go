package backup_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// orders are those in a store, by cluster.
type orders map[string]struct {
	asked  cke.Requests
	id     cke.Identity
	failed error
}

func (o orders) Clusters(context.Context) (names []string, err error) {
	for name := range o {
		names = append(names, name)
	}
	return names, nil
}

func (o orders) RequestsOf(_ context.Context, cluster string) (cke.Requests, error) {
	return o[cluster].asked, o[cluster].failed
}

func (o orders) Identity(_ context.Context, cluster string) (cke.Identity, error) {
	return o[cluster].id, nil
}

func TestOrdered_NamesEachRestoreThatMayStillRead(t *testing.T) {
	from := func(source string) *cke.RestoreOrder { return &cke.RestoreOrder{Target: "file:///b", Source: source} }
	task := func(kind cke.TaskKind, o *cke.RestoreOrder) cke.Requests {
		return cke.Requests{Tasks: []cke.Task{{Kind: cke.TaskReplace}, {Kind: kind, Restore: o, By: "ann@boot-2"}}}
	}
	restoring := func(before *cke.Incarnation, o *cke.RestoreOrder) *cke.Incarnation {
		return &cke.Incarnation{State: cke.Restoring, Restore: &cke.Restoration{Order: *o, By: "ann@boot-2", Before: before}}
	}
	started := cke.Identity{Incarnation: restoring(nil, from("prod")), Joins: []cke.Join{{StartedAt: time.Now()}}}
	for name, row := range map[string]struct {
		asked  cke.Requests
		id     cke.Identity
		failed error
		want   string // "": nothing is ordered
	}{
		"nothing":                      {},
		"it is requested":              {asked: task(cke.TaskRestore, from("prod")), want: "ann@boot-2 has requested to restore stage"},
		"of another cluster's backups": {asked: task(cke.TaskRestore, from("other"))},
		"of a member's data":           {asked: task(cke.TaskRestore, &cke.RestoreOrder{Survivor: "n1", Source: "prod"})},
		"it is canceled":               {asked: task(cke.TaskCancelRestore, nil)},
		"it is prepared":               {id: cke.Identity{Incarnation: restoring(nil, from("prod"))}, want: "it is being prepared"},
		"it continues if one is called off": {id: cke.Identity{Incarnation: restoring(restoring(nil, from("prod")), from("other"))},
			want: "it is being prepared"},
		"its members may have been started": {id: started},
		"the cluster is deleted":            {failed: cke.ErrNotFound},
		"a task cannot be decoded":          {asked: cke.Requests{Unread: []string{"t7"}}, want: "request t7"},
		"it cannot be read":                 {failed: context.DeadlineExceeded, want: "cluster stage: " + context.DeadlineExceeded.Error()},
	} {
		err := backup.Ordered(t.Context(), orders{"stage": {row.asked, row.id, row.failed}}, "prod")
		switch {
		case row.want == "" && err != nil, row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s: %v", name, err)
		case row.want != "" && errors.Is(err, backup.ErrBusy) != (row.failed == nil):
			t.Errorf("%s: is it busy? %v", name, err)
		}
	}
}

// Between an order to restore and its first read no process holds a lock.
func TestPrune_DeletesNothingWhileARestoreIsOrdered(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	fulls, _ := f.objects(t)
	unread := errors.New("the store does not answer")
	for _, why := range []error{backup.ErrBusy, unread} {
		mem := f.bucket.Clone()
		s := f.store(t, mem)
		s.Ordered = func(context.Context) error { return why }
		_, pruned := s.Prune(ctx, cke.Retention{Last: 1}, false)
		_, deleted := s.Delete(ctx, place(t, fulls[0]).ID(), true)
		if !errors.Is(pruned, why) || !errors.Is(deleted, why) {
			t.Errorf("prune: %v, delete: %v", pruned, deleted)
		}
		if left := names(t, mem); len(left) != 8 {
			t.Errorf("left are %q", left)
		}
		if _, err := s.Compact(ctx, backup.At{}, backup.CompactOptions{}); err != nil { // it adds a full, and deletes nothing
			t.Error(err)
		}
		f.extractOK(t, mem, backup.At{Revision: f.fulls[0] + 3})
	}
}

// A deletion that has begun when a restore is ordered stops as it does for a reader, and where that cannot be read.
func TestPrune_StopsWhenARestoreIsOrdered(t *testing.T) {
	f := stoppedFixture(t)
	for _, why := range []error{backup.ErrBusy, errors.New("the store does not answer")} {
		synctest.Test(t, func(t *testing.T) {
			mem := f.bucket.Clone()
			var ordered atomic.Bool
			b := once(mem, "create", "/pruning/", func() {
				ordered.Store(true)
				time.Sleep(backup.DefaultLockTTL/4 + time.Second) // it renews its lock meanwhile
			})
			s := f.store(t, b)
			s.Ordered = func(context.Context) error {
				if ordered.Load() {
					return why
				}
				return nil
			}
			if _, err := s.Prune(t.Context(), cke.Retention{Last: 1}, false); !errors.Is(err, why) {
				t.Errorf("it went on: %v", err)
			}
			f.whole(t, mem)
			for _, o := range names(t, f.bucket) {
				if mem.Get(o) == nil {
					t.Errorf("%s is gone", o)
				}
			}
		})
	}
}

// What a restore has read it may have to read again, on another host: its hold keeps deletions away until it is over, also those of
// processes that know nothing of its order.
func TestHold_KeepsDeletionsAwayBetweenReads(t *testing.T) {
	f := stoppedFixture(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		mem := f.bucket.Clone()
		s := f.store(t, mem)
		release, notes, err := s.Hold(ctx, "restore prod")
		if err != nil || len(notes) > 0 {
			t.Fatal(notes, err)
		}
		if _, err := s.Extract(ctx, backup.At{}, filepath.Join(t.TempDir(), "x"), backup.ExtractOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * backup.DefaultLockTTL)
		_, err = f.store(t, mem).Prune(ctx, cke.Retention{Last: 1}, false)
		if !errors.Is(err, backup.ErrBusy) || !strings.Contains(err.Error(), "restore prod") {
			t.Errorf("prune: %v", err)
		}
		release()
		if _, err := f.store(t, mem).Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
			t.Error(err)
		}
	})
}

// A full target takes no lock. A restore is ordered while backups are being deleted to make room: the deletion has to end.
func TestPrune_OfAFullTargetStopsWhenARestoreIsOrdered(t *testing.T) {
	f := stoppedFixture(t)
	synctest.Test(t, func(t *testing.T) {
		mem := f.bucket.Clone()
		var ordered atomic.Bool
		deleted := 0
		b := &backuptest.Faulty{Bucket: mem, Before: func(_ context.Context, op, name string) error {
			switch {
			case op == "create":
				return fmt.Errorf("write %s: %w", name, syscall.ENOSPC)
			case op == "delete" && !strings.Contains(name, ".locks/"):
				if ordered.Load() {
					deleted++
				}
				ordered.Store(true)               // after the first
				time.Sleep(backup.DefaultLockTTL) // each takes long
			}
			return nil
		}}
		s := f.store(t, b)
		s.Ordered = func(context.Context) error {
			if ordered.Load() {
				return backup.ErrBusy
			}
			return nil
		}
		_, err := s.Prune(t.Context(), cke.Retention{Last: 1}, false)
		if deleted > 0 || !errors.Is(err, backup.ErrBusy) {
			t.Errorf("%d objects were deleted, a minute and more after a restore was ordered: %v", deleted, err)
		}
	})
}
