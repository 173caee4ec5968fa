package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// alone is the event that leads to two histories.
const alone = "a member continues alone"

// continueAlone lets an operator make a member continue alone, under the id of the cluster, which the others continue.
func (n *nemesis) continueAlone(node *sim.Node) {
	if n.copied == nil && !n.hand && node.ContinueAlone() {
		n.keepsData, n.twins = true, true
	}
}

// settleTwins judges which of two histories is right, and returns the nodes whose members have the other one. The right ones are started,
// and the wrong ones sometimes stopped: a lift is refused where it is not seen that the right ones belong together.
func (n *nemesis) settleTwins(f *cke.Freeze) (wrong []string) {
	if !f.Kind.NamesWrong() {
		return nil
	}
	if n.s.Twins() {
		n.s.Choose(n.IntN(2) == 0)
	}
	id, of, stops := n.s.Store().Identity(), n.s.Wrong(), n.IntN(2) == 0
	for _, node := range n.s.Nodes() {
		at := slices.IndexFunc(id.Joins, func(j cke.Join) bool { return !j.Apart && (j.Node.Name() == node.Name() || n.s.MachineOf(j) == node) })
		switch carries := at >= 0; {
		case !slices.Contains(of, node):
			node.StartByHand()
			containers, _ := node.Look()
			others := slices.ContainsFunc(n.s.Nodes(), func(o *sim.Node) bool { return !slices.Contains(of, o) && n.s.runningOn(o.Name()) > 0 })
			if carries && (n.spared(node, id.Joins[at].ID) || n.expelledFrom(node) || (len(containers) == 0 || n.s.runningOn(node.Name()) == 0 && !node.Holds(id.Joins[at].Volume)) && others && !n.onlyLost(node)) { // it has no part in the right history any more, or cannot show that it has
				wrong = append(wrong, id.Joins[at].Node.Name())
			}
			continue
		case carries:
			wrong = append(wrong, id.Joins[at].Node.Name())
		}
		if stops {
			node.SwitchRestartsOff()
			node.StopByHand()
		}
	}
	return wrong
}

// spared reports whether a lift was refused because of a node whose member still does not answer, and without which the others are a quorum.
func (n *nemesis) spared(node *sim.Node, j cke.JoinID) bool {
	named := func(r cke.Record) bool {
		return r.Operation == "unfreeze" && strings.Contains(r.Error, "name it as well, whatever its data: --wrong "+node.Name()+".")
	}
	d := n.s.latest()
	d.mu.Lock()
	defer d.mu.Unlock()
	now, _ := d.input.Seen.Etcd.Endpoint(j)
	return now.Problem != "" && slices.ContainsFunc(n.s.Store().Records(), named)
}

// onlyLost reports whether a lift was refused since a member that has the right data served with this one, which was named though its data is lost.
func (n *nemesis) onlyLost(node *sim.Node) bool {
	return slices.ContainsFunc(n.s.Store().Records(), func(r cke.Record) bool {
		return r.Operation == "unfreeze" && strings.Contains(r.Error, "served with "+node.Name()+", which was named as wrong") && strings.Contains(r.Error, "whose data is lost and not wrong needs no name")
	})
}

// expelledFrom reports whether etcd on a node said, when it was last observed, that its member was removed from the list.
func (n *nemesis) expelledFrom(node *sim.Node) bool {
	d := n.s.latest()
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.input.Seen.Nodes, func(s cke.NodeStatus) bool {
		return s.Node.Name() == node.Name() && slices.ContainsFunc(s.Containers, cke.Container.SaysRemoved)
	})
}

// outlived judges two histories of which one alone serves for long, so that nothing froze the cluster: it is the right one.
func (n *nemesis) outlived() {
	others, alone := n.s.Led()
	if n.s.Twins() && !n.s.freeze().Active() && others != alone && time.Since(n.healed) > 10*time.Minute {
		n.s.Choose(alone)
	}
}

// leaveBehind removes the containers of a history that operators judged to be wrong, once the status says that their memberships ended.
func (n *nemesis) leaveBehind(blockers []cke.Problem) {
	for _, p := range blockers {
		node := n.s.machine(p.Node)
		_, name, says := strings.Cut(p.Remedy, "docker rm -f ")
		if !says || p.Code != cke.CodeLeftover || node == nil || n.s.Twins() || !slices.Contains(n.s.Wrong(), node) {
			continue
		}
		if containers, _ := node.Look(); slices.ContainsFunc(containers, func(c cke.Container) bool { return c.Name == name }) {
			node.RemoveContainer(name)
		}
	}
}

// replaceApart replaces the members that the lift of a freeze put aside.
func (n *nemesis) replaceApart() {
	for _, j := range n.s.Store().Identity().Joins {
		asked := slices.ContainsFunc(n.s.asked(), func(t cke.Task) bool { return t.Kind == cke.TaskReplace && t.Subject == string(j.ID) })
		if j.Apart && !asked && !n.s.freeze().Active() {
			n.s.ask(cke.TaskReplace, j.Node.Name(), string(j.ID), "it has the wrong data")
		}
	}
}

