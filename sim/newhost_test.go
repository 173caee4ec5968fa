package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// declaredFrom declares the cluster on a new management host, from what lies beside the backups of another target.
func (s *stage) declaredFrom(c sim.StoreCopy) {
	s.TargetIsACopy(c.Identity())
	s.broughtBack(c.With(c.Identity().Awaiting(time.Now())))
}

// onNodes is the file that declares all nodes and makes these the control plane.
func (s *stage) onNodes(names ...string) cke.Cluster {
	c := s.cluster(s.Nodes())
	for i := range c.Nodes {
		c.Nodes[i].ControlPlane = false
		for _, n := range names {
			c.Nodes[i].ControlPlane = c.Nodes[i].ControlPlane || c.Nodes[i].Hostname == n
		}
	}
	return c
}

// burnt is the management host lost, and another one to which the cluster is declared from what lies beside its backups.
func (s *stage) burnt() {
	s.latest().Kill()
	copied := s.Store().Copy()
	s.declaredFrom(copied)
}

func (s *stage) unbroken(t *testing.T) {
	t.Helper()
	for _, v := range s.Violations() {
		t.Error(v)
	}
}

// The cluster was moved to nodes that the first file has as no control plane, and what the first nodes had is removed.
func TestBootstrap_NotBesideMembersOnNodesThatAreNoControlPlane(t *testing.T) {
	play(t, 6, func(s *stage) {
		declare := func(names ...string) {
			c := s.onNodes(names...)
			c.Policies.Volumes = cke.VolumePolicies{OnRemoval: cke.VolumeDelete}
			c.Backup = cke.Backup{}
			s.Store().SetSpec(c)
		}
		declare("n1", "n2", "n3")
		copied := s.Store().Copy()
		s.daemon()
		s.must("formed", s.settled)
		declare("n4", "n5", "n6")
		s.must("moved", func() bool {
			left := 0
			for _, n := range []string{"n1", "n2", "n3"} {
				containers, volumes := s.Node(n).Look()
				left += len(containers) + len(volumes)
			}
			return s.settled() && left == 0
		})
		if !s.Write("n4", "acknowledged") {
			t.Fatal("not written")
		}
		s.broughtBack(copied)
		s.pass(10 * time.Minute)
		dec, _ := s.latest().now()
		if dec.Operation != nil || len(dec.Blockers) == 0 || dec.Blockers[0].Code != cke.CodeOlderStore {
			t.Errorf("%s", describeDecision(s.latest().Number(), dec))
		}
		s.unbroken(t)
	})
}

// The cluster is deleted and declared again on other nodes, of which one may have been of the first, without what it had.
func TestOlderStore_OfBeforeADeletionStartsNobody(t *testing.T) {
	for _, overlap := range []bool{false, true} {
		play(t, 6, func(s *stage) {
			s.Store().SetSpec(s.cluster(s.Nodes()[:3]))
			s.daemon()
			s.must("formed", s.settled)
			s.Write("n1", "old")
			copied := s.Store().Copy()
			s.Store().RequestDelete()
			s.must("deleted", s.Store().Deleted)
			s.latest().Kill()
			nodes := s.Nodes()[3:]
			if overlap {
				s.Node("n3").Blank()
				nodes = s.Nodes()[2:5]
			}
			s.Store().Redeclare(s.cluster(nodes))
			s.daemon()
			s.must("formed again", s.settled)
			if !s.Write("n4", "acknowledged") {
				t.Fatal("not written")
			}
			s.broughtBack(copied)
			s.pass(10 * time.Minute)
			if s.runningOn("n1")+s.runningOn("n2") > 0 {
				t.Error("members of the deleted cluster run")
			}
			s.unbroken(t)
		})
	}
}

