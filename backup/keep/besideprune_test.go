package keep_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/backup"
)

// longRead is a directory on a slow disk: to read a full whole takes until it is let go.
type longRead struct {
	backup.Bucket
	reading atomic.Bool
	let     chan struct{}
}

func (b *longRead) Unwrap() backup.Bucket { return b.Bucket }

func (b *longRead) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if length < 0 && strings.Contains(name, "/full/") {
		b.reading.Store(true)
		select {
		case <-b.let:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return b.Bucket.Open(ctx, name, offset, length)
}

// A prune reads what it relies on, which takes long for a large database on a slow target. The cluster file and the identity are stored beside the backups
// meanwhile, as they are while a drill or a merge runs: on a new host they say who the members are.
func TestKeeper_StoresFilesBesideWhileAPruneReads(t *testing.T) {
	h := newHouse(t)
	dir := t.TempDir()
	slow := &longRead{Bucket: backup.Dir(dir), let: make(chan struct{})}
	h.target = slow
	defer close(slow.let)
	h.wanted.Spec.Cluster.Backup.Retention = cke.Retention{Last: 1}
	h.run().await("a full", hasFull)
	h.put("a")
	h.full()
	h.until("a prune that reads", slow.reading.Load)
	h.wake("changed while a prune reads")
	stored := func() (is bool) {
		files, err := filepath.Glob(filepath.Join(dir, "prod", "life1", "spec", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			is = is || err == nil && strings.Contains(string(data), "changed while a prune reads")
		}
		return is
	}
	for end := time.Now().Add(8 * time.Second); !stored(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the cluster file is not stored while a prune reads")
		}
	}
}