// Two histories of one cluster id freeze the cluster until an operator has judged, whichever is right: nothing is removed before, and all
// that was acknowledged in the right one is kept.
func TestTwins_FreezeUntilAnOperatorHasJudged(t *testing.T) {
	for _, alone := range []bool{false, true} {
		inFormed(t, 3, func(s *stage) {
			if !s.Node("n1").ContinueAlone() {
				t.Fatal("n1 does not continue alone")
			}
			s.must("frozen", func() bool { return s.freeze().Active() })
			for _, n := range []string{"n1", "n2"} {
				if !s.Write(n, "through "+n) {
					t.Fatalf("%s takes no write", n)
				}
			}
			s.pass(10 * time.Minute)
			if f := s.freeze(); !f.Active() || !f.Kind.TwoClusters() || s.told().Health != cke.HealthFrozen || len(s.Store().Identity().Joins) != 3 {
				t.Errorf("%s: %+v", s.told().Health, f)
			}
			s.Choose(alone)
			n := s.person()
			s.must("as declared", func() bool { n.attend(); return s.arrived() })
			if v := s.Violations(); v != nil {
				t.Error(strings.Join(v, "\n"))
			}
		})
	}
}

// A member with the wrong data that runs on removed files is named as well: the freeze is not lifted without that, and no volume shows it.
func TestTwins_WhoRunsOnRemovedFilesIsNamed(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.Node("n1").ContinueAlone()
		s.must("frozen", func() bool { return s.freeze().Active() })
		s.Node("n3").Unlink()
		s.Choose(true)
		if wrong := s.Wrong(); len(wrong) != 2 {
			t.Errorf("%d nodes have members with the wrong data", len(wrong))
		}
		n := s.person()
		n.unfreeze()
		s.must("lifted", func() bool { return !s.freeze().Active() })
	})
}

// pursueApart lets a member continue alone, be put aside, and be started by operators again and again.
func (n *nemesis) pursueApart(node *sim.Node, id cke.Identity, asked bool) {
	switch i := slices.IndexFunc(id.Joins, func(j cke.Join) bool { return j.Apart }); {
	case i >= 0:
		n.s.MachineOf(id.Joins[i]).StartByHand()
	case id.Freeze.Active():
		if !asked {
			n.unfreeze()
		}
	case n.s.settled() && len(id.Joins) < min(3, len(n.s.Nodes())):
		n.s.Store().SetSpec(n.s.cluster(n.s.Nodes()))
		n.apply()
	default:
		n.continueAlone(node)
	}
}

// A member that was put aside and serves again, where it cannot be stopped, is replaced: that its own list has it does not make the store
// an older one.
func TestTwins_AMemberPutAsideThatServesIsReplaced(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.Node("n1").ContinueAlone()
		s.must("frozen", func() bool { return s.freeze().Active() })
		s.Choose(false)
		n := s.person()
		n.unfreeze()
		s.must("lifted", func() bool { return !s.freeze().Active() })
		was := s.join("n1")
		s.Node("n1").ChangeHostKey()
		s.Node("n1").StartByHand()
		s.must("serving alone", func() bool { return s.Write("n1", "alone") })
		s.ask(cke.TaskReplace, "n1", string(was.ID), "it has the wrong data")
		s.must("removed", func() bool { _, lasts := s.Store().Identity().Join(was.ID); return !lasts })
		s.Node("n1").AcceptHostKey()
		s.must("replaced", func() bool { return s.arrived() || s.freeze().Active() })
		if v := s.Violations(); v != nil || s.freeze().Active() {
			t.Error(strings.Join(v, "\n"))
		}
	})
}

// ageCertificates brings those of a node near their end or past it, unless that could leave a frozen cluster without any that serves.
func (n *nemesis) ageCertificates(node *sim.Node) {
	if !n.twins {
		node.AgeCertificates(0.7 + 0.4*n.Float64())
	}
}

// removeContainers takes those of a node away, unless two histories may freeze the cluster: cke makes none again then, and the lift of the
// freeze wants members that serve.
func (n *nemesis) removeContainers(node *sim.Node) {
	if !n.twins {
		node.RemoveContainers()
	}
}

// Right members whose containers were removed during the freeze are made again once it is lifted, which does not need them to serve: that
// they served together is evidence of the freeze.
func TestTwins_RightMembersWithoutContainersAreMadeAgainAfterTheLift(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.Node("n1").ContinueAlone()
		s.must("frozen", func() bool { return s.freeze().Active() })
		s.Choose(false)
		for _, name := range []string{"n2", "n3"} {
			s.Node(name).RemoveContainers()
		}
		s.pass(time.Minute)
		s.Node("n1").SwitchRestartsOff()
		s.Node("n1").StopByHand()
		n := s.person()
		n.unfreeze()
		s.must("lifted", func() bool { return !s.freeze().Active() })
		n.heal()
		s.must("as declared", func() bool { n.attend(); return s.arrived() })
		if v := s.Violations(); v != nil {
			t.Error(strings.Join(v, "\n"))
		}
	})
}
