package embedded

import (
	"context"
	"log/slog"
	"testing"
	"time"
)

// A daemon starts in the time that its disk takes, however seldom its store ticks: here the first tick is after ten seconds.
func TestStart_WaitsForNoTick(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	for _, store := range []string{"a new store", "one with data", "one with data again"} {
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
			t.Errorf("%s: %v", store, err)
		}
		t.Logf("%s: serves after %v", store, time.Since(began).Round(time.Millisecond))
		if err := e.Close(); err != nil {
			t.Errorf("close %s: %v", store, err)
		}
	}
}
