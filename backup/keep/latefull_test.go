package keep_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// A full that was never read back counts for nothing: the one before it is not pruned on its account.
func TestKeeper_KeepsTheLastFullThatWasReadBack(t *testing.T) {
	h := newHouse(t)
	h.wanted.Spec.Cluster.Backup.Retention = cke.Retention{Last: 1}
	var unread atomic.Bool
	h.config.Retry.Attempt = 100 * time.Millisecond
	h.config.Retry.For = time.Millisecond
	h.target = &lateFulls{h.memory, &unread}
	h.run().await("a full", hasFull)
	good := h.lineage("life1").Fulls[0].Place
	unread.Store(true)
	for _, key := range []string{"a", "b", "c"} {
		h.put(key)
		if _, err := h.keeper.Full(etcdtest.Context(t)); err == nil {
			t.Error("it is said to be stored")
		}
		if !slices.ContainsFunc(h.lineage("life1").Fulls, func(e backup.Entry) bool { return e.Place == good }) {
			t.Fatal("the only full that was read back is gone")
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
