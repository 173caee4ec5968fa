package take_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/backup"
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
		for err == nil {
			_, err = store.Prune(ctx, cke.Retention{Last: 2}, false)
		}
	case "copy":
		for i := 0; err == nil; i++ {
			_, err = store.Copy(ctx, backup.Dir(filepath.Join(dir, "copy", fmt.Sprint(i))), backup.CopyFilter{})
		}
	}
	t.Fatal(err)
}

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
			kill(t, r, dir, work)
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

func sound(t *testing.T, d backup.Dir) {
	t.Helper()
	store := &backup.Store{Bucket: d, Cluster: "prod", Scratch: t.TempDir()}
	if report, err := store.Check(etcdtest.Context(t), ""); err != nil || len(report.Findings) > 0 {
		t.Fatalf("%s: %+v, %v", d, report, err)
	}
}

// kill runs a child for a moment.
func kill(t *testing.T, r *taketest.Rig, dir, work string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestKilled_Child$")
	cmd.Env = append(os.Environ(), killWork+"="+work, killWork+"_DIR="+dir, killWork+"_ENDPOINT="+r.Server.Endpoint)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	end := time.After(100*time.Millisecond + rand.N(400*time.Millisecond))
	for i := 0; ; i++ {
		select {
		case err := <-ended:
			t.Fatalf("%s ended of itself: %v\n%s", work, err, said.String())
		case <-end:
			cmd.Process.Kill()
			<-ended
			return
		default:
			r.Put(fmt.Sprint("k", i%200), random(500))
		}
	}
}

// The revision of a full is that of its own content, whatever is written while it streams. A peer asks for it beforehand,
// and cannot restore from what it stored.
func TestTaker_WritesGoOnWhileSnapshotsStream(t *testing.T) {
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
