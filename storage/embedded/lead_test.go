package embedded

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

// A daemon starts in the time that its disk takes, however seldom its store ticks: here the first tick is after ten seconds. It does
// so with a log that has more entries to apply again than stay in memory: campaigning among them would end the process.
func TestStart_WaitsForNoTick(t *testing.T) {
	dir := t.TempDir()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	for i := range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		if err := ownDir(dir); err != nil {
			t.Fatal(err)
		}
		lock, err := lockDir(ctx, dir, func(holder string) { t.Logf("held by %s", holder) })
		if err != nil {
			t.Fatal(err)
		}
		e := &Store{dir: dir, lock: lock, log: log, closing: make(chan struct{}), failed: make(chan error, 2)}
		cfg := configuration(dir, log)
		cfg.TickMs, cfg.ElectionMs = 10_000, 50_000
		began := time.Now()
		if err := e.start(ctx, cfg); err != nil {
			t.Fatalf("start %d: %v", i, err)
		}
		t.Logf("start %d: serves after %v", i, time.Since(began).Round(time.Millisecond))
		c := v3client.New(e.etcd.Server)
		for range 2 * catchUp {
			if _, err := c.Put(t.Context(), "key", "value"); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		if err := e.Close(); err != nil {
			t.Errorf("close %d: %v", i, err)
		}
	}
}
