package op_test

import (
	"testing"
	"time"

	"cke"
)

// The clock may be set between a decision and its step.
func TestRenewCertificates_NeedsTheRightTime(t *testing.T) {
	for _, row := range []struct {
		name  string
		nodes int
		// ahead is how far each node's clock is ahead of the daemon's.
		ahead []time.Duration
		done  bool
	}{
		{"all agree", 3, []time.Duration{0, 0, 0}, true},
		{"the daemon's is behind", 3, []time.Duration{time.Hour, time.Hour, time.Hour}, false},
		{"the daemon's is a year ahead", 3, []time.Duration{-8760 * time.Hour, -8760 * time.Hour, -8760 * time.Hour}, false},
		{"its own node's is wrong", 3, []time.Duration{time.Hour, 0, 0}, true},
		{"its own node's is wrong, of two", 2, []time.Duration{time.Hour, 0}, true},
		{"another node's is wrong", 3, []time.Duration{0, time.Hour, 0}, true},
		{"two of three are wrong", 3, []time.Duration{time.Hour, time.Hour, 0}, false},
		{"one against one", 1, []time.Duration{time.Hour}, false},
	} {
		inWorld(t, row.nodes, func(w *world) {
			w.mustRun(w.bootstrap(false))
			time.Sleep(300 * 24 * time.Hour)
			for i, d := range row.ahead {
				w.Nodes()[i].JumpClock(d)
			}
			before := w.looked(0).Certificates.NotAfter
			_, err := w.renew(0)
			if (err == nil) != row.done || err != nil && cke.CodeOf(err) != cke.CodeClock {
				t.Errorf("%s: %v", row.name, err)
			}
			if written := !w.looked(0).Certificates.NotAfter.Equal(before); written != row.done {
				t.Errorf("%s: written: %v", row.name, written)
			}
		})
	}
}
