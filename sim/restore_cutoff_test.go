package sim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// backedUp makes a cluster, whose backup holds "kept".
func (s *stage) backedUp() {
	s.t.Helper()
	s.daemon()
	if !s.until(convergence, s.settled) || !s.Write("n1", "kept") {
		s.t.Fatal("no cluster to restore")
	}
	s.TakeBackup()
}

// refusedOnceStopped orders a restore whose target takes nothing more once writes are stopped. armed: they were.
func (s *stage) refusedOnceStopped() (armed *bool) {
	s.backedUp()
	armed = new(bool)
	s.Judge = func(_ int, c sim.Call) sim.Verdict {
		if c.Name == "Arm" {
			*armed = true
			s.TargetRefuses(true)
		}
		return sim.Proceed
	}
	s.order(toldStored)
	return armed
}

// A target that takes nothing more while writes are stopped: the restore is called off, and clients write again.
func TestRestore_IsCalledOffWhereTheLastWritesCannotBeStored(t *testing.T) {
	play(t, 3, func(s *stage) {
		armed := s.refusedOnceStopped()
		if !s.until(convergence, func() bool {
			return *armed && s.settled() && len(s.asked()) == 0 && s.Store().Identity().Incarnation.Restore == nil && len(s.Alarms()) == 0
		}) {
			t.Fatalf("it is not called off: %+v", s.Store().Identity().Incarnation)
		}
		if !s.Write("n2", "after it") {
			t.Error("clients cannot write")
		}
		if got := s.Written(); !slices.Equal(got, []string{"kept", "after it"}) {
			t.Errorf("holds %v", got)
		}
		for _, f := range s.faults(s.everyNode()...) {
			t.Error(f)
		}
	})
}

// A founder that is lost for good once the restored members were started, and before they are on record as a cluster, keeps nobody
// from being served: a quorum is enough, and the rest is healed as in any cluster.
func TestRestore_LosesAFounderBeforeItIsFormed(t *testing.T) {
	for name, lose := range map[string]func(n *sim.Node){
		"node is off":    (*sim.Node).PowerOff,
		"node is blank":  (*sim.Node).Blank,
		"disk is full":   func(n *sim.Node) { n.FillDisk(); n.KillEtcd() },
		"data is lost":   (*sim.Node).EmptyVolumes,
		"volume is gone": (*sim.Node).RemoveVolumes,
	} {
		for _, at := range []string{"StartContainer", "HashKV", "KeepRunning"} {
			t.Run(name+" at "+at, func(t *testing.T) {
				t.Parallel()
				play(t, 3, func(s *stage) {
					c := s.Store().Spec().Cluster
					c.Policies.Replace = cke.ReplacePolicy{Mode: cke.ReplaceAuto, Grace: cke.Duration(time.Second)}
					s.Store().SetSpec(c)
					s.backedUp()
					lost := false
					s.Judge = func(_ int, c sim.Call) sim.Verdict {
						if inc := s.Store().Identity().Incarnation; !lost && inc.State == cke.Restoring && s.Store().Identity().Started() && c.Name == at {
							lost = true
							lose(s.Node("n3"))
						}
						return sim.Proceed
					}
					s.order(toldStored)
					if !s.until(10*time.Minute, func() bool { return lost && s.restored() && s.Write("n1", "afterwards") }) {
						t.Fatalf("not restored: lost %v, %s", lost, s.latest().decision.Reason)
					}
					s.pass(time.Minute)
					s.Node("n3").PowerOn()
					s.Node("n3").FreeDisk()
					s.Node("n3").AcceptHostKey()
					s.must("healed", s.settled)
					for _, f := range s.faults(s.everyNode()...) {
						t.Error(f)
					}
				})
			})
		}
	}
}

