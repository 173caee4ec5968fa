package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// bad is one way in which a node can be in no state to carry a member.
type bad struct {
	name string
	do   func(n *sim.Node)
	undo func(n *sim.Node)
	code cke.Code
	// atStart: it shows only when etcd is to be started.
	atStart bool
}

var badNodes = []bad{
	{"down", (*sim.Node).PowerOff, (*sim.Node).PowerOn, cke.CodeUnreachable, false},
	{"frozen", (*sim.Node).Freeze, (*sim.Node).Thaw, cke.CodeUnreachable, false},
	{"cut off", func(n *sim.Node) { n.World().Isolate(n.Name()) }, func(n *sim.Node) { n.World().Rejoin(n.Name()) }, cke.CodeUnreachable, false},
	{"cut off from the management host", func(n *sim.Node) { n.World().Cut(n.Name(), sim.Management) }, func(n *sim.Node) { n.World().HealNetwork() }, cke.CodeUnreachable, false},
	{"its engine hangs", (*sim.Node).Hang, (*sim.Node).Unhang, cke.CodeEngine, false},
	{"wrong host key", (*sim.Node).ChangeHostKey, (*sim.Node).AcceptHostKey, cke.CodeHostKey, false},
	{"refuses the login", func(n *sim.Node) { n.RefuseKey(true) }, func(n *sim.Node) { n.RefuseKey(false) }, cke.CodeSSHAuth, false},
	{"no room", (*sim.Node).FillDisk, (*sim.Node).FreeDisk, cke.CodeDiskFull, true},
	{"client port taken", func(n *sim.Node) { n.TakePort(2379) }, func(n *sim.Node) { n.ReleasePort(2379) }, cke.CodePortTaken, false},
	{"peer port taken", func(n *sim.Node) { n.TakePort(2380) }, func(n *sim.Node) { n.ReleasePort(2380) }, cke.CodePortTaken, false},
	{"client port filtered", func(n *sim.Node) { n.FilterClientPort(true) }, func(n *sim.Node) { n.FilterClientPort(false) }, cke.CodeMemberSilent, false},
	{"foreign etcd", func(n *sim.Node) { n.AddForeignEtcd("etcd", 2379, 2380) }, func(n *sim.Node) { n.Remove("etcd") }, cke.CodeForeignEtcd, false},
	{"leftover volume", func(n *sim.Node) { n.AddVolume(cke.Volume{Name: "etcd-cke"}) }, func(n *sim.Node) { n.Remove("etcd-cke") }, cke.CodeLeftover, false},
	{"volume of another life", func(n *sim.Node) {
		n.AddVolume(cke.Volume{Name: "etcd-cke.x", Cluster: clusterName, Incarnation: "unknown", Join: "x"})
	}, func(n *sim.Node) { n.Remove("etcd-cke.x") }, cke.CodeLeftover, false},
	{"cut off from another founder", func(n *sim.Node) { n.World().Cut(n.Name(), "n1"); n.World().Cut(n.Name(), "n3") }, func(n *sim.Node) { n.World().HealNetwork() }, cke.CodeMemberSilent, true},
}

// named reports whether problems name a node with this code, and what to do about it.
func named(problems []cke.Problem, node string, code cke.Code) bool {
	for _, p := range problems {
		if p.Node == node && p.Code == code && p.Remedy != "" && p.Message != "" {
			return true
		}
	}
	return false
}

// carried describes what stands on all nodes.
func (s *stage) carried() string {
	var b strings.Builder
	for _, n := range s.Nodes() {
		containers, volumes := n.Look()
		fmt.Fprintln(&b, n.Name(), containers, volumes)
	}
	return b.String()
}

func TestBootstrap_WaitsForABadNodeThenGoesOnByItself(t *testing.T) {
	for _, b := range badNodes {
		t.Run(b.name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				n2 := s.Node("n2")
				b.do(n2)
				before := s.carried()
				s.daemon()
				s.pass(10 * time.Minute)
				dec, status := s.latest().now()
				if !named(status.Problems, "n2", b.code) {
					t.Errorf("%s is not told with node and remedy: %s", b.code, describeDecision(1, dec))
				}
				if status.Health != cke.HealthForming {
					t.Errorf("health %s", status.Health)
				}
				if inc := s.Store().Identity().Incarnation; inc != nil && inc.State == cke.Formed {
					t.Error("formed without n2")
				}
				if after := s.carried(); !b.atStart && after != before {
					t.Errorf("nodes were changed:\n%s\n%s", before, after)
				}
				b.undo(n2)
				if !s.until(convergence, s.settled) {
					dec, _ := s.latest().now()
					t.Fatalf("does not go on: %s", describeDecision(1, dec))
				}
				if faults := s.faults("n1", "n2", "n3"); faults != nil {
					t.Error(strings.Join(faults, "\n"))
				}
			})
		})
	}
}

// The same causes, each of them appearing at every call of a bootstrap and going away a while later.
func TestBootstrap_EndsAsOneClusterWheneverANodeTurnsBad(t *testing.T) {
	calls := callsOf(t, 3)
	for i, b := range badNodes {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			for k := range points(calls, 6, i) {
				var faults []string
				scene := func(s *stage) {
					n2 := s.Node("n2")
					s.Judge = func(n int, _ sim.Call) sim.Verdict {
						if n == k {
							b.do(n2)
						}
						return sim.Proceed
					}
					s.daemon()
					s.pass(time.Minute)
					b.undo(n2)
					if !s.until(2*convergence, func() bool { return s.settled() && s.faults(s.everyNode()...) == nil }) {
						dec, _ := s.latest().now()
						faults = append(s.faults(s.everyNode()...), describeDecision(1, dec))
					}
				}
				if play(t, 3, scene); faults != nil {
					t.Fatalf("from call %d on:\n%s", k, strings.Join(faults, "\n"))
				}
			}
		})
	}
}
