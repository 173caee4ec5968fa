package take_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// killWork tells a child process of this test what to do for ever.
const killWork = "CKE_TEST_WORK"

// TestKilled_Child is no test: it is what the next one runs, and kills.
func TestKilled_Child(t *testing.T) {
	work := os.Getenv(killWork)
	if work == "" {
		t.Skip("this is run by TestKilled_AtAnyInstant")
	}
	ctx := context.Background()
	dir, endpoint := os.Getenv(killWork+"_DIR"), os.Getenv(killWork+"_ENDPOINT")
	c := taketest.Config(&etcdtest.Server{Endpoint: endpoint}, backup.Dir(filepath.Join(dir, "target")))
	c.Scratch = filepath.Join(dir, "scratch")
	store := &backup.Store{Bucket: c.Bucket, Cluster: c.Cluster, Scratch: c.Scratch}
	var err error
	switch work {
	case "take":
		c.Delta = cke.BackupDelta{Period: cke.Duration(time.Millisecond), Size: 1}
		var taker *take.Taker
		if taker, err = take.New(c); err != nil {
			break
		}
		go taker.Run(ctx)
		for err == nil {
			_, err = taker.Full(ctx)
		}
	case "compact":
		for err == nil {
			err = compactAnew(ctx, store)
		}
	case "prune":
		store.Bucket = &backuptest.Faulty{Bucket: c.Bucket, Before: func(_ context.Context, op, name string) error {
			if op == "delete" && !strings.HasPrefix(name, ".") { // no lock
				return note(filepath.Join(dir, deletions), name)
			}
			return nil
		}}
		for err == nil {
			_, err = store.Prune(ctx, killKeeps, false)
		}
	case "copy":
		for i := 0; err == nil; i++ {
			_, err = store.Copy(ctx, backup.Dir(filepath.Join(dir, "copy", fmt.Sprint(i))), backup.CopyFilter{})
		}
	}
	t.Fatal(err)
}

// deletions is a file in which a child notes what it is about to delete.
const deletions = "deletions"

