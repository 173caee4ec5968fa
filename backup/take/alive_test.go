package take

import (
	"log/slog"
	"testing"
	"time"

	"cke"
	"cke/backup"
)

// A member that has hours of changes to read first is silent for long, with each watch anew: the next one is given longer.
func TestSilentWatch_IsGivenLongerEachTime(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	c := Config{Now: func() time.Time { return now }, Notify: func(Event) {}, Log: slog.New(slog.DiscardHandler)}
	c.Delta.Period = cke.Duration(time.Second)
	builder, err := backup.NewDeltaWriter(6, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &session{t: &Taker{c: c}, builder: builder, authTry: time.NewTimer(time.Hour)}
	s.heard(told{revision: 9, asked: now})
	restarted := func(after time.Duration) bool {
		now = now.Add(after)
		s.life.silent = mostSilent
		return s.silentWatch() != nil
	}
	for i, row := range []struct {
		after time.Duration
		want  bool
	}{{9 * time.Second, false}, {2 * time.Second, true}, {11 * time.Second, false}, {10 * time.Second, true}, {39 * time.Second, false}, {2 * time.Second, true}} {
		if got := restarted(row.after); got != row.want {
			t.Errorf("step %d: %t", i, got)
		}
	}
	s.receive()
	if !restarted(11 * time.Second) {
		t.Error("what brought changes is given as long as the first one")
	}
}