// A deletion that is canceled before it is sealed leaves no mark; after that it goes on.
func TestDelete_IsCanceledUntilItIsSealed(t *testing.T) {
	for _, at := range []struct {
		call    string
		deleted bool
	}{{"SealDelete", false}, {"MarkOver", true}, {"FinishDelete", true}} {
		play(t, 3, func(s *stage) {
			s.declare(s.Nodes()...)
			s.daemon()
			s.must("formed", s.settled)
			s.Write("n1", "kept")
			asked := false
			s.Judge = func(_ int, c sim.Call) sim.Verdict {
				if c.Name == at.call && !asked {
					asked = true
					s.Store().CancelDelete()
				}
				return sim.Proceed
			}
			s.Store().RequestDelete()
			s.until(time.Hour, func() bool { return s.Store().Deleted() || asked && s.settled() })
			if got := s.Store().Deleted(); got != at.deleted {
				t.Errorf("%s: deleted %v", at.call, got)
			}
			if !at.deleted && !s.Write("n1", "goes on") {
				t.Errorf("%s: it does not serve", at.call)
			}
			s.unbroken(t)
		})
	}
}

// The file moves the cluster to other nodes and waits for consent when the management host burns.
func TestNewHost_StopsMembersThatTheFileDoesNotName(t *testing.T) {
	play(t, 6, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.backedUp()
		next := s.cluster(s.Nodes()[3:])
		next.Policies.Reconcile = cke.ReconcileManual
		s.Store().SetSpec(next)
		s.pass(time.Minute)
		s.burnt()
		s.order(fromBackup)
		s.must("restored", s.restored)
		if s.Write("n1", "later") || s.runningOn("n1")+s.runningOn("n2")+s.runningOn("n3") > 0 {
			t.Error("the members before go on")
		}
		s.unbroken(t)
	})
}

func TestNewHost_WaitsForNodesThatTheFileDoesNotName(t *testing.T) {
	play(t, 6, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.backedUp()
		next := s.onNodes("n4", "n5", "n6")
		next.Policies.Reconcile = cke.ReconcileManual
		s.Store().SetSpec(next)
		s.pass(time.Minute)
		s.latest().Kill()
		s.cutOff("n1", "n2", "n3")
		s.burnt()
		s.order(fromBackup)
		s.pass(time.Hour)
		if s.restored() {
			t.Error("restored beside members that cannot be seen")
		}
		s.unbroken(t)
	})
}

// Three members, the file declares five and waits for consent: two that cannot be seen have a quorum.
func TestNewHost_CountsVotersAndNotTheFile(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.declare(s.Nodes()[2:]...)
		s.daemon()
		s.must("formed", s.settled)
		s.Write("n3", "kept")
		s.TakeBackup()
		next := s.cluster(s.Nodes())
		next.Policies.Reconcile = cke.ReconcileManual
		s.Store().SetSpec(next)
		s.pass(time.Minute)
		s.cutOff("n4", "n5")
		s.burnt()
		s.order(without("n4", "n5"))
		s.pass(time.Hour)
		if s.restored() {
			t.Error("restored beside two of three voters")
		}
		s.unbroken(t)
	})
}

// The restore is called off on the new host once members were stopped for it, or their containers were removed: they serve again.
func TestNewHost_StartsAgainWhatItStoppedWhenCalledOff(t *testing.T) {
	for k, at := range []string{"n1", "n2", "n3", "n1", "n2", "n3"} {
		call := []string{"StopContainer", "RemoveContainer"}[k/3]
		play(t, 3, func(s *stage) {
			s.backedUp()
			s.Write("n1", "after the backup")
			s.burnt()
			s.order(fromBackup)
			asked := false
			s.Judge = func(_ int, c sim.Call) sim.Verdict {
				if !asked && c.Name == call && c.Node == at {
					asked = true
					s.Store().Ask("cancel the restore", func(r *cke.Requests) {
						r.Tasks = append(r.Tasks, cke.NewTask(cke.TaskCancelRestore, "", "", "person@host", time.Now()))
					})
				}
				return sim.Proceed
			}
			s.pass(time.Hour)
			if inc := s.Store().Identity().Incarnation; !asked || inc.State != cke.Awaiting {
				t.Errorf("%s on %s: asked %v, %s", call, at, asked, inc.State)
			}
			if !s.Write("n1", "later") || s.runningOn("n1")+s.runningOn("n2")+s.runningOn("n3") < 3 {
				t.Errorf("%s on %s: the members before do not serve", call, at)
			}
			s.unbroken(t)
		})
	}
}

