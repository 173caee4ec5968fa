package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// What the world's etcd does is what etcd does: where it was not, schedules told of what cannot be.

// While a change of the member list is not applied etcd takes no other one: whoever asks again and again, because followers
// fall behind, does not fill the list with learners.
func TestEtcd_TakesOneChangeOfMembersAtATime(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		s.must("formed", s.settled)
		s.eachNode(func(n *sim.Node) { n.Trickle(true) })
		s.declare(s.Nodes()...)
		s.pass(time.Minute) // it is tried some times
		s.latest().Kill()
		s.eachNode(func(n *sim.Node) { n.Trickle(false) })
		s.pass(time.Minute)
		if all := s.Peers(); len(all) != 4 {
			t.Errorf("etcd lists %v", all)
		}
		s.must("as declared", s.changed)
		s.isUnharmed(t)
	})
}

// A member that voted in a term has that on its disk, also if it never got anything of whom it voted for: no term has two
// leaders.
func TestEtcd_NoTermHasTwoLeaders(t *testing.T) {
	play(t, 3, func(s *stage) {
		c := s.cluster(s.Nodes())
		c.Options.Etcd.Version = "3.5.35" // which writes into the log at each start
		s.Store().SetSpec(c)
		s.daemon()
		s.must("formed", s.settled)
		first, second, voter := s.Node("n1"), s.Node("n2"), s.Node("n3")
		voter.Trickle(true)
		first.PowerOff()
		for _, leads := range []*sim.Node{second, first} {
			second.PowerOff()
			leads.PowerOn()
			s.pass(time.Minute) // it leads, and nothing is committed
		}
		voter.Trickle(false)
		s.pass(time.Minute)
		second.PowerOn()
		s.must("as declared", s.changed)
		s.ask(cke.TaskMoveLeader, "n2", "", "")
		s.must("moved", func() bool { return s.answered() && s.changed() })
		s.isUnharmed(t)
	})
}
