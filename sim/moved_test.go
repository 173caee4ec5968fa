package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/server/strategy"
	"cke/sim"
)

// moves forms a cluster on its first nodes, copies the store, moves the members to others, and puts the copy, which names the first nodes
// only, in the store's place. harm is done before.
func (s *stage) moves(t *testing.T, from, to []int, volumes cke.VolumePolicy, harm func(*stage)) (moved cke.Cluster) {
	t.Helper()
	s.declare(s.nodesOf(from)...)
	s.backedUp()
	copied := s.Store().Copy()
	moved = s.want(to, false)
	if moved.Policies.Volumes.OnRemoval = volumes; volumes == cke.VolumeDelete {
		moved.Backup.Target = ""
	}
	s.Store().SetSpec(moved)
	s.must("moved", s.changed)
	s.pass(time.Hour)
	if !s.Write(fmt.Sprintf("n%d", to[0]), "acknowledged") {
		t.Fatal("not written")
	}
	harm(s)
	s.broughtBack(copied)
	return moved
}

func (s *stage) nodesOf(numbers []int) (nodes []*sim.Node) {
	for _, n := range numbers {
		nodes = append(nodes, s.Node(fmt.Sprintf("n%d", n)))
	}
	return nodes
}

// refuses asks for a restore, which is to be refused, and for nothing to be done.
func (s *stage) refuses(t *testing.T, o cke.RestoreOrder) {
	t.Helper()
	n := len(s.Store().Records())
	s.order(o)
	s.pass(10 * time.Minute)
	for _, v := range s.Violations() {
		t.Error(v)
	}
	if !slices.ContainsFunc(s.Store().Records()[n:], func(r cke.Record) bool { return r.Refusal != nil && r.Code == cke.CodeOlderStore }) {
		t.Errorf("%s is not refused: %+v", o.Describe(), s.Store().Records()[n:])
	}
}

// advises reports whether a problem of the status advises this.
func (s *stage) advises(what string) bool {
	return slices.ContainsFunc(s.told().Problems, func(p cke.Problem) bool { return strings.Contains(p.Remedy, what) })
}

// Requirement A11: all members moved to other nodes since the store was copied. What is left on the former nodes is no cluster that lost its
// quorum, and no restore makes a second one beside that which serves.
func TestOlderStore_FromBeforeAllMembersMovedIsFrozen(t *testing.T) {
	nothing := func(*stage) {}
	for name, c := range map[string]struct {
		from, to []int
		order    cke.RestoreOrder
		volumes  cke.VolumePolicy
		harm     func(*stage)
	}{
		"restore":          {[]int{1, 2, 3}, []int{4, 5, 6}, fromBackup, "", nothing},
		"recover":          {[]int{1, 2, 3}, []int{4, 5, 6}, cke.RestoreOrder{Survivor: "n1", Named: true}, "", nothing},
		"one is cut off":   {[]int{1, 2, 3}, []int{3, 4, 5}, cke.RestoreOrder{Target: fromBackup.Target, Without: []string{"n3"}}, "", func(s *stage) { s.Isolate("n3") }},
		"the only one":     {[]int{1}, []int{2}, fromBackup, "", nothing},
		"volumes are gone": {[]int{1, 2, 3}, []int{4, 5, 6}, fromBackup, cke.VolumeDelete, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 6, func(s *stage) {
				moved := s.moves(t, c.from, c.to, c.volumes, c.harm)
				if !s.until(convergence, func() bool { return s.frozenFor(cke.FreezeOlderStore) }) {
					dec, _ := s.latest().now()
					t.Fatalf("not frozen: %s", describeDecision(s.latest().Number(), dec))
				}
				s.refuses(t, c.order)
				if s.advises("ckecli recover") || s.advises("ckecli restore") {
					t.Errorf("advised: %+v", s.told().Problems)
				}
				s.Rejoin("n3")
				s.Store().SetSpec(moved)
				s.pass(time.Minute)
				s.reclaims(t)
				s.isUnharmed(t)
				s.must("as declared", s.changed)
			})
		})
	}
}

// Requirement A11: nodes that could not be marked when the memberships ended. That etcd says that its members were removed is enough to refuse a restore.
func TestOlderStore_FromBeforeAllMembersMovedWithoutMarks(t *testing.T) {
	play(t, 6, func(s *stage) {
		moved := s.moves(t, []int{1, 2, 3}, []int{4, 5, 6}, "", func(s *stage) {
			s.LoseBeside(true)
			for _, n := range s.Nodes() {
				n.Unmark()
			}
		})
		s.pass(10 * time.Minute)
		for _, o := range []cke.RestoreOrder{fromBackup, {Survivor: "n1", Named: true}} {
			s.refuses(t, o)
		}
		if st := s.told(); st.Health != cke.HealthUnknown || s.advises("ckecli recover") || !s.advises("ckecli cluster reclaim") {
			t.Errorf("%s: %+v", st.Health, st.Problems)
		}
		s.Store().SetSpec(moved)
		s.until(convergence, func() bool { return s.frozenFor(cke.FreezeOlderStore) })
		s.reclaims(t)
		s.isUnharmed(t)
	})
}

// Where neither marks nor etcd's last words count, a restore makes a second cluster beside the one that moved, and the checker notices.
func TestChecker_NoticesARestoreBesideAClusterThatMoved(t *testing.T) {
	play(t, 6, func(s *stage) {
		s.moves(t, []int{1, 2, 3}, []int{4, 5, 6}, "", func(s *stage) {
			s.LoseBeside(true)
			s.blind = func(in *strategy.Input) {
				in.Seen.Nodes = slices.Clone(in.Seen.Nodes)
				for i := range in.Seen.Nodes {
					n := &in.Seen.Nodes[i]
					n.Over, n.Containers = nil, slices.Clone(n.Containers)
					for k := range n.Containers {
						n.Containers[k].LastWords = ""
					}
				}
			}
		})
		s.order(fromBackup)
		s.pass(10 * time.Minute)
		s.mustViolate(t, "second cluster", "two clusters", "quorum")
	})
}

// All that came after the copy is gone for good: an operator lifts the freeze, and restores, as the status advises.
func TestOlderStore_FromBeforeAllMembersMovedToMachinesThatAreDestroyed(t *testing.T) {
	play(t, 6, func(s *stage) {
		s.moves(t, []int{1, 2, 3}, []int{4, 5, 6}, "", func(s *stage) {
			for _, n := range s.Nodes()[3:] {
				n.Blank()
			}
		})
		if !s.until(convergence, func() bool { return s.frozenFor(cke.FreezeOlderStore) && s.advises("ckecli cluster unfreeze") }) {
			t.Fatal(s.told().Summary)
		}
		s.pass(time.Minute) // what lies beside the backups was compared
		s.ask(cke.TaskUnfreeze, "", s.freeze().ID, "all that came after it is gone")
		s.pass(time.Minute)
		s.order(fromBackup)
		s.must("restored", func() bool { return s.restored() && s.changed() })
	})
}
