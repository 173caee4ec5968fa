package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// Machines that are off are repaired one after the other, the member of none is lost, and a reboot that waits is not beside them.
func TestRepairs_BringMachinesBack(t *testing.T) {
	t.Parallel()
	play(t, 5, func(s *stage) {
		s.daemon()
		if !s.until(convergence, s.settled) {
			t.Fatal("does not form")
		}
		leader := s.leader()
		var followers []string
		for _, name := range []string{"n1", "n2", "n3", "n4", "n5"} {
			if name != leader {
				followers = append(followers, name)
			}
		}
		s.Node(followers[0]).PowerOff()
		s.Node(followers[1]).PowerOff()
		s.addReboots(followers[2])
		s.addRepairs(followers[:2]...)
		order := s.emptied(cke.RepairQueue, time.Hour)
		if !slices.Equal(order, followers[:2]) {
			t.Errorf("repaired were %v of %v", order, followers[:2])
		}
		if left := s.rebooted(time.Hour); !slices.Equal(left, followers[2:3]) {
			t.Errorf("rebooted were %v", left)
		}
		h := s.Store().Requests().Repairs.History
		if len(h) != 2 || slices.ContainsFunc(h, func(e cke.EndedEntry) bool { return e.Result != cke.EntryDone || e.Attempts != 1 }) {
			t.Errorf("%+v", h)
		}
		if !s.until(convergence, s.settled) || s.Violations() != nil {
			t.Error(s.Violations())
		}
	})
}

// What does not help is tried step by step, and then waits for an operator.
func TestRepairs_AMachineThatStaysOff(t *testing.T) {
	t.Parallel()
	play(t, 3, func(s *stage) {
		s.daemon()
		if !s.until(convergence, s.settled) {
			t.Fatal("does not form")
		}
		leader := s.leader()
		dead := "n1"
		if leader == dead {
			dead = "n2"
		}
		s.Node(dead).SetRebootMode(sim.StaysOff)
		s.Node(dead).PowerOff()
		s.addRepairs(dead)
		entry := func() cke.Entry {
			s.succeed()
			r := s.Store().Requests().Repairs.Of(s.Node(dead).Declared().Address)
			if r == nil {
				return cke.Entry{}
			}
			return *r
		}
		if !s.until(time.Hour, func() bool { return entry().State == cke.EntryFailed }) {
			t.Fatalf("%+v", entry())
		}
		if r := entry(); r.Step != 1 || r.Attempt != 3 || r.Earlier != 1 {
			t.Errorf("%+v", r)
		}
		s.pass(time.Minute)
		if !s.hasProblem(cke.CodeRepair, dead) || len(s.Store().Requests().Drains) > 0 {
			t.Errorf("%+v, leases %+v", s.told().Problems, s.Store().Requests().Drains)
		}
		s.Node(dead).SetRebootMode(sim.Reboots)
		now := s.Now()
		s.editQueue(cke.RepairQueue, "retry", func(q cke.Queue) (cke.Queue, error) { return q.Retry([]string{dead}, now) })
		s.emptied(cke.RepairQueue, time.Hour)
		if !s.until(convergence, s.settled) || s.Violations() != nil {
			t.Errorf("%+v, %v", entry(), s.Violations())
		}
	})
}

// A daemon dies at every call of a repair: the next one brings it to its end.
func TestRepairs_ADaemonDiesAtEveryCall(t *testing.T) {
	t.Parallel()
	diesAtEveryCall(t, cke.RepairQueue, (*stage).addRepairs)
}
