package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/server/strategy"
	"cke/sim"
)

// movesAway lets members be on some nodes, which are backed up, and then on others, with nothing left but marks. The management host is lost then, and the
// next one reads what lay beside the backups before, whose file names no other nodes.
func (s *stage) movesAway(from, to []string) (beside sim.StoreCopy, moved bool) {
	declare := func(names []string) {
		c := s.onNodes(names...)
		c.Policies.Volumes = cke.VolumePolicies{OnRemoval: cke.VolumeDelete}
		s.Store().SetSpec(c)
	}
	declare(from)
	if !s.until(convergence, s.settled) || !s.Write(from[0], "kept") {
		return beside, false
	}
	s.TakeBackup()
	beside = s.Store().Copy()
	declare(to)
	gone := func() bool {
		left := 0
		for _, n := range from {
			containers, volumes := s.Node(n).Look()
			if left += len(containers) + len(volumes); slices.Contains(to, n) {
				left = 0
			}
		}
		return s.settled() && left == 0
	}
	if !s.until(convergence, gone) {
		return beside, false
	}
	s.pass(2 * time.Minute)
	moved = s.Write(to[len(to)-1], "acknowledged")
	s.latest().Kill()
	s.declaredFrom(beside)
	s.Store().SetSpec(s.cluster(s.Nodes()[:len(from)]))
	return beside, moved
}

// declareAgain gives up the declaration of a cluster, and declares it once more.
func (s *stage) declareAgain(beside sim.StoreCopy, id cke.Identity) bool {
	s.Store().RequestDelete()
	if !s.until(time.Hour, s.Store().Deleted) {
		return false
	}
	spec := s.Store().Spec().Cluster
	s.latest().Kill()
	s.broughtBack(beside.Knowing(s.Store().Copy()).With(id))
	s.Store().SetSpec(spec)
	return true
}

// The management host is lost, and the identity that is read on the next one is from before all members moved, or two of them, where the third is
// destroyed with the host. Marks on the former nodes are all that shows it.
func TestNewHost_RestoresNothingBesideMembersThatMoved(t *testing.T) {
	for name, to := range map[string][]string{"all": {"n4", "n5", "n6"}, "two": {"n3", "n4", "n5"}} {
		t.Run(name, func(t *testing.T) {
			play(t, 6, func(s *stage) {
				s.daemon()
				if _, moved := s.movesAway([]string{"n1", "n2", "n3"}, to); !moved {
					t.Fatal("not moved")
				}
				o := fromBackup
				if name == "two" {
					s.Node("n3").PowerOff()
					o.Destroyed = []string{"n3"}
				}
				s.order(o)
				s.until(time.Hour, s.restored)
				if s.restored() || !s.Write("n4", "to the cluster as it was") {
					t.Errorf("restored: %v", s.restored())
				}
				s.unbroken(t)
				for _, j := range s.Store().Identity().Joins { // its machines are destroyed since
					o.Accepted = append(o.Accepted, string(j.ID))
				}
				for _, n := range []string{"n4", "n5", "n6"} {
					s.Node(n).PowerOff()
				}
				s.order(o)
				s.must("restored once that is accepted", s.restored)
			})
		})
	}
}

// The restore is refused, the operator gives the declaration up, and declares the cluster again: nothing of it was stopped, so that
// no other is made.
func TestNewHost_MakesNothingBesideAClusterWhoseDeclarationWasDeleted(t *testing.T) {
	for _, again := range []string{"bootstrap", "restore"} {
		t.Run(again, func(t *testing.T) {
			play(t, 6, func(s *stage) {
				s.daemon()
				beside, moved := s.movesAway([]string{"n1", "n2", "n3"}, []string{"n4", "n5", "n6"})
				s.order(fromBackup)
				s.pass(10 * time.Minute)
				id := cke.Identity{}
				if again == "restore" {
					id = beside.Identity().Awaiting(time.Now())
				}
				if !moved || !s.declareAgain(beside, id) {
					t.Fatal("not moved, or not deleted")
				}
				if again == "restore" {
					s.order(fromBackup)
				}
				s.pass(time.Hour)
				if inc := s.Store().Identity().Incarnation; inc != nil && inc.State != cke.Awaiting {
					t.Errorf("made again: %s", inc.State)
				}
				if again == "restore" && !s.Write("n4", "to the cluster as it was") {
					t.Error("it does not serve")
				}
				s.unbroken(t)
			})
		})
	}
}