// A restore that is cut off once writes are stopped, and then waits for a node, does not keep clients from writing meanwhile. What
// they write is stored before it goes on.
func TestRestore_ThatWaitsLetsClientsWrite(t *testing.T) {
	for _, again := range []bool{false, true} { // another restore takes its place meanwhile
		for _, cut := range []string{"Arm", "Flush", "UpdateIncarnation", "StopContainer"} {
			t.Run(fmt.Sprintf("cut off after %s, again %v", cut, again), func(t *testing.T) {
				t.Parallel()
				play(t, 3, func(s *stage) {
					s.backedUp()
					armed, dead := false, false
					s.Judge = func(_ int, c sim.Call) sim.Verdict {
						if dead {
							return sim.Proceed
						}
						if armed = armed || c.Name == "Arm"; armed && c.Name == cut {
							dead = true
							return sim.KillAfter
						}
						return sim.Proceed
					}
					s.order(toldStored)
					if !s.until(convergence, func() bool { return dead }) {
						t.Fatal("writes are not stopped")
					}
					s.Node("n3").PowerOff()
					s.daemon()
					if again {
						s.order(toldStored)
					}
					wrote := s.until(10*time.Minute, func() bool { return s.Write("n2", "meanwhile") })
					if want := cut != "StopContainer"; wrote != want {
						t.Errorf("clients write: %v; %v, %s", wrote, s.Alarms(), s.latest().decision.Reason)
					}
					s.pass(30 * time.Minute) // after an hour it is canceled
					s.Node("n3").PowerOn()
					if !s.until(convergence, func() bool { return s.restored() && s.settled() }) {
						t.Fatalf("not restored: %s", s.latest().decision.Reason)
					}
					if len(s.Alarms()) > 0 {
						t.Errorf("alarms: %v", s.Alarms())
					}
					for _, f := range s.faults(s.everyNode()...) {
						t.Error(f)
					}
				})
			})
		}
	}
}

// The same where it does not have to wait for a node, but for what it fetches; and where somebody pauses the cluster, who can still
// call the restore off.
func TestRestore_ThatIsCutOffLetsClientsWrite(t *testing.T) {
	for _, pause := range []bool{false, true} {
		t.Run(fmt.Sprintf("paused %v", pause), func(t *testing.T) {
			t.Parallel()
			play(t, 3, func(s *stage) {
				s.backedUp()
				stopped, stuck := false, true
				s.Judge = func(_ int, c sim.Call) sim.Verdict {
					switch {
					case c.Name == "Arm" && !stopped:
						stopped = true
						return sim.KillAfter
					case stopped && stuck && c.Name == "Fetch":
						return sim.Refuse
					}
					return sim.Proceed
				}
				s.order(toldStored)
				if !s.until(convergence, func() bool { return stopped }) {
					t.Fatal("writes are not stopped")
				}
				if pause {
					s.Store().Ask("pause", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "what is this"} })
				}
				s.daemon()
				if !s.until(10*time.Minute, func() bool { return s.Write("n2", "meanwhile") }) {
					t.Errorf("clients cannot write: %v, %s", s.Alarms(), s.latest().decision.Reason)
				}
				stuck = false
				if pause {
					off := cke.NewTask(cke.TaskCancelRestore, "", "", "person@host", s.Now())
					s.Store().Ask("cancel", func(r *cke.Requests) { r.Tasks = append(r.Tasks, off) })
					if !s.until(10*time.Minute, func() bool { return s.Store().Identity().Incarnation.Restore == nil }) {
						t.Fatalf("the restore is not called off: %s", s.latest().decision.Reason)
					}
					s.Store().Ask("resume", func(r *cke.Requests) { r.Hold = nil })
				}
				if !s.until(convergence, func() bool { return s.restored() != pause && s.settled() }) {
					t.Fatalf("does not end: %s", s.latest().decision.Reason)
				}
				for _, f := range s.faults(s.everyNode()...) {
					t.Error(f)
				}
			})
		})
	}
}

// A daemon that has just begun to lead has not read its target yet. That is no reason to refuse what a person was told.
func TestRestore_WaitsForADaemonThatReadsItsTarget(t *testing.T) {
	t.Parallel()
	play(t, 3, func(s *stage) {
		s.backedUp()
		s.latest().Kill()
		s.daemon()
		s.order(toldStored)
		if !s.until(convergence, func() bool {
			return s.restored() || len(s.asked()) == 0 && s.Store().Identity().Incarnation.Restore == nil
		}) || !s.restored() {
			r := s.Store().Records()[len(s.Store().Records())-1]
			t.Errorf("not restored; the last record: %s %s: %s", r.Operation, r.State, r.Error)
		}
	})
}
