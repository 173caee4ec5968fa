package sim_test

import (
	"strings"
	"testing"

	"cke/sim"
)

// crashes are what becomes of a call at a crash point.
var crashes = []sim.Verdict{sim.KillBefore, sim.KillHalfway, sim.KillAfter, sim.KillLate, sim.Linger, sim.LoseAnswer, sim.Freeze}

// landsAfter is how many calls after the one at the crash point late ones land.
const landsAfter = 25

// judge says what becomes of the nth call of what is played.
type judge func(s *stage, n int) sim.Verdict

// fromEveryCrashPoint plays something undisturbed, then with one of its calls disturbed: with every'th of them in a short
// test, where which differs tells which.
func fromEveryCrashPoint(t *testing.T, every, which int, play func(seed uint64, j judge) (calls int, faults []string)) {
	t.Helper()
	calls, faults := play(0, func(*stage, int) sim.Verdict { return sim.Proceed })
	if faults != nil {
		t.Fatal(strings.Join(faults, "\n"))
	}
	for k := range points(calls, every, which) {
		for v := range points(len(crashes), len(crashes), k) {
			_, faults := play(uint64(k), func(s *stage, n int) sim.Verdict {
				switch n {
				case k + landsAfter:
					s.Land()
				case k:
					return crashes[v-1]
				}
				return sim.Proceed
			})
			if faults != nil {
				t.Fatalf("%v at call %d of %d:\n%s", crashes[v-1], k, calls, strings.Join(faults, "\n"))
			}
		}
	}
	t.Logf("%d crash points", calls)
}
