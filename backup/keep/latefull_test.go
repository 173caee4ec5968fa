package keep_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// Fulls that are reported as failed, and are in the target all the same, do not pile up.
func TestKeeper_PrunesAfterAFullThatMayHaveBeenStored(t *testing.T) {
	h := newHouse(t)
	h.wanted.Spec.Cluster.Backup.Retention = cke.Retention{Last: 1}
	var unread atomic.Bool
	h.config.Retry.Attempt = 100 * time.Millisecond
	h.config.Retry.For = time.Millisecond
	h.target = &lateFulls{h.memory, &unread}
	h.run().await("a full", hasFull)
	unread.Store(true)
	for _, key := range []string{"a", "b", "c"} {
		h.put(key)
		if _, err := h.keeper.Full(etcdtest.Context(t)); err == nil {
			t.Error("it is said to be stored")
		}
	}
	for end := time.Now().Add(wait); len(h.lineage("life1").Fulls) > 1; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d fulls are kept", len(h.lineage("life1").Fulls))
		}
	}
}

// lateFulls stores fulls, and cannot read back in time what it has stored.
type lateFulls struct {
	backup.Bucket
	on *atomic.Bool
}

func (b *lateFulls) Create(ctx context.Context, name string, c backup.Content) error {
	err := b.Bucket.Create(ctx, name, c)
	if p, is := backup.ParsePlace(name); err == nil && is && p.Kind == backup.KindFull && b.on.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (b *lateFulls) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if p, is := backup.ParsePlace(name); is && p.Kind == backup.KindFull && b.on.Load() && length < 0 {
		return nil, errors.New("timeout")
	}
	return b.Bucket.Open(ctx, name, offset, length)
}
