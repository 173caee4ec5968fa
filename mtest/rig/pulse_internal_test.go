package rig

import (
	"testing"
	"time"
)

func TestPulse_SilenceIsThatBetweenTwoTimes(t *testing.T) {
	start := time.Now().Add(-time.Minute)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	p := &Pulse{silences: []silence{{at(5), at(8)}, {at(20), at(21)}}, last: at(40)}
	for _, row := range []struct {
		from, to int
		want     time.Duration
	}{
		{0, 30, 3 * time.Second},
		{6, 30, 2 * time.Second},
		{0, 7, 2 * time.Second},
		{9, 19, 0},
		{10, 30, time.Second},
		{30, 55, 15 * time.Second}, // since the last one
	} {
		if got := p.Silence(at(row.from), at(row.to)); got != row.want {
			t.Errorf("%d to %d: %s, want %s", row.from, row.to, got, row.want)
		}
	}
}