// A deletion while a restore is prepared stops the members before it as well, and a store from before finds that their life is over.
func TestNewHost_DeletesWhatARestoreWasToReplace(t *testing.T) {
	for _, another := range []bool{true, false} {
		play(t, 3, func(s *stage) {
			s.backedUp()
			s.latest().Kill()
			copied := s.Store().Copy()
			s.Node("n3").FillDisk()
			if another {
				s.burnt()
			} else {
				s.daemon()
			}
			s.order(fromBackup)
			s.must("begun", func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
			s.pass(time.Minute)
			s.Store().RequestDelete()
			s.must("deleted", s.Store().Deleted)
			s.Node("n3").FreeDisk()
			if s.Write("n1", "later") {
				t.Error("a deleted cluster serves")
			}
			s.unbroken(t)
			s.broughtBack(copied)
			s.pass(10 * time.Minute)
			if s.runningOn("n1")+s.runningOn("n2")+s.runningOn("n3") > 0 {
				t.Errorf("on another host %v: members of the deleted cluster run", another)
			}
		})
	}
}

// Whoever declared a cluster to be restored, and gives that up, gives up the declaration and not the cluster.
func TestNewHost_ADeletionOfWhatWasOnlyDeclaredStopsNobody(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUp()
		s.burnt()
		s.pass(time.Minute)
		s.Store().RequestDelete()
		s.must("deleted", s.Store().Deleted)
		if !s.Write("n1", "later") {
			t.Error("the cluster does not serve any more")
		}
		s.unbroken(t)
	})
}

// The same while the order reads its backups, which may take hours, or puts the restore on record.
func TestNewHost_ADeletionOfWhatWasOnlyDeclaredEndsTheRestoreThatStarts(t *testing.T) {
	for _, call := range []string{"EnsureImage inspect", "Fetch", "BeginRestore"} {
		play(t, 3, func(s *stage) {
			s.backedUp()
			s.burnt()
			asked := false
			s.Judge = func(_ int, c sim.Call) sim.Verdict {
				if c.Name == call && !asked {
					asked = true
					s.Store().RequestDelete()
				}
				return sim.Proceed
			}
			s.order(fromBackup)
			s.must("deleted, once asked at "+call, func() bool { return asked && s.Store().Deleted() })
			if !asked || !s.Write("n1", "later") {
				t.Errorf("%s: asked %v; the cluster does not serve any more", call, asked)
			}
			s.unbroken(t)
		})
	}
}

// What lies beside the backups is of before two members moved to other nodes, whose machines are gone since: an older store put it
// there, or a drill of hours kept the newer from being put there. Then the management host burns. The third member answers, and
// lists the two that moved. What the operator says is true: n2 and n3 are destroyed.
func TestNewHost_StopsNobodyBesideMembersThatAMemberLists(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.backedUp()
		beside := s.Store().Copy()
		s.declare(s.Node("n1"), s.Node("n4"), s.Node("n5"))
		s.must("moved", s.changed)
		s.Node("n2").PowerOff()
		s.Node("n3").PowerOff()
		if !s.Write("n4", "acknowledged") {
			t.Fatal("not written")
		}
		s.declaredFrom(beside)
		o := fromBackup
		o.Destroyed = []string{"n2", "n3"}
		s.order(o)
		s.until(time.Hour, s.restored)
		if s.restored() && s.Write("n4", "to the cluster as it was") {
			t.Error("restored on n1, and n4 and n5 continue: two clusters of one name take writes")
		}
		s.unbroken(t)
	})
}

