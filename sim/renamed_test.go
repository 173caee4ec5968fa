package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// runs reports whether a container runs on a node.
func runs(n *sim.Node) bool {
	containers, _ := n.Look()
	for _, c := range containers {
		if c.Running() {
			return true
		}
	}
	return false
}

// An operator has renamed the containers of the members: what stops and removes them finds them all the same.
func TestRenamedContainers_AreStopped(t *testing.T) {
	for what, row := range map[string]struct {
		ask  func(s *stage)
		done func(s *stage) bool
	}{
		"deleted":    {func(s *stage) { s.Store().RequestDelete() }, func(s *stage) bool { return s.Store().Deleted() }},
		"hibernated": {func(s *stage) { s.Store().Hibernate(true) }, func(s *stage) bool { return s.told().Health == cke.HealthHibernated }},
		"restored": {func(s *stage) {
			s.Store().SetSpec(s.onNodes("n4", "n5", "n6"))
			s.order(fromBackup)
		}, func(s *stage) bool { return s.restored() }},
	} {
		t.Run(what, func(t *testing.T) {
			play(t, 6, func(s *stage) {
				s.Store().SetSpec(s.onNodes("n1", "n2", "n3"))
				s.backedUp()
				for _, n := range s.Nodes() {
					containers, _ := n.Look()
					for _, c := range containers {
						n.Rename(c.Name, c.Name+"-old")
					}
				}
				s.pass(time.Minute)
				row.ask(s)
				if !s.until(20*time.Minute, func() bool { return row.done(s) }) {
					t.Errorf("not %s", what)
				}
				s.pass(time.Minute)
				for _, n := range s.Nodes()[:3] {
					if runs(n) {
						t.Errorf("a member runs on %s", n.Name())
					}
				}
				for _, v := range s.Violations() {
					t.Error(v)
				}
			})
		})
	}
}

// An engine has lost the labels of its volumes, and nothing else. A change of the file restarts the member on its data.
func TestVolumesWithoutLabels_AMemberIsRestartedOnItsOwn(t *testing.T) {
	for _, members := range []int{1, 2, 3} {
		play(t, members, func(s *stage) {
			s.daemon()
			if !s.until(convergence, s.settled) || !s.Write("n1", "precious") {
				t.Fatal("does not form")
			}
			before := s.Store().Identity()
			s.Node("n1").ForgetLabels()
			s.pass(time.Minute)
			c := s.cluster(s.Nodes())
			c.Options.Etcd.ExtraArgs = []string{"--heartbeat-interval=101"}
			c.Policies.Replace.Mode = cke.ReplaceAuto
			s.Store().SetSpec(c)
			s.pass(90 * time.Minute)
			if o := s.Node("n1").MadeWith(before.Joins[0].Volume); len(o.ExtraArgs) == 0 {
				t.Errorf("%d members: the one on n1 is not restarted", members)
			}
			for _, j := range before.Joins {
				if _, lasts := s.Store().Identity().Join(j.ID); !lasts {
					t.Errorf("%d members: the membership of %s was ended", members, j.Node.Name())
				}
			}
			if !s.Write("n1", "after") {
				t.Errorf("%d members: n1 does not serve", members)
			}
			for _, v := range s.Violations() {
				t.Error(v)
			}
		})
	}
}

// All engines have lost the labels of their volumes, as after a power loss in the rack.
func TestVolumesWithoutLabels_AClusterWakes(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.daemon()
		if !s.until(convergence, s.settled) || !s.Write("n1", "precious") {
			t.Fatal("does not form")
		}
		for _, n := range s.Nodes() {
			n.ForgetLabels()
		}
		s.Store().Hibernate(true)
		s.pass(10 * time.Minute)
		s.Store().Hibernate(false)
		s.pass(10 * time.Minute)
		if !s.Write("n1", "after") {
			t.Error("all data is there, and nobody is served")
		}
		for _, v := range s.Violations() {
			t.Error(v)
		}
	})
}
