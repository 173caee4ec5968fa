package take_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/take"
)

// readsOf counts how often each delta is read whole.
type readsOf struct {
	backup.Bucket
	mu  sync.Mutex
	all map[string]int
}

func (b *readsOf) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if length < 0 && strings.Contains(name, "/delta/") {
		b.mu.Lock()
		b.all[name]++
		b.mu.Unlock()
	}
	return b.Bucket.Open(ctx, name, offset, length)
}

// A prune that meets a delta that cannot be read is repeated. Those that it has read are not read again each time.
func TestPrune_WhatWasReadBeforeATroubleIsNotReadAgain(t *testing.T) {
	t.Parallel()
	memory := backuptest.NewMemory()
	r := begin(t, memory, func(*take.Config) {})
	store := r.Store()
	put := func() {
		r.Put("k", "1")
		r.Flush()
	}
	fullNow(t, r)
	if _, err := store.Drill(etcdtest.Context(t), backup.At{}, nil); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		put()
	}
	l, err := store.Lineage(t.Context(), "a1b2")
	if err != nil {
		t.Fatal(err)
	}
	deltas := l.Streams[0].Deltas
	bad := deltas[len(deltas)-1].Name()
	for range 2 {
		fullNow(t, r)
		put()
	}
	fullNow(t, r)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	counted := &readsOf{Bucket: memory, all: map[string]int{}}
	prunes := &backup.Store{Bucket: &badSector{Bucket: counted, name: bad}, Cluster: "prod", Scratch: t.TempDir(), Whole: new(backup.Whole)}
	for range 5 {
		if _, err := prunes.Prune(t.Context(), cke.Retention{Last: 1}, false); err != nil {
			t.Fatal(err)
		}
	}
	again := 0
	for name, n := range counted.all {
		if name != bad && n > 2 {
			again++
		}
	}
	if again > 0 {
		t.Errorf("5 prunes read %d of %d sound deltas more than twice, such as %s %d times", again, len(counted.all)-1, deltas[0].Name(), counted.all[deltas[0].Name()])
	}
}
