package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// Two of three machines lose their disks, and the file asks for an option with which etcd ends. The operator recovers from the third one, sees what
// is wrong, and corrects the file: the cluster comes back with what the survivor holds.
func TestRecover_FollowsACorrectedFileOnceItsMembersDoNotStart(t *testing.T) {
	for _, backups := range []bool{false, true} {
		play(t, 3, func(s *stage) {
			s.daemon()
			s.must("formed", s.settled)
			s.Write("n1", "kept")
			if backups {
				s.TakeBackup()
			}
			s.Write("n1", "late")
			s.pass(time.Minute)
			s.Node("n1").Blank()
			s.Node("n3").Blank()
			s.pass(time.Minute)
			c := s.Store().Spec().Cluster
			c.Options.Etcd.ExtraArgs = []string{sim.LateArgument}
			s.Store().SetSpec(c)
			s.order(cke.RestoreOrder{Survivor: "n2"})
			s.until(10*time.Minute, s.restored)
			c = s.Store().Spec().Cluster
			c.Options.Etcd.ExtraArgs = nil // the operator has seen why etcd ends
			s.Store().SetSpec(c)
			s.must("restored", s.restored)
			if got := s.Written(); !slices.Equal(got, []string{"kept", "late"}) {
				t.Errorf("holds %v", got)
			}
		})
	}
}

// The same with a restore from backups: another one takes its place once the file is corrected.
func TestRestore_AnotherOneTakesThePlaceOfOneWhoseMembersDoNotStart(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUp()
		c := s.Store().Spec().Cluster
		c.Policies.Reconcile = cke.ReconcileManual
		c.Options.Etcd.ExtraArgs = []string{sim.LateArgument}
		s.Store().SetSpec(c)
		s.order(fromBackup)
		s.until(10*time.Minute, s.restored)
		c = s.Store().Spec().Cluster
		c.Options.Etcd.ExtraArgs = nil
		s.Store().SetSpec(c)
		s.order(fromBackup)
		s.must("restored", s.restored)
	})
}

// What a restore brings to the nodes fills their disks, and the members that serve end. The operator cancels the restore: cke removes what it
// brought, though there is no quorum, and the cluster comes back.
func TestRestore_ThatFillsTheDisksCanBeCanceled(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUp()
		s.Write("n1", "late")
		life, brought := s.Store().Identity().Incarnation.ID, map[string]bool{}
		disks := func() { // full for as long as the volume of the restore is there
			for _, n := range s.Nodes() {
				_, volumes := n.Look()
				there := slices.ContainsFunc(volumes, func(v cke.Volume) bool { return v.Cluster == clusterName && v.Incarnation != life })
				if brought[n.Name()] && !there {
					n.FreeDisk()
					brought[n.Name()] = false
				}
			}
		}
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "RestoreData send" && !brought[c.Node] {
				brought[c.Node] = true
				s.Node(c.Node).FillDisk()
				s.Node(c.Node).KillEtcd() // its next write to the log fails
			}
			return sim.Proceed
		}
		s.order(fromBackup)
		s.until(10*time.Minute, func() bool { disks(); return len(brought) == 3 })
		s.until(time.Minute, func() bool { disks(); return false })
		s.ask(cke.TaskCancelRestore, "", "", "")
		s.must("healed", func() bool { disks(); return s.Serving() == 3 && s.settled() })
	})
}

// The scratch directory of the management host cannot be written once the restored members serve. The cluster is recorded as formed all the same:
// nothing heals it before.
func TestRestore_EndsThoughItsSnapshotCannotBeRemoved(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUp()
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "Forget" {
				return sim.Refuse
			}
			return sim.Proceed
		}
		s.order(fromBackup)
		if !s.until(time.Hour, s.restored) {
			dec, st := s.latest().now()
			t.Errorf("%d members serve, and it is %s for an hour: %.300s", s.Serving(), st.Health, dec.Reason)
		}
	})
}

