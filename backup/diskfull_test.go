package backup_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// smallDisk is a file system of its own with room for so many KiB. Making one takes rights that not everybody has.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func grow(t *testing.T, dir, size string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size="+size); err != nil {
		t.Fatal(err)
	}
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range left {
		t.Errorf("%s was left behind", l.Name())
	}
}

// large is a full and deltas of some megabytes.
func large(t *testing.T) (*fixture, *backup.Store) {
	t.Helper()
	s := etcdtest.Start(t, etcdtest.Options{})
	f := &fixture{bucket: backuptest.NewMemory(), states: map[int64]etcdtest.State{}}
	r := taketest.Start(t, s, taketest.Config(s, f.bucket))
	r.Await(take.FullStored)
	for range 4 {
		r.Put("big", noise(1<<20))
	}
	if _, err := r.Taker.Full(etcdtest.Context(t)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.Put("after", noise(1<<20))
	}
	r.Flush()
	st := s.State(t, 0)
	f.states[st.Revision], f.last = st, st.Revision
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	return f, f.store(t, f.bucket)
}

// noise does not compress.
func noise(n int) string {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return string(b)
}

func TestExtract_FullDiskLeavesNothingAndCanBeRepeated(t *testing.T) {
	f, s := large(t)
	disk := smallDisk(t, "16k")
	out := filepath.Join(disk, "out")
	// Whatever runs out of room, the first write, a transaction or the digest at the end: it is told, and nothing stays.
	for _, size := range []string{"16k", "200k", "1m", "3m", "5m", "6m", "6400k", "7m"} {
		grow(t, disk, size)
		_, err := s.Extract(etcdtest.Context(t), backup.At{}, out, backup.ExtractOptions{})
		if err == nil {
			os.Remove(out)
			continue
		}
		if !errors.Is(err, syscall.ENOSPC) || backup.IsDamage(err) {
			t.Errorf("%s: %v", size, err)
		}
		empty(t, disk)
	}
	grow(t, disk, "64m")
	if x, err := s.Extract(etcdtest.Context(t), backup.At{}, out, backup.ExtractOptions{}); err != nil || x.Revision != f.last {
		t.Fatalf("with room: %+v, %v", x, err)
	}
	taketest.SameState(t, f.states[f.last], etcdtest.Open(t, out).State(t, 0))
}

func TestCompactAndDrill_FullScratchIsToldAndChangesNothing(t *testing.T) {
	f, s := large(t)
	s.Scratch = smallDisk(t, "1m")
	before := names(t, f.bucket)
	if _, err := s.Compact(etcdtest.Context(t), backup.At{}, backup.CompactOptions{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("compact: %v", err)
	}
	if _, err := s.Drill(etcdtest.Context(t), backup.At{}, nil); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("drill: %v", err)
	}
	empty(t, s.Scratch)
	if after := names(t, f.bucket); len(after) != len(before) {
		t.Errorf("the store changed: %q", after)
	}
}

// A target that is full takes nothing in part, and goes on as soon as it has room.
func TestDir_FullTargetKeepsWhatItHasAndGoesOn(t *testing.T) {
	disk := smallDisk(t, "64k")
	d := backup.Dir(disk)
	if err := d.Create(t.Context(), "a/small", backup.Content{Head: []byte("here")}); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 1<<20)
	for _, c := range []backup.Content{{Head: data}, backup.BodyContent([]byte("head"), data)} {
		if err := d.Create(t.Context(), "a/large", c); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%v", err)
		}
	}
	if list := names(t, d); len(list) != 1 {
		t.Errorf("%q", list)
	}
	left, err := filepath.Glob(filepath.Join(disk, "a", ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	grow(t, disk, "4m")
	if err := d.Create(t.Context(), "a/large", backup.Content{Head: data}); err != nil {
		t.Error(err)
	}
}

// etcd goes on, and a full follows, when scratch fills up while a snapshot is received.
func TestFull_FullScratchIsToldAndNothingIsStored(t *testing.T) {
	s := etcdtest.Start(t, etcdtest.Options{})
	(&taketest.Rig{T: t, Server: s}).Put("big", noise(1<<20))
	b := backuptest.NewMemory()
	c := taketest.Config(s, b)
	c.Scratch = smallDisk(t, "64k")
	if _, err := take.Full(etcdtest.Context(t), c); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v", err)
	}
	empty(t, c.Scratch)
	if list := names(t, b); len(list) > 0 {
		t.Errorf("stored: %q", list)
	}
	grow(t, c.Scratch, "16m")
	if _, err := take.Full(etcdtest.Context(t), c); err != nil {
		t.Error(err)
	}
}
