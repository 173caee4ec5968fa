package sim_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cke"
	"cke/sim"
)

// change is a change of the spec of a formed cluster, from the first nodes of the world to others.
type change struct {
	name     string
	from, to []int // nodes with a member, by number
	options  bool  // the options change as well
}

var changes = []change{
	{"1 to 2", []int{1}, []int{1, 2}, false},
	{"1 to 3", []int{1}, []int{1, 2, 3}, false},
	{"3 to 1", []int{1, 2, 3}, []int{2}, false},
	{"3 to 4", []int{1, 2, 3}, []int{1, 2, 3, 4}, false},
	{"one replaced", []int{1, 2, 3}, []int{1, 2, 4}, false},
	{"all replaced", []int{1, 2}, []int{3, 4}, false},
	{"other options", []int{1, 2, 3}, []int{1, 2, 3}, true},
}

// want is the spec with members on these nodes; the other nodes are declared without.
func (s *stage) want(members []int, options bool) cke.Cluster {
	c := s.cluster(s.Nodes())
	for i := range c.Nodes {
		c.Nodes[i].ControlPlane = false
	}
	for _, m := range members {
		c.Nodes[m-1].ControlPlane = true
	}
	if options {
		c.Options.Etcd.ExtraArgs = []string{"--heartbeat-interval=101"}
	}
	c.Policies.Replace.Mode = cke.ReplaceAuto
	return c
}

// beginChange forms the cluster that a change begins with, writes something, and asks for the change.
func (s *stage) beginChange(t *testing.T, c change) {
	s.Store().SetSpec(s.want(c.from, false))
	s.daemon()
	if !s.until(convergence, s.settled) || !s.Write(fmt.Sprintf("n%d", c.from[0]), "precious") {
		t.Fatal("does not form")
	}
	s.Store().SetSpec(s.want(c.to, c.options))
}

func (s *stage) changed() bool { return s.settled() && s.faults(s.declared()...) == nil }

// disturbed plays a change that judge disturbs, which is given calls counted from the beginning of the change.
func disturbed(t *testing.T, c change, seed uint64, judge func(s *stage, n int, call sim.Call) sim.Verdict) []string {
	scene := func(s *stage) (faults []string) {
		s.beginChange(t, c)
		begin := s.Calls()
		s.Judge = func(n int, call sim.Call) sim.Verdict { return judge(s, n-begin, call) }
		if seed > 0 {
			s.Pick = rand.New(rand.NewPCG(seed, 0)).IntN
		}
		ok := s.until(4*convergence, func() bool { s.succeed(); return s.changed() })
		s.Land()
		for _, d := range s.drivers {
			d.Wake()
		}
		if !ok || !s.until(convergence, s.changed) {
			dec, _ := s.latest().now()
			faults = append(s.faults(s.declared()...), "does not converge: "+describeDecision(s.latest().Number(), dec))
		}
		return append(faults, s.Violations()...)
	}
	var faults []string
	if play(t, 4, func(s *stage) { faults = scene(s) }); faults != nil {
		play(t, 4, func(s *stage) {
			s.tell = t.Logf
			s.OnTrace(t.Logf)
			scene(s)
			t.Logf("\n%s", s.World)
		})
	}
	return faults
}

func callsOfChange(t *testing.T, c change) (calls int) {
	play(t, 4, func(s *stage) {
		s.beginChange(t, c)
		begin := s.Calls()
		if !s.until(convergence, s.changed) {
			t.Fatal(s.faults(s.declared()...))
		}
		calls = s.Calls() - begin
	})
	return calls
}

func TestChange_EndsAsDeclaredFromEveryCrashPoint(t *testing.T) {
	verdicts := []sim.Verdict{sim.KillBefore, sim.KillHalfway, sim.KillAfter, sim.KillLate, sim.Linger, sim.LoseAnswer, sim.Freeze}
	for i, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			calls := callsOfChange(t, c)
			for k := range points(calls, 2, i) {
				for i := range points(len(verdicts), len(verdicts), k) {
					v := verdicts[i-1]
					faults := disturbed(t, c, uint64(k), func(s *stage, n int, _ sim.Call) sim.Verdict {
						if n == k+25 {
							s.Land()
						}
						if n == k {
							return v
						}
						return sim.Proceed
					})
					if faults != nil {
						t.Fatalf("%v at call %d of %d:\n%s", v, k, calls, strings.Join(faults, "\n"))
					}
				}
			}
			t.Logf("%d crash points", calls)
		})
	}
}

// A node that is to get or to give up a member loses its disk, or its power for a while, at every call of the change.
func TestChange_EndsAsDeclaredWheneverANodeFails(t *testing.T) {
	strikes := map[string]func(s *stage, n *sim.Node){
		"blank":         func(_ *stage, n *sim.Node) { n.Blank() },
		"volumes gone":  func(_ *stage, n *sim.Node) { n.RemoveVolumes() },
		"emptied":       func(_ *stage, n *sim.Node) { n.EmptyVolumes() },
		"killed":        func(_ *stage, n *sim.Node) { n.KillEtcd() },
		"rebooted":      func(_ *stage, n *sim.Node) { n.Reboot() },
		"stopped":       func(_ *stage, n *sim.Node) { n.StopByHand() },
		"containers rm": func(_ *stage, n *sim.Node) { n.RemoveContainers() },
	}
	for _, c := range changes {
		if len(c.to) < 3 {
			continue // the loss of one of two is the loss of the cluster
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			calls := callsOfChange(t, c)
			for name, strike := range strikes {
				for k := range points(calls, 10, len(name)) {
					var lost bool
					faults := disturbed(t, c, 0, func(s *stage, n int, _ sim.Call) sim.Verdict {
						if n == k {
							strike(s, s.Node(fmt.Sprintf("n%d", c.to[len(c.to)-1])))
						}
						if n == k+1 {
							lost = !s.Recoverable()
						}
						return sim.Proceed
					})
					if faults != nil && !lost {
						t.Fatalf("%s at call %d of %d:\n%s", name, k, calls, strings.Join(faults, "\n"))
					}
				}
			}
		})
	}
}
