package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"cke/backup"
	"cke/backup/take"
)

const (
	manyEvents    = 1_000_000
	eventsInDelta = 10_000
)

// benchManyDeltas restores a small full and a million changes, and a quarter of them, to see how time and memory grow.
func benchManyDeltas(ctx context.Context, h *host) ([]figure, error) {
	b, err := newBackedUp(ctx, filepath.Join(h.dir, "backup-deltas"))
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.dir)
	defer b.etcd.Close()
	full, err := take.Full(ctx, b.config)
	if err != nil {
		return nil, err
	}
	if err := b.putDeltas(ctx, full.Last+1, manyEvents); err != nil {
		return nil, err
	}
	var took [2]time.Duration
	var above [2]float64
	for i, n := range []int64{manyEvents / 4, manyEvents} {
		out := filepath.Join(b.dir, fmt.Sprint(n))
		took[i], above[i], err = measured(func() error {
			_, err := b.store().Extract(ctx, backup.At{Revision: full.Last + n}, out, backup.ExtractOptions{})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return []figure{
		{name: "1M events: restored", value: manyEvents / took[1].Seconds(), unit: "/s"},
		{name: "1M events: time of each, to those of 250k", value: took[1].Seconds() / 4 / took[0].Seconds(), unit: "x", target: 1.2},
		{name: "250k events: memory above the mapped file", value: above[0], unit: "MiB", target: 64},
		{name: "1M events: memory above the mapped file", value: above[1], unit: "MiB", target: 64},
	}, nil
}

// putDeltas stores changes as a Taker would.
func (b *backedUp) putDeltas(ctx context.Context, first int64, n int64) error {
	for from := int64(0); from < n; from += eventsInDelta {
		begin := first + from
		w, err := backup.NewDeltaWriter(begin, b.config.Recipients)
		if err != nil {
			return err
		}
		changes := make([]backup.Change, eventsInDelta)
		for i := range changes {
			rev := begin + int64(i)
			changes[i] = backup.Change{Key: fmt.Appendf(nil, "key/%08d", rev%100_000), Value: slices.Clone(b.etcd.fill.next()[:100]),
				CreateRevision: rev, ModRevision: rev, Version: 1}
		}
		if err := w.Add(changes, time.Now()); err != nil {
			return err
		}
		c, h, err := w.Seal(backup.Header{Place: backup.DeltaPlace(b.config.Cluster, b.config.Lineage, first, from/eventsInDelta, begin)})
		if err != nil {
			return err
		}
		if err := b.config.Bucket.Create(ctx, h.Place.Name(), c); err != nil {
			return err
		}
	}
	return nil
}

// sampled is how often memory is observed.
const sampled = 5 * time.Millisecond

// measured returns how long work took, and by how many MiB the memory of this process that is no mapped file grew
// meanwhile at most.
func measured(work func() error) (took time.Duration, above float64, err error) {
	debug.FreeOSMemory()
	before, err := anonymous()
	if err != nil {
		return 0, 0, err
	}
	done, ended := make(chan struct{}), make(chan struct{})
	peak := before
	go func() {
		defer close(ended)
		tick := time.NewTicker(sampled)
		defer tick.Stop()
		for {
			if now, err := anonymous(); err == nil {
				peak = max(peak, now)
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	begun := time.Now()
	err = work()
	took = time.Since(begun)
	close(done)
	<-ended
	return took, float64(peak-before) / 1024, err
}

// anonymous is the memory of this process that is no mapped file, in KiB.
func anonymous() (int, error) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			return strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(v), " kB"))
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no line RssAnon")
}
