package sim_test

import (
	"fmt"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/sim"
)

// Whatever is removed under members, by whatever order, nobody comes back empty, and nothing that was acknowledged is lost.
func TestAmnesia_FoundersThatWereEmptiedStayDown(t *testing.T) {
	for name, lose := range map[string]func(*sim.Node){
		"data removed under it, then killed": func(n *sim.Node) { n.Unlink(); n.KillEtcd() },
		"started by hand":                    func(n *sim.Node) { n.RemoveData(); n.StopByHand(); n.StartByHand() },
		"the node boots":                     func(n *sim.Node) { n.Unlink(); n.Reboot() },
		"all is gone":                        (*sim.Node).EmptyVolumes,
	} {
		for _, led := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, led %v", name, led), func(t *testing.T) {
				play(t, 3, func(s *stage) {
					s.daemon()
					s.must("formed", s.settled)
					if !led {
						s.latest().Kill()
					}
					s.Isolate("n3")
					if !s.Write("n1", "precious") {
						t.Fatal("not written")
					}
					s.Isolate("n1")
					lose(s.Node("n1"))
					s.Node("n2").PowerOff()
					s.Rejoin("n1")
					s.Rejoin("n3")
					s.pass(time.Minute)
					if s.Serving() > 0 {
						t.Error("a quorum without what was acknowledged serves")
					}
					s.Node("n2").PowerOn()
					s.pass(time.Minute)
					if !s.Write("n2", "later") {
						t.Error("n2 and n3 do not go on")
					}
					s.isUnharmed(t)
				})
			})
		}
	}
}

// Data that was removed under members that run is replaced while they serve, one after the other.
func TestAmnesia_MembersThatRunOnRemovedFilesAreReplaced(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		play(t, 3, func(s *stage) {
			c := s.Store().Spec().Cluster
			c.Policies.Replace = cke.ReplacePolicy{Mode: cke.ReplaceAuto, Grace: cke.Duration(time.Second)}
			s.Store().SetSpec(c)
			s.daemon()
			s.must("formed", s.settled)
			s.Write("n1", "precious")
			for _, n := range s.Nodes()[:nodes] {
				n.Unlink()
			}
			s.must("replaced", func() bool { return s.lost(s.Store().Identity()) == nil && s.settled() })
			if ended := s.Store().Identity().Ended; len(ended) != nodes {
				t.Errorf("%d memberships ended", len(ended))
			}
			s.isUnharmed(t)
		})
	}
}

// What an earlier version of cke formed is made safe as soon as all serve.
func TestAmnesia_ContainersOfAnEarlierVersionAreMadeAnew(t *testing.T) {
	for _, nodes := range []int{1, 2, 3} {
		madeAnew(t, nodes)
	}
}

func madeAnew(t *testing.T, nodes int) {
	play(t, nodes, func(s *stage) {
		s.FormedEarlier()
		s.wrap = func(e op.Env) op.Env { return thin{founding: true}.wrap(s, e) }
		s.daemon()
		s.must("formed", func() bool { return s.Serving() == nodes && s.Store().Identity().Incarnation.State == cke.Formed })
		s.latest().Kill()
		s.wrap = nil
		s.daemon()
		s.must("made anew", func() bool {
			for _, n := range s.Nodes() {
				containers, _ := n.Look()
				if len(containers) != 1 || containers[0].StartsEmpty {
					return false
				}
			}
			return s.settled()
		})
		s.isUnharmed(t)
	})
}

// Founders that could start without their data are noticed once the cluster is formed.
func TestChecker_NoticesContainersThatCouldStartEmpty(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.wrap = func(e op.Env) op.Env { return thin{founding: true}.wrap(s, e) }
		s.daemon()
		s.pass(time.Minute)
		s.mustViolate(t, "could start its member without its data")
	})
}
