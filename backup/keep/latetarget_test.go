package keep_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// A keeper that learns late what its target is known by has begun with a directory over which nothing is mounted. It stores nothing more there, and
// continues in the target once that is back.
func TestKeeper_LearnsLateWhatTheTargetIs(t *testing.T) {
	h := newHouse(t)
	m := mount{t, filepath.Join(t.TempDir(), "mnt")}
	h.target = backup.Dir(m.path)
	id := h.run().await("a full", hasFull).TargetID
	h.stop()
	m.umount()
	h.put("a")
	h.wanted.TargetID = "" // the status could not be read
	if s := h.run().await("a full", hasFull); s.TargetID == id {
		t.Fatal("it is the same target")
	}
	here := func() (names []string) {
		all, err := h.target.List(t.Context(), "prod/")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			names = append(names, o.Name)
		}
		return names
	}
	h.until("what lies beside", func() bool { // else it may be under way when the target becomes another one
		text := strings.Join(here(), " ")
		return strings.Contains(text, "/spec/") && strings.Contains(text, "/identity/")
	})
	h.wanted.TargetID = id
	h.keeper.Update(h.wanted)
	h.await("the problem", problem(cke.CodeOtherTarget))
	before, last := here(), h.put("b")
	flush, cancel := context.WithTimeout(t.Context(), time.Second) // it is refused once its time is over
	defer cancel()
	if _, err := h.keeper.Flush(flush); cke.CodeOf(err) != cke.CodeOtherTarget {
		t.Errorf("flush: %v", err)
	}
	if after := here(); !slices.Equal(before, after) {
		t.Errorf("there was %q, there is %q", before, after)
	}
	if s := h.keeper.Status(); s.TargetID != id {
		t.Errorf("it is known by %s, want %s", s.TargetID, id)
	}
	m.move(m.path, m.path+".below")
	m.move(m.path+".disk", m.path)
	h.await("all to be stored", func(s *cke.BackupStatus) bool { return s.Revision >= last && s.Connected && well(s) })
	last = h.put("c")
	h.await("what follows", func(s *cke.BackupStatus) bool { return s.Revision >= last && s.Connected && well(s) })
	h.stop()
	store := &backup.Store{Bucket: h.target, Cluster: "prod", Scratch: t.TempDir()}
	if r, err := store.Check(etcdtest.Context(t), ""); err != nil || len(r.Findings) > 0 || r.LastGood < last {
		t.Errorf("%+v, %v", r, err)
	}
}

// What another target is known by says nothing of the one that is being left: the last delta is still stored there.
func TestKeeper_LeavesATargetThatOthersAreNotKnownBy(t *testing.T) {
	h := newHouse(t)
	h.wanted.Spec.Cluster.Backup.Delta.Period = cke.Duration(time.Hour)
	h.run().await("a full", hasFull)
	last := h.put("a")
	h.await("the change to be seen", func(s *cke.BackupStatus) bool { return s.LagRevisions > 0 })
	next := h.wanted
	next.Spec.Cluster.Backup.Target, next.TargetID = "memory://other", "M9"
	h.keeper.Update(next)
	h.until("the last delta to be stored", func() bool {
		r, err := h.store().Check(etcdtest.Context(t), "")
		return err == nil && r.LastGood >= last
	})
}
