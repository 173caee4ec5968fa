package keep

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"cke"
)

// A chore of another cluster that never returns holds the turn for good. That is told, and is over once the turn comes.
func TestChores_WaitInVainAndSaySo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := semaphore.NewWeighted(1)
		_ = turn.Acquire(t.Context(), 1)
		l := &line{c: &Config{Now: time.Now, Turn: turn, Guard: func() error { return nil }, Log: slog.New(slog.DiscardHandler)}, news: func() {}, troubles: map[string]cke.BackupTrouble{}}
		w := &chores{l: l}
		c := &chore{name: "verify", heavy: true, due: func(time.Time) bool { return true }, do: func(context.Context) error { return nil }}
		go w.attempt(t.Context(), c)
		told := func() string {
			synctest.Wait()
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.troubles["verify"].Message
		}
		time.Sleep(choreLimit - time.Minute)
		if got := told(); got != "" {
			t.Errorf("told early: %s", got)
		}
		time.Sleep(2 * time.Minute)
		if got := told(); !strings.Contains(got, "may hang") {
			t.Errorf("not told: %q", got)
		}
		turn.Release(1)
		time.Sleep(turnEvery)
		if got := told(); got != "" {
			t.Errorf("still told: %s", got)
		}
	})
}