// unmarked takes the marks on nodes for those of what this store deleted.
func unmarked(in *strategy.Input) {
	for _, n := range in.Seen.Nodes {
		in.Identity.Deleted = append(in.Identity.Deleted, n.Over...)
	}
}

// moveAway lets the members move to the other half of the nodes, and the cluster be declared from what lay beside the backups before.
func (n *nemesis) moveAway() (beside sim.StoreCopy, moved bool) {
	var names []string
	for _, node := range n.s.Nodes() {
		names = append(names, node.Name())
	}
	return n.s.movesAway(names[:len(names)/2], names[len(names)/2:])
}

// The data of another cluster is restored beside an exited container of a cluster of this name that was deleted. A restored member whose own container is
// removed manually is made again: what was left before shows nothing.
func TestNewHost_WhatWasLeftBeforeAnImportFreezesNothing(t *testing.T) {
	play(t, 6, func(s *stage) {
		s.declare(s.Nodes()[3:]...)
		s.daemon()
		s.must("the first one serves", s.settled)
		s.Node("n4").StopByHand()
		s.Node("n4").SwitchRestartsOff()
		s.Node("n4").PowerOff()
		s.Store().RequestDelete()
		s.destroy("n4")
		s.must("deleted", s.Store().Deleted)
		s.latest().Kill()
		s.Store().Redeclare(s.cluster(s.Nodes()[:3]))
		s.backedUp()
		s.Store().RequestDelete()
		s.must("deleted, too", s.Store().Deleted)
		s.latest().Kill()
		deleted := s.Store().Copy()
		s.Store().Redeclare(s.cluster([]*sim.Node{s.Node("n1"), s.Node("n2"), s.Node("n4")}))
		s.broughtBack(s.Store().Copy().Knowing(deleted).With(cke.Identity{}.Awaiting(time.Now())))
		s.Node("n4").PowerOn()
		s.Judge = func(int, sim.Call) sim.Verdict {
			if f := s.Store().Identity().Freeze; f.Active() {
				t.Errorf("frozen: %s", f.Problem.Message)
			}
			return sim.Proceed
		}
		o := fromBackup
		o.Source = "other"
		s.order(o)
		s.must("restored", s.restored)
		s.must("settled", s.settled)
		s.Node("n4").RemoveContainer(s.join("n4").Volume)
		s.must("made again", func() bool { return s.settled() && s.Write("n4", "later") })
		s.unbroken(t)
	})
}

// older are schedules of a cluster that is declared from an older identity.
var older = map[string]func(n *nemesis){
	"restored": func(n *nemesis) {
		if _, moved := n.moveAway(); moved {
			n.s.order(fromBackup)
		}
	},
	"deleted, and bootstrapped": func(n *nemesis) {
		if beside, moved := n.moveAway(); moved {
			n.s.declareAgain(beside, cke.Identity{})
		}
	},
	"deleted, and restored": func(n *nemesis) {
		if beside, moved := n.moveAway(); moved && n.s.declareAgain(beside, beside.Identity().Awaiting(time.Now())) {
			n.s.order(fromBackup)
		}
	},
}

func TestNewHost_FromAnOlderIdentityInRandomSchedules(t *testing.T) {
	for name, begin := range older {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schedules := uint64(200)
			if testing.Short() {
				schedules = 20
			}
			for seed := range schedules {
				if v := mutant(t, mutation{begin: begin}, seed+1); v != nil {
					t.Fatalf("schedule %d: %q", seed+1, v)
				}
			}
		})
	}
}
