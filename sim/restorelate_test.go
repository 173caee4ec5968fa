package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// A restore is on record, and no daemon leads, or the cluster is paused, for hours. Its members serve: what they acknowledge is
// not replaced without a question.
func TestRestore_KeepsWhatIsAcknowledgedWhileItWaits(t *testing.T) {
	for name, paused := range map[string]bool{"while no daemon leads": false, "in a pause": true} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				s.daemon()
				s.must("formed", s.settled)
				s.Write("n1", "kept")
				s.TakeBackup()
				s.once(sim.KillBefore, func(sim.Call) bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
				s.order(fromBackup)
				s.comesTo(func() bool { return s.Judge == nil }) // the daemon is killed then
				if paused {
					s.Store().Ask("hold", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "a new switch"} })
					s.daemon()
				}
				s.pass(5 * time.Hour)
				if !s.Write("n2", "late") {
					t.Fatal("the members before do not serve")
				}
				if paused {
					s.Store().Ask("hold", func(r *cke.Requests) { r.Hold = nil })
				} else {
					s.daemon()
				}
				s.must("continues", func() bool { return s.Store().Identity().Incarnation.State == cke.Formed && s.settled() })
				if id := s.Store().Identity(); id.Incarnation.Restore != nil || !slices.Contains(s.Written(), "late") {
					t.Errorf("the cluster holds %v; %s", s.Written(), s.told().Summary)
				}
				if v := s.Violations(); v != nil {
					t.Error(strings.Join(v, "\n"))
				}
			})
		})
	}
}

// A daemon ends with its host, or loses its lines to the nodes, at any call from the stop of the members to the start of the restored
// ones, and people start the containers that are left. What is acknowledged then is kept: it is called off, or none of the
// containers is left.
func TestRestore_KeepsWhatIsAcknowledgedAfterItStoppedTheMembers(t *testing.T) {
	for name, c := range map[string]struct {
		order cke.RestoreOrder
		cut   bool
	}{
		"a recovery, its host dies":      {order: fromN1},
		"a recovery, its lines break":    {order: fromN1, cut: true},
		"from a backup, its host dies":   {order: without("n2")},
		"from a backup, its lines break": {order: without("n2"), cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			served, gone := 0, 0
			for at := 1; ; at++ {
				done := false
				play(t, 3, func(s *stage) {
					if c.order.Survivor == "" {
						s.daemon()
						s.must("formed", s.settled)
						s.Write("n1", "kept")
						s.TakeBackup()
						s.TargetRefuses(true) // so that writes are not stopped
					}
					s.losesAll()
					calls := 0
					s.Judge = func(int, sim.Call) sim.Verdict {
						operation, step := s.Store().Running()
						if operation != "restore" || done || !slices.Contains([]string{"fence", "check-fence", "remove-replaced", "record-start", "mark-over"}, step) {
							return sim.Proceed
						}
						if calls++; calls < at {
							return sim.Proceed
						}
						done = true
						if !c.cut {
							return sim.KillAfter
						}
						for _, n := range s.everyNode() {
							s.Cut(sim.Management, n)
						}
						return sim.Proceed
					}
					s.order(c.order)
					s.until(convergence, func() bool { return done || s.restored() })
					if !done {
						return
					}
					s.pass(time.Minute)
					s.Node("n2").PowerOn()
					s.Node("n1").StartByHand()
					if id := s.Store().Identity(); !id.Started() { // as the remedy of those that must not run yet says
						for _, j := range id.Joins {
							s.Node(j.Node.Name()).Remove(j.Volume)
						}
					}
					late := s.until(time.Minute, func() bool { return s.Write("n1", "late") })
					if late {
						served++
					} else {
						gone++
					}
					s.pass(90 * time.Minute)
					if s.HealNetwork(); !c.cut {
						s.daemon()
						s.latest().Kill() // it was on the other host
						s.daemon()
					}
					if late {
						s.hasLate(c.order)
					} else if !s.until(convergence, func() bool { return s.Store().Identity().Incarnation.State == cke.Formed && s.told().Etcd.Quorate }) {
						t.Errorf("does not end: %s", s.told().Summary)
					}
					if v := s.Violations(); v != nil {
						t.Error(strings.Join(v, "\n"))
					}
					if t.Failed() {
						t.Fatalf("ended at call %d", at)
					}
				})
				if !done {
					break
				}
			}
			if served == 0 || gone == 0 {
				t.Errorf("the former members served %d times, and were gone %d times", served, gone)
			}
			t.Logf("the former members served %d times, and were gone %d times", served, gone)
		})
	}
}