// The process of one member cannot be stopped (its disk hangs), while its engine answers. A restore fails at it again and again, with the writes stopped; each
// time clients are to write again at once, as long as a quorum runs (docs/restore.md).
func TestRestore_ThatCannotStopAMemberLetsClientsWrite(t *testing.T) {
	for _, hangs := range []string{"n1", "n2"} { // the first that is stopped, and one after the leader
		play(t, 3, func(s *stage) {
			s.backedUp()
			s.Judge = func(_ int, c sim.Call) sim.Verdict {
				if strings.HasPrefix(c.Name, "StopContainer") && c.Node == hangs {
					return sim.Refuse
				}
				return sim.Proceed
			}
			s.order(toldStored)
			s.must("begun", func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
			refused, longest, row := 0, 0, 0
			for range 45 * 6 { // every ten seconds; failures are forgotten after an hour
				s.pass(10 * time.Second)
				if row++; s.Write("n2", "meanwhile") {
					row = 0
				} else {
					refused++
				}
				longest = max(longest, row)
			}
			if longest > 6 {
				t.Errorf("%s hangs: clients could not write for %s in 45 minutes, for %s at a time", hangs, time.Duration(refused)*10*time.Second, time.Duration(longest)*10*time.Second)
			}
		})
	}
}

// Nothing can be written into the volume of the only member. Its ports are changed in the file: it must not be stopped again and again for certificates that
// it cannot get.
func TestAddress_NobodyIsStoppedWhoseCertificatesCannotBeWritten(t *testing.T) {
	play(t, 1, func(s *stage) {
		s.daemon()
		s.must("formed", s.settled)
		stops := 0
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "PutFiles" {
				return sim.Refuse
			}
			if c.Name == "StopContainer" {
				stops++
			}
			return sim.Proceed
		}
		c := s.Store().Spec().Cluster
		c.Options.Etcd.ClientPort, c.Options.Etcd.PeerPort = 3379, 3380
		s.Store().SetSpec(c)
		s.pass(time.Hour)
		if stops > 0 {
			t.Errorf("the only member was stopped %d times", stops)
		}
	})
}

// A restore fails once before its members have their certificates, and the cluster file is changed meanwhile: it ends all the same.
func TestRestore_EndsThoughCertificatesCouldNotBeWrittenForAWhile(t *testing.T) {
	endsAfterFailing(t, (*stage).backedUp, fromBackup, func(c sim.Call) bool { return c.Name == "PutFiles" })
}

// The same where one engine does not remove what was replaced for a while, and the operator recovers from the last survivor.
func TestRecover_EndsThoughAnEngineFailedForAWhile(t *testing.T) {
	endsAfterFailing(t, func(s *stage) {
		s.daemon()
		s.must("formed", s.settled)
		s.Write("n1", "kept")
		s.pass(time.Minute)
		s.Node("n1").Blank()
		s.Node("n3").Blank()
		s.pass(time.Minute)
	}, cke.RestoreOrder{Survivor: "n2"}, func(c sim.Call) bool { return c.Name == "RemoveContainer" && c.Node == "n2" })
}

// endsAfterFailing refuses calls of a restore that is on record, for two minutes from the first one. The restore ends, whether the
// cluster file is changed meanwhile or not.
func endsAfterFailing(t *testing.T, before func(*stage), o cke.RestoreOrder, refused func(sim.Call) bool) {
	for name, change := range map[string]bool{"the file stays": false, "the file is changed": true} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				before(s)
				restoring := func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring }
				refuse, failed := true, false
				s.Judge = func(_ int, c sim.Call) sim.Verdict {
					if refuse && refused(c) && restoring() {
						failed = true
						return sim.Refuse
					}
					return sim.Proceed
				}
				s.order(o)
				s.must("refused", func() bool { return failed })
				if change {
					c := s.Store().Spec().Cluster
					c.Options.Etcd.ExtraArgs = []string{"--max-request-bytes=2000000"}
					s.Store().SetSpec(c)
				}
				s.pass(2 * time.Minute)
				refuse = false
				s.must("restored", s.restored)
			})
		})
	}
}
