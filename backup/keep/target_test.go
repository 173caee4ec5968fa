package keep_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/keep"
)

// mount is a directory that can be taken away as `umount` does, and put back.
type mount struct {
	t    *testing.T
	path string
}

func (m mount) move(from, to string) {
	m.t.Helper()
	if err := os.Rename(from, to); err != nil {
		m.t.Fatal(err)
	}
}

func (m mount) umount() {
	m.t.Helper()
	m.move(m.path, m.path+".disk")
	if err := os.Mkdir(m.path, 0o700); err != nil {
		m.t.Fatal(err)
	}
}

func (m mount) mount() {
	m.t.Helper()
	if err := os.Remove(m.path); err != nil { // nothing was written below
		m.t.Fatal(err)
	}
	m.move(m.path+".disk", m.path)
}

func problem(code cke.Code) func(s *cke.BackupStatus) bool {
	return func(s *cke.BackupStatus) bool { return s.Problem != nil && s.Problem.Code == code }
}

func well(s *cke.BackupStatus) bool { return s.Problem == nil }

// An emptied or unmounted target is a problem though nothing changes in the cluster, nothing is written to what is there
// instead, and all goes on when it is back.
func TestKeeper_NoticesATargetThatIsGone(t *testing.T) {
	h := newHouse(t)
	m := mount{t, filepath.Join(t.TempDir(), "mnt")}
	h.target = backup.Dir(m.path)
	h.run().await("a full", hasFull)
	s := h.await("its id", func(s *cke.BackupStatus) bool { return s.TargetID != "" })
	h.until("the files beside the backups", func() bool { // a write that has just checked the target would land below
		all, _ := filepath.Glob(filepath.Join(m.path, "prod", "life1", string(backup.FileIdentity), "2*"))
		return len(all) > 0
	})
	m.umount()
	h.await("the problem", problem(cke.CodeOtherTarget))
	if _, err := h.keeper.Flush(etcdtest.Context(t)); cke.CodeOf(err) != cke.CodeOtherTarget {
		t.Errorf("flush: %v", err)
	}
	last := h.put("a", "b")
	if _, err := h.keeper.Full(etcdtest.Context(t)); cke.CodeOf(err) != cke.CodeOtherTarget {
		t.Errorf("full: %v", err)
	}
	m.mount()
	h.await("all to be stored", func(s *cke.BackupStatus) bool { return s.Revision >= last && s.Connected && well(s) })
	h.stop()

	// A daemon that starts before the file system is mounted, and knows from the status what the target is.
	m.umount()
	last = h.put("c")
	h.wanted.TargetID = s.TargetID
	h.run().await("the problem", problem(cke.CodeOtherTarget))
	m.mount()
	h.await("all to be stored", func(s *cke.BackupStatus) bool { return s.Revision >= last && s.Connected && well(s) })
	h.stop()
	store := &backup.Store{Bucket: h.target, Cluster: "prod", Scratch: t.TempDir()}
	if r, err := store.Check(etcdtest.Context(t), ""); err != nil || len(r.Findings) > 0 || r.LastGood < last {
		t.Errorf("%+v, %v", r, err)
	}
}

// A target that was emptied on purpose is used again once its marker is put there, and begins with a full.
func TestKeeper_UsesAnEmptiedTargetOnceItIsMarked(t *testing.T) {
	h := newHouse(t)
	dir := filepath.Join(t.TempDir(), "target")
	h.target = backup.Dir(dir)
	s := h.run().await("a full", hasFull)
	h.stop()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	h.wanted.TargetID = s.TargetID
	s = h.run().await("the problem", problem(cke.CodeOtherTarget))
	marker := ".target/prod/" + s.TargetID
	if !strings.Contains(s.Problem.Message, marker) {
		t.Errorf("the message does not name %s: %s", marker, s.Problem.Message)
	}
	if err := h.target.Create(t.Context(), marker, backup.Content{}); err != nil {
		t.Fatal(err)
	}
	h.await("a full", func(s *cke.BackupStatus) bool { return hasFull(s) && well(s) })
}

// A target that takes nothing any more is a problem though nothing changes, and its end is noticed.
func TestKeeper_NoticesATargetThatTakesNothing(t *testing.T) {
	h := newHouse(t)
	var readOnly atomic.Bool
	h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(_ context.Context, op, _ string) error {
		if readOnly.Load() && op != "list" && op != "open" {
			return errors.New("403 Forbidden")
		}
		return nil
	}}
	h.run().await("a full", hasFull)
	readOnly.Store(true)
	if _, err := h.keeper.Flush(etcdtest.Context(t)); err == nil {
		t.Error("all is said to be stored")
	}
	h.await("the problem", problem(cke.CodeTarget))
	readOnly.Store(false)
	if _, err := h.keeper.Flush(etcdtest.Context(t)); err != nil {
		t.Error(err)
	}
	h.await("its end", well)
}

