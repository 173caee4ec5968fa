package sim_test

import (
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// A deletion waits for n1 and n2, the only members of cke, and calls the three foreign voters destroyed, which were without power. They are back for a
// while, serve, and are cut off from cke. No member of cke answers meanwhile: the foreign ones are asked by the last member list.
func TestDelete_WaitsForForeignVotersThatWereSeenAlone(t *testing.T) {
	play(t, 5, func(s *stage) {
		foreign, names := s.heldForeign(t, 2)
		all := s.Nodes()
		for _, n := range all {
			n.PowerOff()
		}
		s.pass(time.Minute)
		s.destroy(names...)
		s.Store().RequestDelete()
		s.pass(time.Minute)
		s.backAlone(t, foreign)
		for _, n := range all[:2] {
			n.PowerOn()
		}
		s.pass(20 * time.Minute)
		if s.Store().Deleted() || !s.reports(cke.CodeFence, "hand-n3") {
			t.Errorf("deleted %v while foreign voters serve that were seen: %s", s.Store().Deleted(), s.told().Reason)
		}
		s.unbroken(t)
	})
}

// backAlone lets foreign members be back and serve for a while, and cuts them off from cke and its nodes.
func (s *stage) backAlone(t *testing.T, foreign []*sim.Node) {
	t.Helper()
	for _, n := range foreign {
		n.PowerOn()
		n.StartByHand()
	}
	s.pass(5 * time.Minute)
	if !s.Write(foreign[0].Name(), "late") {
		t.Fatal("they do not serve")
	}
	for _, n := range foreign {
		s.Cut(sim.Management, n.Name())
		s.Cut("n1", n.Name())
		s.Cut("n2", n.Name())
	}
	s.pass(time.Minute)
}

// An order to restore waits, since the cluster is paused, and calls foreign voters destroyed. No member of cke answers while they are back: the order
// is refused.
func TestDestroyed_ForeignVotersThatWereSeenAloneCount(t *testing.T) {
	play(t, 5, func(s *stage) {
		foreign, names := s.heldForeign(t, 2)
		s.TakeBackup()
		all := s.Nodes()
		for _, n := range all {
			n.PowerOff()
		}
		s.Store().Ask("pause", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "an observation"} })
		s.pass(time.Minute)
		s.order(cke.RestoreOrder{Target: fromBackup.Target, Source: fromBackup.Source, Destroyed: names})
		s.pass(time.Minute)
		s.backAlone(t, foreign)
		for _, n := range all[:2] {
			n.PowerOn()
		}
		s.pass(time.Minute)
		s.Store().Ask("resume", func(r *cke.Requests) { r.Hold = nil })
		s.pass(20 * time.Minute)
		if s.restored() {
			t.Errorf("restored beside foreign voters that were seen: %s", s.told().Reason)
		}
		s.unbroken(t)
	})
}

// A daemon starts to lead whose store does not give it the status of the one before, which has the last member list. No member of cke runs. The
// deletion waits until the status is read: the foreign voters that it calls destroyed are asked by that list.
func TestDelete_WaitsForTheStatusWithTheLastMemberList(t *testing.T) {
	play(t, 5, func(s *stage) {
		foreign, names := s.heldForeign(t, 2)
		for _, n := range foreign {
			n.PowerOff()
		}
		s.pass(time.Minute)
		for _, d := range s.Daemons() {
			d.Kill()
		}
		for _, n := range s.Nodes()[:2] {
			n.StopByHand()
		}
		var unread atomic.Bool
		unread.Store(true)
		s.unclosed(waitings["the stored status cannot be read"], &unread)
		back := false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if operation, _ := s.Store().Running(); !back && operation == "delete-cluster" {
				back = true
				for _, n := range foreign {
					n.PowerOn()
					n.StartByHand()
				}
			}
			return sim.Proceed
		}
		s.destroy(names...)
		s.Store().RequestDelete()
		s.pass(5 * time.Minute)
		unread.Store(false)
		s.pass(5 * time.Minute)
		if !back || s.Store().Deleted() {
			t.Errorf("back %v, deleted %v while foreign voters serve: %s", back, s.Store().Deleted(), s.Store().Status().Reason)
		}
		s.unbroken(t)
	})
}
