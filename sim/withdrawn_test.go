package sim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// withdrawn plays a recovery whose start is put on record at the moment at which the members come back that its order calls destroyed, and
// disturbs a call after that: the cluster continues with what these members acknowledged, and nothing of theirs is removed.
func withdrawn(t *testing.T, at string, started bool, j judge) (calls int, faults []string) {
	play(t, 3, func(s *stage) {
		down := calledDestroyed(t, s, refuseKey)
		was := s.Store().Identity()
		back, late := false, false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			id := s.Store().Identity()
			if !back && c.Name == at && id.Incarnation.State == cke.Restoring && id.Started() == started {
				back = true
				for _, n := range down {
					n.PowerOn()
				}
			}
			if !back || id.Incarnation.State != cke.Restoring {
				return sim.Proceed
			}
			calls++
			return j(s, calls)
		}
		s.order(destroyedOrders["recovery"])
		succeed := func() {
			if d := s.latest(); d.Dead() || d.Frozen() {
				s.daemon()
			}
		}
		s.until(20*time.Minute, func() bool {
			succeed()
			late = late || back && s.Write("n2", "late")
			return late && s.Store().Identity().Incarnation.Life(was.Incarnation.ID)
		})
		s.Land()
		for _, d := range s.drivers {
			d.Wake()
		}
		for _, n := range down {
			n.RefuseKey(false)
		}
		settles := s.until(convergence, func() bool { succeed(); return s.settled() })
		now := s.Store().Identity()
		if !back || !late || !settles || !now.Incarnation.Life(was.Incarnation.ID) || !slices.Contains(s.Written(), "late") {
			faults = append(faults, fmt.Sprintf("back %v, late %v, settled %v: %v", back, late, settles, s.World))
		}
		for _, j := range was.Joins {
			if _, is := now.Join(j.ID); !is {
				faults = append(faults, "the membership of "+j.Node.Name()+" ended")
			}
		}
		faults = append(faults, s.Violations()...)
	})
	return calls, faults
}

// The start is withdrawn at whichever request the daemon dies, is cut off or freezes, and whichever lands late.
func TestWithdrawStart_IsCompletedFromEveryCrashPoint(t *testing.T) {
	t.Parallel()
	every := 1
	if testing.Short() {
		every = 12
	}
	for i, c := range []struct {
		at      string
		started bool
	}{{"PutJoins", false}, {"MarkOver", true}, {"PutFiles", true}} {
		t.Run(c.at, func(t *testing.T) {
			fromEveryCrashPoint(t, every, i, func(_ uint64, j judge) (int, []string) { return withdrawn(t, c.at, c.started, j) })
		})
	}
}

// A node that was called destroyed is back, is fenced, and dies for good while the restored member is down, too: the restored member is started.
func TestDestroyed_AFencedNodeThatDiesAgainKeepsNothingWaiting(t *testing.T) {
	play(t, 3, func(s *stage) {
		down := calledDestroyed(t, s, asItIs)
		s.order(destroyedOrders["restore"])
		s.onceStarted(t, func() { s.Node("n1").TakePort(cke.DefaultPeerPort) })
		for _, n := range down {
			n.PowerOn()
		}
		fenced := func() bool { return len(s.Store().Identity().Incarnation.Restore.Fenced) == 2 }
		if !s.until(20*time.Minute, fenced) || s.restored() {
			t.Fatal("they are not fenced")
		}
		for _, n := range down {
			n.PowerOff()
		}
		s.pass(time.Minute)
		s.Node("n1").ReleasePort(cke.DefaultPeerPort)
		if !s.until(convergence, s.restored) {
			t.Errorf("it waits for nodes that were fenced: %s", s.latest().decision.Reason)
		}
		s.unbroken(t)
	})
}

// An operator cancels a recovery whose start is on record, and of whose members none ran: it is withdrawn, and the cluster continues as it was. One of which a
// member ran is not canceled.
func TestWithdrawStart_AnOperatorCancelsARecoveryThatStartedNothing(t *testing.T) {
	for name, ran := range map[string]bool{"none ran": false, "one ran": true} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				calledDestroyed(t, s, asItIs)
				was := s.Store().Identity()
				s.order(destroyedOrders["recovery"])
				if ran {
					s.onceStarted(t, func() { s.Node("n1").TakePort(cke.DefaultPeerPort) })
				} else {
					s.onceStarted(t, s.Node("n1").PowerOff)
					s.Node("n1").PowerOn()
				}
				s.ask(cke.TaskCancelRestore, "", "", "")
				s.pass(10 * time.Minute)
				now := s.Store().Identity()
				_, lasts := now.Join(was.Joins[0].ID)
				canceled := now.Incarnation.Life(was.Incarnation.ID) && lasts && s.runningOn("n1") == 1
				if canceled == ran || len(s.asked()) > 0 {
					t.Errorf("canceled %v: %s", canceled, s.told().Reason)
				}
				s.unbroken(t)
			})
		})
	}
}
