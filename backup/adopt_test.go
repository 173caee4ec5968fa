package backup

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

var h0 = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// allocated is the room that a file takes on disk.
func allocated(t *testing.T, file string) int64 {
	t.Helper()
	var s syscall.Stat_t
	if err := syscall.Stat(file, &s); err != nil {
		t.Fatal(err)
	}
	return s.Blocks * 512
}

// sealedFull is a full of which the body is in a local file.
func sealedFull(t *testing.T, scratch string) (Content, Header) {
	t.Helper()
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	if err := os.WriteFile(snapshot, database(t, 4096, func(db *bolt.DB) { putRecords(t, db, 2, 2000, []byte("value")) }), 0o600); err != nil {
		t.Fatal(err)
	}
	c, h, err := SealFull(t.Context(), snapshot, filepath.Join(scratch, "body"), Dir(t.TempDir()), Header{Place: FullPlace("prod", "l", 0, h0)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, h
}

func inode(t *testing.T, file string) uint64 {
	t.Helper()
	var s syscall.Stat_t
	if err := syscall.Stat(file, &s); err != nil {
		t.Fatal(err)
	}
	return s.Ino
}

func TestDir_TakesTheFileOfAFullAsItIs(t *testing.T) {
	scratch := t.TempDir()
	d := Dir(t.TempDir())
	c, h := sealedFull(t, scratch)
	want, err := c.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	whole, err := io.ReadAll(want)
	if err != nil {
		t.Fatal(err)
	}
	c.FlushAhead(d)()
	if err := d.Create(t.Context(), h.Place.Name(), c); err != nil {
		t.Fatal(err)
	}
	object := filepath.Join(string(d), h.Place.Name())
	if inode(t, object) != inode(t, filepath.Join(scratch, "body")) {
		t.Error("the file was copied")
	}
	// It is taken: another object of the same body is a copy, and leaves the first alone.
	h.Writer = "another"
	other, err := c.WithHeader(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Create(t.Context(), h.Place.Name(), other); !errors.Is(err, ErrExists) {
		t.Errorf("the same name again: %v", err)
	}
	if err := d.Create(t.Context(), "prod/l/other", other); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(scratch); err != nil {
		t.Fatal(err)
	}
	for name, head := range map[string][]byte{h.Place.Name(): c.Head, "prod/l/other": other.Head} {
		got, err := os.ReadFile(filepath.Join(string(d), name))
		if err != nil || !bytes.Equal(got, append(bytes.Clone(head), whole[headRoom:]...)) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if got, err := ReadHeader(t.Context(), d, h.Place); err != nil || got.Last != 2000 {
		t.Errorf("%+v, %v", got, err)
	}
	if left, err := filepath.Glob(filepath.Join(string(d), "prod/l/full", partial+"*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// On another file system, and after a sync that failed, the body is copied and its digest checked on the way.
func TestDir_CopiesWhatItCannotTake(t *testing.T) {
	other, err := os.MkdirTemp("/dev/shm", "cke-test-")
	if err != nil {
		t.Skipf("no second file system: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(other) })
	for name, scratch := range map[string]string{"another file system": other, "suspect": t.TempDir()} {
		d := Dir(t.TempDir())
		c, h := sealedFull(t, scratch)
		if name == "suspect" {
			c.Body.(*fileBody).suspect.Store(true)
		}
		body := filepath.Join(scratch, "body")
		whole, err := os.ReadFile(body)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(body, append(bytes.Clone(whole[:len(whole)-1]), whole[len(whole)-1]^1), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := d.Create(t.Context(), h.Place.Name(), c); !IsDamage(err) {
			t.Errorf("%s: altered on disk: %v", name, err)
		}
		if err := os.WriteFile(body, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := d.Create(t.Context(), h.Place.Name(), c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		object := filepath.Join(string(d), h.Place.Name())
		if inode(t, object) == inode(t, body) {
			t.Errorf("%s: the file itself was taken", name)
		}
		if _, err := ReadHeader(t.Context(), d, h.Place); err != nil {
			t.Error(err)
		}
		os.Remove(body)
	}
}