func note(file, line string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// killKeeps is what those who prune keep.
var killKeeps = cke.Retention{Last: 2}

// compactAnew compacts, and removes the result so that there is something to do again.
func compactAnew(ctx context.Context, store *backup.Store) error {
	p, err := store.Compact(ctx, backup.At{}, backup.CompactOptions{})
	if err != nil {
		return err
	}
	h, err := backup.ReadHeader(ctx, store.Bucket, p)
	if err != nil || !h.Merged {
		return err
	}
	return store.Bucket.Delete(ctx, p.Name())
}

// Processes that are killed while they take, compact, prune and copy, again and again, leave a target that is sound, that
// holds everything, and that the next one goes on with.
func TestKilled_AtAnyInstant(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "scratch"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := etcdtest.Start(t, etcdtest.Options{})
	target := backup.Dir(filepath.Join(dir, "target"))
	r := &taketest.Rig{T: t, Server: s}
	for i := range 200 {
		r.Put(fmt.Sprint("k", i), random(2000))
	}
	if _, err := take.Full(etcdtest.Context(t), taketest.Config(s, target)); err != nil {
		t.Fatal(err)
	}
	rounds := 5
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		for _, work := range []string{"take", "compact", "prune", "copy"} {
			if work == "prune" {
				killPruning(t, s, dir, target)
			} else {
				end := time.After(100*time.Millisecond + rand.N(400*time.Millisecond))
				kill(t, dir, work, s, func(i int) bool {
					r.Put(fmt.Sprint("k", i%200), random(500))
					select {
					case <-end:
						return false
					default:
						return true
					}
				})
			}
			sound(t, target)
			left, err := filepath.Glob(filepath.Join(dir, "copy", "*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range left { // the last one is half done: it is gone on with
				store := &backup.Store{Bucket: target, Cluster: "prod"}
				if _, err := store.Copy(etcdtest.Context(t), backup.Dir(d), backup.CopyFilter{}); err != nil {
					t.Fatal(err)
				}
				sound(t, backup.Dir(d))
			}
			os.RemoveAll(filepath.Join(dir, "copy"))
		}
		// The next one goes on from there, and what is in the target is what the cluster holds.
		next := taketest.Start(t, s, taketest.Config(s, target))
		next.Put("round", fmt.Sprint(round))
		next.Flush()
		same(t, next, target)
		if err := next.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// killPruning kills one who prunes right when it deletes, for which there is ever more.
func killPruning(t *testing.T, s *etcdtest.Server, dir string, target backup.Dir) {
	t.Helper()
	file := filepath.Join(dir, deletions)
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	feeder := taketest.Start(t, s, taketest.Config(s, target))
	enough := 1 + rand.N(12)
	limit := time.Now().Add(5 * time.Minute)
	kill(t, dir, "prune", s, func(i int) bool {
		noted, _ := os.ReadFile(file)
		if bytes.Count(noted, []byte("\n")) >= enough {
			return false
		}
		if time.Now().After(limit) {
			t.Fatalf("of %d objects that were to be deleted %q were", enough, noted)
		}
		feeder.Put(fmt.Sprint("k", i%200), random(500))
		feeder.Flush()
		if i%3 == 2 {
			if _, err := feeder.Taker.Full(etcdtest.Context(t)); err != nil {
				t.Fatal(err)
			}
		}
		return true
	})
	if err := feeder.Stop(); err != nil {
		t.Fatal(err)
	}
	prunedHalf(t, s, target)
}

// prunedHalf checks what is left by one who was killed while he pruned: all that is to be kept can be restored; what was
// to go may have a hole, until it is pruned again.
func prunedHalf(t *testing.T, s *etcdtest.Server, target backup.Dir) {
	t.Helper()
	store := &backup.Store{Bucket: target, Cluster: "prod", Scratch: t.TempDir()}
	report, err := store.Check(etcdtest.Context(t), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		if !strings.Contains(f.Problem, "no object has this sequence number") {
			t.Errorf("%+v", f)
		}
	}
	plan, err := store.Prune(etcdtest.Context(t), killKeeps, true)
	if err != nil {
		t.Fatal(err)
	}
	l, err := store.Lineage(etcdtest.Context(t), "a1b2")
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, f := range l.Fulls {
		if slices.ContainsFunc(plan.Delete, func(r backup.Removal) bool { return r.Name == f.Name() }) {
			continue
		}
		kept++
		got, x := taketest.Extract(t, store, backup.At{Full: f.ID()})
		taketest.SameState(t, s.State(t, x.Revision), got.State(t, 0))
	}
	if want := s.State(t, 0); kept < killKeeps.Last || report.LastGood != want.Revision {
		t.Errorf("%d fulls are kept, and revision %d can be restored, of %d", kept, report.LastGood, want.Revision)
	}
	if _, err := store.Prune(etcdtest.Context(t), killKeeps, false); err != nil {
		t.Fatal(err)
	}
}

func sound(t *testing.T, d backup.Dir) {
	t.Helper()
	store := &backup.Store{Bucket: d, Cluster: "prod", Scratch: t.TempDir()}
	if report, err := store.Check(etcdtest.Context(t), ""); err != nil || len(report.Findings) > 0 {
		t.Fatalf("%s: %+v, %v", d, report, err)
	}
}

// kill runs a child, does something over and over beside it, and kills the child once that returns false.
func kill(t *testing.T, dir, work string, s *etcdtest.Server, beside func(i int) bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestKilled_Child$")
	cmd.Env = append(os.Environ(), killWork+"="+work, killWork+"_DIR="+dir, killWork+"_ENDPOINT="+s.Endpoint)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		cmd.Process.Kill()
		<-ended
		// The locks of the dead end after a minute, for which nobody waits here.
		if err := os.RemoveAll(filepath.Join(dir, "target", ".locks")); err != nil {
			t.Error(err)
		}
		scratch := filepath.Join(dir, "scratch")
		if err := backup.SweepScratch(scratch); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
			t.Errorf("%d scratch directories of a killed process are left: %v", len(left), err)
		}
	}()
	for i := 0; beside(i); i++ {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s ended of itself: %v\n%s", work, err, said.String())
		default:
		}
	}
}

// The revision of a full is that of its own content, whatever is written while it streams. A peer asks for it beforehand,
// and cannot restore from what it stored.
func TestTaker_WritesGoOnWhileSnapshotsStream(t *testing.T) {
	t.Parallel()
	b := backup.Dir(t.TempDir())
	r := begin(t, b, nil)
	enough := make(chan struct{})
	written := make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-enough: // none is broken off: it might be applied after all that follows
				written <- nil
				return
			default:
			}
			if _, err := r.Server.Client.Put(t.Context(), fmt.Sprint("k", i%50), random(3000)); err != nil {
				written <- err
				return
			}
		}
	}()
	var fulls []backup.Header
	for range 5 {
		h, err := r.Taker.Full(etcdtest.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		fulls = append(fulls, h)
	}
	close(enough)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	r.Flush()
	same(t, r, b)
	for i, h := range fulls {
		if i > 0 && h.Last == fulls[i-1].Last {
			t.Errorf("nothing was written between two fulls")
		}
		for _, at := range []backup.At{{Full: h.Place.ID()}, {Revision: h.Last}, {Revision: h.Last + 1}} {
			got, x := taketest.Extract(t, r.Store(), at)
			if x.Deltas == 0 && x.Revision != h.Last {
				t.Errorf("full %s holds revision %d", h.Place.ID(), x.Revision)
			}
			taketest.SameState(t, r.Server.State(t, x.Revision), got.State(t, 0))
		}
	}
}
