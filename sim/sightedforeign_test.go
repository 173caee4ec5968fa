package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// The start of a recovery was withdrawn once. A later restore is called off after the store was copied: it does not go on when the copy is
// brought back, as without the withdrawal.
func TestWithdrawStart_ARestoreThatWasCalledOffAfterAWithdrawalDoesNotGoOn(t *testing.T) {
	for name, withdrawal := range map[string]bool{"no withdrawal before": false, "after a withdrawal": true} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				if withdrawal {
					down := calledDestroyed(t, s, refuseKey)
					was := s.Store().Identity().Incarnation.ID
					back := false
					s.Judge = func(_ int, c sim.Call) sim.Verdict {
						id := s.Store().Identity()
						if !back && c.Name == "PutFiles" && id.Incarnation.State == cke.Restoring && id.Started() {
							back = true
							for _, n := range down {
								n.PowerOn()
							}
						}
						return sim.Proceed
					}
					s.order(destroyedOrders["recovery"])
					s.must("withdrawn", func() bool { return back && s.Store().Identity().Incarnation.ID == was })
					s.Judge = nil
					for _, n := range down {
						n.RefuseKey(false)
					}
					s.must("settled", s.settled)
					s.pass(10 * time.Minute)
					if !slices.ContainsFunc(s.Store().Records(), func(r cke.Record) bool { return r.Operation == "withdraw-start" }) {
						t.Fatal("no start was withdrawn")
					}
				} else {
					s.backedUp()
				}
				was := s.Store().Identity().Incarnation.ID
				down := s.Nodes()[1:3]
				for _, n := range down {
					n.PowerOff()
				}
				s.pass(time.Minute)
				s.Node("n1").FillDisk()
				s.order(destroyedOrders["restore"])
				s.must("begun", func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
				s.pass(time.Minute)
				copied := s.Store().Copy()
				for _, n := range down { // they were not destroyed, so the restore is called off
					n.PowerOn()
				}
				s.pass(2 * time.Minute)
				s.ask(cke.TaskCancelRestore, "", "", "")
				s.Node("n1").FreeDisk()
				s.must("called off", func() bool { return s.Store().Identity().Incarnation.ID == was && len(s.asked()) == 0 })
				s.must("clean", s.settled)
				s.pass(10 * time.Minute)
				if !s.Write("n2", "acknowledged") {
					t.Fatal("not written")
				}
				for _, n := range down {
					s.Cut(sim.Management, n.Name())
					s.Cut("n1", n.Name())
				}
				s.broughtBack(copied)
				s.pass(time.Minute)
				s.pass(30 * time.Minute)
				frozen := s.told().Health == cke.HealthFrozen && s.reports(cke.CodeOlderStore, "")
				late := s.Write("n2", "later")
				if !frozen || !late || s.restored() {
					t.Errorf("frozen %v, restored %v beside %d running members on n2 and n3, holds %v: %s; %s", frozen, s.restored(), s.runningOn("n2")+s.runningOn("n3"), s.Written(), s.told().Summary, s.told().Reason)
				}
				s.unbroken(t)
			})
		})
	}
}

// heldForeign forms a cluster of the first nodes, to which an operator adds a member by hand on each of the others.
func (s *stage) heldForeign(t *testing.T, ours int) (foreign []*sim.Node, names []string) {
	t.Helper()
	c := s.cluster(s.Nodes()[:ours])
	c.Policies.Foreign = cke.ForeignHold
	s.Store().SetSpec(c)
	s.daemon()
	if !s.until(convergence, s.settled) || !s.Write("n1", "kept") {
		t.Fatal("no cluster")
	}
	foreign = s.Nodes()[ours:]
	for _, n := range foreign {
		name := "hand-" + n.Name()
		names = append(names, name)
		if !n.Join(name, true) {
			t.Fatal("cannot join")
		}
		n.Keep(name)
		s.pass(time.Minute)
	}
	if s.ForeignMembers() != len(foreign) || !s.Write(foreign[0].Name(), "x") {
		t.Fatalf("%v", s.World)
	}
	return foreign, names
}

// A deletion waits for n2, and calls the three foreign voters destroyed, which were without power. They are back for a while, are seen, serve, and are
// cut off from cke. Once n2 is back the deletion waits, as it does for nodes of the cluster.
func TestDelete_WaitsForForeignVotersThatWereSeen(t *testing.T) {
	play(t, 5, func(s *stage) {
		foreign, names := s.heldForeign(t, 2)
		for _, n := range append(foreign, s.Node("n2")) {
			n.PowerOff()
		}
		s.pass(time.Minute)
		s.destroy(names...)
		s.Store().RequestDelete()
		s.pass(time.Minute)
		for _, n := range foreign {
			n.PowerOn()
			n.StartByHand()
		}
		s.pass(5 * time.Minute)
		if !s.Write("n3", "late") {
			t.Fatal("they do not serve")
		}
		for _, n := range foreign {
			s.Cut(sim.Management, n.Name())
			s.Cut("n1", n.Name())
			s.Cut("n2", n.Name())
		}
		s.pass(time.Minute)
		s.Node("n2").PowerOn()
		s.pass(20 * time.Minute)
		if s.Store().Deleted() || !s.reports(cke.CodeFence, "hand-n3") {
			t.Errorf("deleted %v while foreign voters serve that were seen: %s", s.Store().Deleted(), s.told().Reason)
		}
		s.unbroken(t)
	})
}

// The foreign voters that a deletion calls destroyed are back while it stops the member of cke: they are asked before it is sealed, as nodes are.
func TestDelete_AsksForeignVotersBeforeItIsSealed(t *testing.T) {
	play(t, 3, func(s *stage) {
		foreign, names := s.heldForeign(t, 1)
		for _, n := range foreign {
			n.PowerOff()
		}
		s.pass(time.Minute)
		back := false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if operation, step := s.Store().Running(); !back && operation == "delete-cluster" && step != "seal" {
				back = true
				for _, n := range foreign {
					n.PowerOn()
					n.StartByHand()
				}
			}
			return sim.Proceed
		}
		s.destroy(names...)
		s.Store().RequestDelete()
		s.pass(20 * time.Minute)
		if !back || s.Store().Deleted() {
			t.Errorf("back %v, deleted %v: %s", back, s.Store().Deleted(), s.told().Reason)
		}
		s.unbroken(t)
	})
}