// A full waits for its target. Why it does is in the status at once, not once it fails.
func TestKeeper_SaysWhatAFullWaitsFor(t *testing.T) {
	h := newHouse(t)
	h.wanted.Spec.Cluster.Backup.Delta.Period = cke.Duration(time.Hour) // nothing else probes
	h.config.Retry.For = wait
	var refuse atomic.Bool
	h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(_ context.Context, op, name string) error {
		if refuse.Load() && op == "create" {
			return errors.New("read-only file system")
		}
		return nil
	}}
	h.run().await("a full", hasFull)
	h.put("a")
	refuse.Store(true)
	done := make(chan error, 1)
	go func() { _, err := h.keeper.Full(etcdtest.Context(t)); done <- err }()
	h.await("why the full waits", func(s *cke.BackupStatus) bool {
		return s.Problem != nil && s.Problem.Code == cke.CodeTarget && strings.Contains(s.Problem.Message, "read-only file system")
	})
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	refuse.Store(false)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	h.await("the end of it", func(s *cke.BackupStatus) bool { return s.Problem == nil })
}

// What was in a target is read again once the target was emptied or another one, seen or unseen: a full follows, and BackupReady
// is not True before one leads to the newest change.
func TestKeeper_ReadsATargetAgainThatLostBackups(t *testing.T) {
	lineage := "prod/life1/"
	cases := map[string]struct {
		gone   string // prefix of what is deleted
		missed bool   // the loss is seen before the marker is put back
		quiet  bool   // nothing changes afterwards
	}{
		"emptied, and marked again":                   {"", true, false},
		"emptied, and marked again, quiet":            {"", true, true},
		"emptied and marked again between two probes": {"", false, false},
		"emptied but for the marker":                  {lineage, false, true},
		"without its fulls":                           {lineage + "full/", false, false},
		"without its fulls, quiet":                    {lineage + "full/", false, true},
		"without its deltas":                          {lineage + "delta/", false, true},
		"without its first delta, and missed":         {lineage + "delta/00000000000000000002/0000000000", true, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			var away atomic.Bool
			h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(_ context.Context, op, name string) error {
				if away.Load() && strings.HasPrefix(name, ".target/") && op == "open" {
					return backup.ErrNotFound
				}
				return nil
			}}
			id := h.run().await("a full", hasFull).TargetID
			last := int64(0)
			for range 3 {
				last = h.put("a", "b")
				h.await("a delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
			}
			away.Store(c.missed || c.gone == "") // while it is emptied
			all, err := h.memory.List(t.Context(), c.gone)
			if err != nil || len(all) == 0 {
				t.Fatalf("%v, %v", all, err)
			}
			for _, o := range all {
				h.memory.Delete(t.Context(), o.Name)
			}
			if c.missed {
				h.await("the problem", problem(cke.CodeOtherTarget))
				h.put("missed")
			}
			if c.gone == "" {
				h.memory.Set(".target/prod/"+id, nil)
			}
			if !c.quiet {
				last = h.put("c")
			}
			away.Store(false)
			h.await("all to be stored again", func(s *cke.BackupStatus) bool {
				if s.Revision < last || !s.Connected || !well(s) {
					return false
				}
				r, err := h.store().Check(t.Context(), "")
				return err == nil && (c.gone != "" || len(r.Findings) == 0) && r.LastGood >= last
			})
			last = h.put("d")
			h.await("what follows", func(s *cke.BackupStatus) bool { return s.Revision >= last && s.Connected && well(s) })
			l := h.lineage("life1")
			chains := l.Chains()
			if newest := chains[len(chains)-1]; newest.Last < last || newest.Damage != nil {
				t.Errorf("the newest full leads to %d, want %d: %v", newest.Last, last, newest.Damage)
			}
		})
	}
}

