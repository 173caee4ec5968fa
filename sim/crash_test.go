package sim_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cke/sim"
)

// convergence is how long after the last fault the world may take until all is as wanted.
const convergence = 5 * time.Minute

// callsOf counts the calls of an undisturbed bootstrap of n nodes.
func callsOf(t *testing.T, n int) (calls int) {
	play(t, n, func(s *stage) {
		s.daemon()
		if !s.until(convergence, s.settled) {
			t.Fatal("an undisturbed bootstrap does not end")
		}
		calls = s.Calls()
	})
	return calls
}

// blows are what happens at which calls; the daemon is succeeded by a new one each time it dies or freezes.
type blows map[int]sim.Verdict

func (b blows) String() string { return strings.TrimPrefix(fmt.Sprint(map[int]sim.Verdict(b)), "map") }

// endsAsOneCluster plays a bootstrap with blows, in an order of calls by seed. Calls that land late do so, and frozen
// daemons wake, another late calls afterwards.
func endsAsOneCluster(t *testing.T, nodes int, b blows, late int, seed uint64) {
	t.Helper()
	scene := func(s *stage) []string {
		due := 0 // the call at which late ones land
		s.Judge = func(n int, c sim.Call) sim.Verdict {
			if due > 0 && n >= due {
				due = 0
				s.Land()
				for _, d := range s.drivers {
					d.Wake()
				}
			}
			v := b[n]
			if v == sim.KillLate || v == sim.Linger || v == sim.Freeze {
				due = n + late
			}
			return v
		}
		if seed > 0 {
			r := rand.New(rand.NewPCG(seed, 0))
			s.Pick = r.IntN
		}
		s.daemon()
		ok := s.until(convergence, func() bool {
			if d := s.latest(); d.Dead() || d.Frozen() {
				s.daemon()
			}
			return s.settled() && due == 0 && s.faults(s.everyNode()...) == nil
		})
		if !ok {
			dec, _ := s.latest().now()
			return append(s.Violations(), "does not converge: "+describeDecision(s.latest().Number(), dec))
		}
		return s.faults(s.everyNode()...)
	}
	var faults []string
	play(t, nodes, func(s *stage) { faults = scene(s) })
	if faults == nil {
		return
	}
	play(t, nodes, func(s *stage) {
		s.tell = t.Logf
		s.OnTrace(t.Logf)
		scene(s)
		t.Logf("\n%s", s.World)
	})
	t.Fatalf("%d nodes, blows at calls %v, late by %d, order %d:\n%s", nodes, b, late, seed, strings.Join(faults, "\n"))
}

// points are the calls from 1 to n; with -short every stride-th of them, beginning at another one for each test. With the
// race detector, which makes everything slow, they are fewer: what goes wrong at a call is found without it, and two
// goroutines that touch one thing do so wherever they are disturbed.
func points(n, stride, begin int) iter.Seq[int] {
	switch {
	case !testing.Short():
		stride = 1
	case race:
		stride *= 8
	}
	return func(yield func(int) bool) {
		for k := 1 + begin%stride; k <= n; k += stride {
			if !yield(k) {
				return
			}
		}
	}
}

// some is a number of random tries; with -short a few of them, and with the race detector fewer, as of points.
func some(n int) int {
	switch {
	case !testing.Short():
		return n
	case race:
		return n / 200
	}
	return n / 10
}

func TestBootstrap_EndsAsOneClusterFromEveryCrashPoint(t *testing.T) {
	for nodes, stride := range map[int]int{1: 1, 3: 1, 5: 5} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			calls, runs := callsOf(t, nodes), 0
			for k := range points(calls, stride, 0) {
				for _, v := range []sim.Verdict{sim.KillBefore, sim.KillHalfway, sim.KillAfter} {
					endsAsOneCluster(t, nodes, blows{k: v}, 0, uint64(k))
					runs++
				}
			}
			for k := range points(calls, 2*stride, 1) {
				for i, v := range []sim.Verdict{sim.KillLate, sim.Linger, sim.Freeze} {
					for late := range points(4, 4, k+i) { // when what is late lands, and the frozen daemon wakes
						endsAsOneCluster(t, nodes, blows{k: v}, []int{3, 17, 60, 200}[late-1], uint64(k))
						runs++
					}
				}
			}
			t.Logf("%d nodes: %d calls, %d runs", nodes, calls, runs)
		})
	}
}

func TestBootstrap_SurvivesCallsWithoutAnswer(t *testing.T) {
	t.Parallel()
	for k := range points(callsOf(t, 3), 3, 0) {
		endsAsOneCluster(t, 3, blows{k: sim.Refuse}, 0, uint64(k))
		endsAsOneCluster(t, 3, blows{k: sim.LoseAnswer}, 0, uint64(k))
	}
}

func TestBootstrap_EndsAsOneClusterAfterSeveralCrashes(t *testing.T) {
	t.Parallel()
	calls := callsOf(t, 3)
	r := rand.New(rand.NewPCG(1, 2))
	for range some(2000) {
		b := blows{}
		for range 2 + r.IntN(3) {
			b[1+r.IntN(2*calls)] = sim.Refuse + sim.Verdict(r.IntN(8))
		}
		endsAsOneCluster(t, 3, b, 1+r.IntN(calls), r.Uint64())
	}
}
