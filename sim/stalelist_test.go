package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// staleFirst lets two foreign members join five of cke while n1 is off, whose member list lacks them when it is back. Then n2, n3 and the foreign ones
// are cut off from cke and the rest, and serve. blank: n4 and n5 have lost what they had meanwhile, so only n1 reports a list.
func (s *stage) staleFirst(t *testing.T, blank bool) (others []*sim.Node) {
	t.Helper()
	c := s.cluster(s.Nodes()[:5])
	c.Policies.Foreign, c.Policies.Replace.Mode = cke.ForeignHold, cke.ReplaceManual
	s.Store().SetSpec(c)
	s.daemon()
	if !s.until(convergence, s.settled) || !s.Write("n1", "kept") {
		t.Fatal("no cluster")
	}
	s.TakeBackup()
	s.Node("n1").PowerOff()
	s.pass(time.Minute)
	for _, n := range s.Nodes()[5:] {
		if !n.Join("hand-"+n.Name(), true) {
			t.Fatal("cannot join")
		}
		n.Keep("hand-" + n.Name())
		s.pass(time.Minute)
	}
	others = append(s.Nodes()[1:3:3], s.Nodes()[5:]...)
	s.cutOffFrom(others)
	s.pass(time.Minute)
	if !s.Write("n2", "late") {
		t.Fatal("the others do not serve")
	}
	if blank {
		s.Node("n4").Blank()
		s.Node("n5").Blank()
		s.pass(time.Minute)
	}
	s.Node("n1").PowerOn()
	s.pass(time.Minute)
	return others
}

// cutOffFrom cuts nodes off from cke, n1, n4 and n5.
func (s *stage) cutOffFrom(others []*sim.Node) {
	for _, n := range others {
		for _, from := range []string{sim.Management, "n1", "n4", "n5"} {
			s.Cut(from, n.Name())
		}
	}
}

// bothLists plays a story in which members report newer lists beside that of n1, and one in which none does.
func bothLists(t *testing.T, story func(t *testing.T, s *stage, others []*sim.Node)) {
	for name, blank := range map[string]bool{"others report newer lists": false, "only n1 reports a list": true} {
		t.Run(name, func(t *testing.T) {
			play(t, 7, func(s *stage) {
				story(t, s, s.staleFirst(t, blank))
				s.unbroken(t)
			})
		})
	}
}

// By the list of n1, the two nodes that an order leaves out are a minority. With foreign voters that it lacks, they serve.
func TestRestore_CountsForeignVotersThatAStaleListLacks(t *testing.T) {
	bothLists(t, func(t *testing.T, s *stage, _ []*sim.Node) {
		s.order(cke.RestoreOrder{Target: fromBackup.Target, Source: fromBackup.Source, Without: []string{"n2", "n3"}})
		s.pass(20 * time.Minute)
		if s.restored() || len(s.asked()) > 0 {
			t.Errorf("restored %v, or not refused, while others serve: %s", s.restored(), s.told().Reason)
		}
	})
}

// By the list of n1, the two nodes that a deletion calls destroyed are a minority.
func TestDelete_CountsForeignVotersThatAStaleListLacks(t *testing.T) {
	bothLists(t, func(t *testing.T, s *stage, _ []*sim.Node) {
		s.destroy("n2", "n3")
		s.Store().RequestDelete()
		s.pass(20 * time.Minute)
		if s.Store().Deleted() || !s.reports(cke.CodeStranger, "hand-n6") {
			t.Errorf("deleted %v while others serve: %s", s.Store().Deleted(), s.told().Reason)
		}
	})
}

// A deletion calls all destroyed that serve. They are asked though the list of n1 lacks the foreign ones, and it waits once they were seen.
func TestDelete_AsksForeignVotersThatAStaleListLacks(t *testing.T) {
	bothLists(t, func(t *testing.T, s *stage, others []*sim.Node) {
		for _, n := range append(others, s.Node("n4")) {
			n.PowerOff()
		}
		s.HealNetwork()
		s.pass(time.Minute)
		s.destroy("n2", "n3", "hand-n6", "hand-n7")
		s.Store().RequestDelete()
		s.pass(time.Minute)
		for _, n := range others[2:] {
			n.PowerOn()
			n.StartByHand()
		}
		s.pass(5 * time.Minute) // they are seen, and none of cke's
		s.cutOffFrom(others)
		for _, n := range others[:2] {
			n.PowerOn()
		}
		s.pass(time.Minute)
		if !s.Write("n2", "later") {
			t.Fatal("they do not serve")
		}
		s.Node("n4").PowerOn()
		s.pass(20 * time.Minute)
		if s.Store().Deleted() || !s.reports(cke.CodeFence, "hand-n6") {
			t.Errorf("deleted %v while others serve that were seen: %s", s.Store().Deleted(), s.told().Reason)
		}
	})
}
