package sim_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// A restore of a cluster that was declared again starts what it stopped when it is canceled, and nobody who was put aside before.
func TestApart_StaysStoppedWhenARestoreIsCanceled(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.Node("n1").ContinueAlone()
		s.must("frozen", func() bool { return s.freeze().Active() })
		s.Choose(false)
		s.person().unfreeze()
		s.must("lifted", func() bool { return !s.freeze().Active() })
		s.must("stopped", func() bool { return s.runningOn("n1") == 0 })
		s.pass(time.Minute)
		s.Write("n2", "kept")
		s.TakeBackup()
		s.burnt()
		s.order(fromBackup)
		asked := false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if !asked && c.Name == "StopContainer" && c.Node == "n2" {
				asked = true
				s.Store().Ask("cancel the restore", func(r *cke.Requests) {
					r.Tasks = append(r.Tasks, cke.NewTask(cke.TaskCancelRestore, "", "", "person@host", time.Now()))
				})
			}
			return sim.Proceed
		}
		s.pass(time.Hour)
		if inc := s.Store().Identity().Incarnation; !asked || inc.State != cke.Awaiting || s.runningOn("n2") == 0 {
			t.Errorf("canceled: %v, %s, n2 runs %d", asked, inc.State, s.runningOn("n2"))
		}
		if s.runningOn("n1") > 0 || s.Write("n1", "wrong") {
			t.Errorf("%s: n1 was put aside and serves", s.Store().Identity().Incarnation.State)
		}
	})
}

// putAsideUnknown brings a store back that does not know that n1 was put aside, which froze the cluster.
func (s *stage) putAsideUnknown() {
	s.pass(time.Minute)
	copied := s.Store().Copy()
	s.Node("n1").ContinueAlone()
	s.must("frozen", func() bool { return s.freeze().Active() })
	s.Choose(false)
	s.person().unfreeze()
	s.must("stopped", func() bool { return !s.freeze().Active() && s.runningOn("n1") == 0 })
	s.pass(2 * time.Minute)
	s.broughtBack(copied)
	s.must("older", func() bool { return s.freeze().Active() })
}

// A store from before does not know who was put aside: the mark on the node does, also when ports change.
func TestApart_StaysStoppedWhenPortsChangeByAnOlderStore(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.putAsideUnknown()
		s.ask(cke.TaskUnfreeze, "", s.freeze().ID, "judged")
		s.must("lifted again", func() bool { return !s.freeze().Active() })
		s.pass(10 * time.Minute)
		if s.runningOn("n1") > 0 {
			t.Fatal("started before")
		}
		c := s.cluster(s.Nodes())
		c.Options.Etcd.ClientPort, c.Options.Etcd.PeerPort = 12379, 12380
		s.Store().SetSpec(c)
		s.pass(3 * time.Minute)
		if j := s.join("n1"); j.ClientPort != 2379 {
			t.Errorf("n1 is moved to port %d", j.ClientPort)
		}
		if s.runningOn("n1") > 0 {
			t.Errorf("n1 was started; frozen %v: %s", s.freeze().Active(), s.freeze().Problem.Message)
		}
	})
}

// A member that was put aside, and is in the list, is put aside again when memberships of an older store are reclaimed.
func TestApart_IsReclaimedAsSuch(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.putAsideUnknown()
		s.ask(cke.TaskReclaim, "", "", "")
		s.must("lifted", func() bool { return !s.freeze().Active() })
		s.pass(10 * time.Minute)
		if j := s.join("n1"); !j.Apart || s.freeze().Active() || s.runningOn("n1") > 0 {
			t.Errorf("put aside: %v, frozen: %v, %d run", j.Apart, s.freeze().Active(), s.runningOn("n1"))
		}
		s.ask(cke.TaskReplace, "n1", string(s.join("n1").ID), "it has the wrong data")
		s.must("replaced", func() bool { return s.arrived() })
		if v := s.Violations(); v != nil {
			t.Error(strings.Join(v, "\n"))
		}
	})
}