// Probes see the newest full and the newest delta only. That another one is missing is seen when all are listed.
func TestKeeper_NoticesAMissingDeltaInTheMiddle(t *testing.T) {
	h := newHouse(t)
	h.run().await("a full", hasFull)
	last := int64(0)
	for range 4 {
		last = h.put("a", "b")
		h.await("a delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
	}
	all, err := h.memory.List(t.Context(), "prod/life1/delta/")
	if err != nil || len(all) < 3 {
		t.Fatal(all, err)
	}
	h.memory.Delete(t.Context(), all[len(all)/2].Name)
	h.ahead.Add(int64(11 * time.Minute))
	s := h.await("the loss to be noticed, and a full", func(s *cke.BackupStatus) bool { return s.Lost != nil && hasFull(s) && well(s) && s.Revision >= last })
	if s.Lost.Code != cke.CodeLostBackups || s.Full.Revision < last {
		t.Errorf("%+v, %+v", s.Lost, s.Full)
	}
	if found, err := h.store().Find(t.Context(), backup.At{}); err != nil || found.Revision < last {
		t.Errorf("%+v, %v", found, err)
	}
}

// The work is broken off after a full was stored and before that was told: the full in the target counts all the same.
func TestKeeper_FindsAFullThatItWasNotToldOf(t *testing.T) {
	h := newHouse(t)
	stored, told := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(_ context.Context, op, name string) error {
		if op == "create" && strings.Contains(name, "/delta/") {
			<-stored
			select {
			case <-told:
			default:
				panic("broken off")
			}
		}
		return nil
	}, After: func(op, name string) error {
		if op == "create" && strings.Contains(name, "/full/") {
			once.Do(func() { close(stored) })
			<-told
		}
		return nil
	}}
	h.run()
	h.await("the fault", func(s *cke.BackupStatus) bool { h.put("a"); return problem(cke.CodeBackupFault)(s) })
	close(told)
	h.await("the full", hasFull)
	last := h.put("b")
	h.await("what follows", func(s *cke.BackupStatus) bool { return s.Revision >= last && s.Connected && well(s) })
	if n := len(h.lineage("life1").Fulls); n != 1 {
		t.Errorf("%d fulls", n)
	}
}

// The target has taken nothing for five hours. The daemon that leads then does not know since when changes wait: they may have for as long.
func TestKeeper_AnotherLeaderTakesNoOldBackupForFresh(t *testing.T) {
	h := newHouse(t)
	var refused atomic.Bool
	h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(_ context.Context, op, _ string) error {
		if refused.Load() && op == "create" {
			return errors.New("503 slow down")
		}
		return nil
	}}
	h.run().await("a full", hasFull)
	refused.Store(true)
	h.put("a", "b", "c")
	h.await("the problem", func(s *cke.BackupStatus) bool { return s.Problem != nil && s.LagRevisions == 3 })
	h.ahead.Store(int64(5 * time.Hour))
	h.stop()
	s := h.run().await("the target to be read", func(s *cke.BackupStatus) bool { return s.Known && s.LagRevisions == 3 })
	if s.Stale(h.config.Now()) == "" {
		t.Errorf("fresh: %+v", s)
	}
	refused.Store(false)
	h.await("the changes to be stored", func(s *cke.BackupStatus) bool { return s.LagRevisions == 0 && s.Problem == nil })
	refused.Store(true)
	h.put("d")
	s = h.await("a change that waits", func(s *cke.BackupStatus) bool { return s.LagRevisions == 1 })
	if why := s.Stale(h.config.Now()); why != "" {
		t.Errorf("a change of now: %s", why)
	}
}

// A directory on another machine hangs once the target has been read: no call returns.
func TestKeeper_SaysThatATargetHangsWhileItIsResumed(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for longer than a probe may take")
	}
	h := newHouse(t)
	h.run().await("a full", hasFull)
	h.stop()
	back := make(chan struct{})
	var lists atomic.Int32
	h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(_ context.Context, op, name string) error {
		if op == "list" && name == "prod/" {
			lists.Add(1)
		}
		if lists.Load() > 1 {
			<-back
		}
		return nil
	}}
	h.run().await("the target to be read", func(s *cke.BackupStatus) bool { return s.Known })
	h.await("the problem", func(s *cke.BackupStatus) bool { return s.Problem != nil })
	close(back)
	last := h.put("a")
	h.await("the change", func(s *cke.BackupStatus) bool { return s.Problem == nil && s.Revision >= last })
}

// What a target is known by is never told of another one, also while the work on that has not ended yet.
func TestKeeper_TellsNoTargetByTheMarkerOfTheOneBefore(t *testing.T) {
	h := newHouse(t)
	other := backuptest.NewMemory()
	h.config.Open = func(_ context.Context, url string) (keep.Target, error) {
		if url == "mem://two" {
			return open{other}, nil
		}
		return open{h.target}, nil
	}
	first := h.run().await("a full", hasFull)
	h.wanted.Spec.Cluster.Backup.Target = "mem://two"
	for range 100 {
		h.keeper.Update(h.wanted)
		if s := h.keeper.Status(); s.Target != "mem://two" || s.TargetID != "" && s.TargetID == first.TargetID {
			t.Fatalf("%s is known by %s, the marker of mem://one", s.Target, s.TargetID)
		}
	}
	h.await("a full", hasFull)
}
