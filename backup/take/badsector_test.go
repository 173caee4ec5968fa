package take_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/take"
)

// badSector is a directory on a disk that cannot read the body of one object any more: its header can be read. It counts how often deltas are read whole.
type badSector struct {
	backup.Bucket
	name  string
	mu    sync.Mutex
	reads int
}

func (b *badSector) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if length < 0 && strings.Contains(name, "/delta/") {
		b.mu.Lock()
		b.reads++
		b.mu.Unlock()
	}
	r, err := b.Bucket.Open(ctx, name, offset, length)
	if err == nil && length < 0 && name == b.name {
		return struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(r, 100), failing{}), r}, nil
	}
	return r, err
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, syscall.EIO }

// A disk cannot read one delta any more. Prunes must not stop for good on account of it: the target would grow until it is full, and then no backup is taken.
func TestPrune_OneObjectThatCannotBeReadKeepsNotEverything(t *testing.T) {
	t.Parallel()
	memory := backuptest.NewMemory()
	r := begin(t, memory, func(*take.Config) {})
	put := func() {
		r.Put("k", "1")
		r.Flush()
	}
	store := r.Store()
	fullNow(t, r)
	put()
	put()
	old := fullNow(t, r).Place.Name()
	put()
	fullNow(t, r)
	if _, err := store.Drill(etcdtest.Context(t), backup.At{}, nil); err != nil {
		t.Fatal(err)
	}
	put()
	l, err := store.Lineage(t.Context(), "a1b2")
	if err != nil {
		t.Fatal(err)
	}
	bad := l.Streams[0].Deltas[len(l.Streams[0].Deltas)-1].Name()
	put()
	fullNow(t, r)
	prunes := &backup.Store{Bucket: &badSector{Bucket: memory, name: bad}, Cluster: "prod", Scratch: t.TempDir(), Whole: new(backup.Whole)}
	for range 5 { // hours pass
		put()
		fullNow(t, r)
		_, err = prunes.Prune(t.Context(), cke.Retention{Last: 1}, false)
	}
	if !errors.Is(err, syscall.EIO) && err != nil {
		t.Fatal(err)
	}
	if memory.Get(old) != nil {
		t.Errorf("%s, from before the backup that was verified, which nothing needs, is not deleted after 5 prunes: %v", filepath.Base(old), err)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
}
