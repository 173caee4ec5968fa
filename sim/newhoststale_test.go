package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// movedSince is a cluster on n1, n2 and n3 whose members on nodes moved to n4 and the next ones, with nothing left but marks, and the store from
// before that: what lies beside the backups of another target.
func (s *stage) movedSince(t *testing.T, nodes ...string) sim.StoreCopy {
	t.Helper()
	declare := func(names ...string) {
		c := s.onNodes(names...)
		c.Policies.Volumes = cke.VolumePolicies{OnRemoval: cke.VolumeDelete}
		s.Store().SetSpec(c)
	}
	declare("n1", "n2", "n3")
	s.backedUp()
	beside := s.Store().Copy()
	first := s.cluster(s.Nodes()[:3]) // as the file was, that names no other node
	moved := []string{"n1", "n2", "n3", "n4", "n5", "n6"}[len(nodes):][:3]
	declare(moved...)
	s.must("moved", func() bool {
		left := 0
		for _, n := range nodes {
			containers, volumes := s.Node(n).Look()
			left += len(containers) + len(volumes)
		}
		return s.settled() && left == 0
	})
	s.pass(2 * time.Minute)
	if !s.Write("n4", "acknowledged") {
		t.Fatal("not written")
	}
	s.latest().Kill()
	s.declaredFrom(beside)
	s.Store().SetSpec(first)
	return beside
}

// The management host is lost, and the identity that is read on the next one is from before all members moved, or two of them, where the third is
// destroyed with the host. Marks on the former nodes are all that shows it.
func TestNewHost_RestoresNothingBesideMembersThatMoved(t *testing.T) {
	for name, nodes := range map[string][]string{"all": {"n1", "n2", "n3"}, "two": {"n1", "n2"}} {
		t.Run(name, func(t *testing.T) {
			play(t, 6, func(s *stage) {
				s.movedSince(t, nodes...)
				o := fromBackup
				if len(nodes) == 2 {
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
				beside := s.movedSince(t, "n1", "n2", "n3")
				s.order(fromBackup)
				s.pass(10 * time.Minute)
				s.Store().RequestDelete()
				s.must("deleted", s.Store().Deleted)
				s.latest().Kill()
				archived := s.Store().Copy()
				if again == "restore" {
					s.broughtBack(beside.Knowing(archived).With(beside.Identity().Awaiting(time.Now())))
					s.Store().SetSpec(s.cluster(s.Nodes()[:3]))
					s.order(fromBackup)
				} else {
					s.broughtBack(beside.Knowing(archived).With(cke.Identity{}))
					s.Store().SetSpec(s.cluster(s.Nodes()[:3]))
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