// What lies beside the backups is from before the members were moved to other ports, and the restore is to other nodes. Those before go
// silent once the start is on record, with containers that are removed only then: the restored members wait for them.
func TestNewHost_WaitsUntilAllThatItReplacesIsRemoved(t *testing.T) {
	play(t, 6, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.backedUp()
		beside := s.Store().Copy()
		c := s.cluster(s.Nodes()[:3])
		c.Options.Etcd.ClientPort, c.Options.Etcd.PeerPort = 3379, 3380
		s.Store().SetSpec(c)
		s.must("moved", s.changed)
		c.Nodes = s.cluster(s.Nodes()[3:]).Nodes
		s.latest().Kill()
		s.declaredFrom(beside)
		s.Store().SetSpec(c)
		s.order(fromBackup)
		silent := false
		s.Judge = func(int, sim.Call) sim.Verdict {
			if id := s.Store().Identity(); !silent && id.Incarnation.State == cke.Restoring && id.Started() {
				silent = true
				for _, n := range s.Nodes()[:3] {
					n.PowerOff()
				}
			}
			return sim.Proceed
		}
		s.pass(time.Hour)
		if !silent || s.restored() {
			t.Errorf("silent %v, restored %v beside containers that could be started: %s", silent, s.restored(), s.told().Summary)
		}
		for _, n := range s.Nodes()[:3] {
			n.PowerOn()
		}
		s.must("restored", s.restored)
		for _, n := range s.Nodes()[:3] {
			if containers, _ := n.Look(); len(containers) > 0 {
				t.Errorf("%s has %+v", n.Name(), containers)
			}
		}
		s.unbroken(t)
	})
}

// Two voters were added with etcdctl, and nothing that lies beside the backups names them.
func TestNewHost_CountsForeignMembersThatAMemberLists(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.declare(s.Node("n1"))
		s.backedUp()
		beside := s.Store().Copy()
		s.declare(s.Nodes()...)
		s.must("grown", s.changed)
		for _, n := range []string{"n2", "n3"} { // for the copy they are as foreign as what etcdctl adds
			if !s.Write(n, "acknowledged through "+n) {
				t.Fatal("not written")
			}
		}
		s.declaredFrom(beside)
		s.order(fromBackup)
		s.until(time.Hour, s.restored)
		s.unbroken(t)
	})
}

// What lies beside the backups is from before n2 and n3 got new members, on the same machines. The management host burns. All nodes answer, their
// containers are seen, and a restore stops them: it is not refused because the list of n1 names members that are not on record. An order that
// calls them destroyed is refused, since they are seen.
func TestNewHost_StopsMembersThatItSeesAndThatAreNotOnRecord(t *testing.T) {
	for name, c := range map[string]struct {
		stop      bool
		destroyed []string
	}{"as they are": {}, "stopped by hand": {stop: true}, "called destroyed": {destroyed: []string{"n2", "n3"}}} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				s.backedUp()
				beside := s.Store().Copy()
				s.replaceAll(t, "n2", "n3")
				if !s.Write("n2", "acknowledged") {
					t.Fatal("not written")
				}
				s.pass(time.Minute)
				s.latest().Kill()
				s.declaredFrom(beside)
				s.pass(time.Minute)
				if c.stop {
					s.Node("n2").StopByHand()
					s.Node("n3").StopByHand()
					s.Node("n1").StopByHand()
					s.pass(time.Hour)
				}
				if c.destroyed != nil {
					for _, fault := range s.refusedBeside(cke.RestoreOrder{Target: fromBackup.Target, Source: fromBackup.Source, Destroyed: c.destroyed}) {
						t.Error(fault)
					}
				}
				s.order(fromBackup)
				if !s.until(2*time.Hour, s.restored) {
					t.Errorf("not restored: %s", s.told().Summary)
				}
				s.unbroken(t)
			})
		})
	}
}
