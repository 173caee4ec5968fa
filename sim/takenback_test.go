package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// Whoever declares what does not work takes it back, and the cluster is as before, of whatever size: also with one
// member, which has no quorum meanwhile.
func TestOptions_ThatDoNotWorkCanBeTakenBack(t *testing.T) {
	for nodes := 1; nodes <= 3; nodes++ {
		for name, tries := range map[string]func(*cke.EtcdOptions){
			"an argument":                     func(e *cke.EtcdOptions) { e.ExtraArgs = []string{sim.WrongArgument} },
			"an argument that is judged late": func(e *cke.EtcdOptions) { e.ExtraArgs = []string{sim.LateArgument} },
			"an argument with a minor version": func(e *cke.EtcdOptions) {
				e.ExtraArgs, e.Version = []string{sim.WrongArgument}, "3.7.3"
			},
			"an argument that is judged late, with a minor version": func(e *cke.EtcdOptions) {
				e.ExtraArgs, e.Version = []string{sim.LateArgument}, "3.7.3"
			},
		} {
			t.Run(fmt.Sprintf("%s, %d members", name, nodes), func(t *testing.T) {
				inFormed(t, nodes, func(s *stage) {
					before := s.Store().Spec().Cluster
					wrong := before
					tries(&wrong.Options.Etcd)
					s.Store().SetSpec(wrong)
					s.pass(10 * time.Minute)
					if s.settled() {
						t.Fatal("an argument that etcd does not take works")
					}
					if late := wrong.Options.Etcd.ExtraArgs[0] == sim.LateArgument; late != (s.Serving() < nodes) {
						t.Errorf("%d of %d members serve", s.Serving(), nodes)
					}
					s.Store().SetSpec(before)
					if !s.until(convergence, s.settled) {
						dec, _ := s.latest().now()
						t.Error(describeDecision(1, dec))
					}
					if v := s.Violations(); v != nil {
						t.Error(v)
					}
				})
			})
		}
	}
}

// A minor version can be taken back while a member does not run it; afterwards the cluster has left the old one.
func TestMinorVersion_CanBeTakenBackHalfWay(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		before := s.Store().Spec().Wanted()
		up := before
		up.Options.Etcd.Version, up.Options.Etcd.Image = "3.7.3", ""
		s.Store().SetSpec(up)
		upgraded := func() (n int) {
			_, status := s.latest().now()
			for _, m := range status.Members {
				if m.Version == "3.7.3" {
					n++
				}
			}
			return n
		}
		if !s.until(convergence, func() bool { return upgraded() == 1 }) {
			t.Fatal("no member is upgraded")
		}
		s.Store().SetSpec(before)
		if !s.until(convergence, func() bool { return s.settled() && upgraded() == 0 }) || s.Minor() != 6 {
			dec, _ := s.latest().now()
			t.Fatalf("%d upgraded, 3.%d: %s", upgraded(), s.Minor(), describeDecision(1, dec))
		}
		s.Store().SetSpec(up)
		if !s.until(convergence, func() bool { return s.settled() && upgraded() == 3 && s.Minor() == 7 }) {
			t.Fatalf("%d are upgraded: 3.%d", upgraded(), s.Minor())
		}
		s.Store().SetSpec(before)
		s.pass(time.Hour)
		dec, _ := s.latest().now()
		if dec.Operation != nil || upgraded() != 3 || len(dec.Blockers) == 0 || dec.Blockers[0].Code != cke.CodeNotApplied {
			t.Errorf("back from there: %d upgraded: %s", upgraded(), describeDecision(1, dec))
		}
		if v := s.Violations(); v != nil {
			t.Error(v)
		}
	})
}

// The store is brought back from a copy that is older than an upgrade, and other ports are declared: nobody is started with what its data
// has left.
func TestMinorVersion_IsKeptWhereAnOlderStoreMovesAMember(t *testing.T) {
	for _, size := range []int{1, 3} {
		inFormed(t, size, func(s *stage) {
			copied := s.Store().Copy()
			up := s.Store().Spec().Wanted()
			up.Options.Etcd.Version, up.Options.Etcd.Image = "3.7.3", ""
			s.Store().SetSpec(up)
			s.must("upgraded", func() bool { return s.settled() && s.Minor() == 7 })
			s.latest().Kill()
			s.broughtBack(copied)
			moved := s.Store().Spec().Wanted()
			moved.Options.Etcd.ClientPort, moved.Options.Etcd.PeerPort = 3379, 3380
			s.Store().SetSpec(moved)
			at := func() (n int) {
				for _, j := range s.Store().Identity().Joins {
					if j.PeerPort == 3380 {
						n++
					}
				}
				return n
			}
			s.must("moved", func() bool { return at() == size && s.Write("n1", "after") })
			for _, j := range s.Store().Identity().Joins {
				if s.Node(j.Node.Name()).MadeWith(j.Volume).Version != "3.7.3" {
					t.Errorf("of %d, %s runs %+v", size, j.Node.Name(), j.Etcd)
				}
			}
			for _, v := range s.Violations() {
				t.Error(v)
			}
		})
	}
}

// The store is older than an upgrade, and the members stopped meanwhile: with the version on record they do not start, and with the one that
// a person declares they do.
func TestMinorVersion_IsFoundAgainAfterAnOlderStore(t *testing.T) {
	for _, size := range []int{1, 3} {
		inFormed(t, size, func(s *stage) {
			copied := s.Store().Copy()
			up := s.Store().Spec().Wanted()
			up.Options.Etcd.Version, up.Options.Etcd.Image = "3.7.3", ""
			s.Store().SetSpec(up)
			s.must("upgraded", func() bool { return s.settled() && s.Minor() == 7 })
			s.latest().Kill()
			s.eachNode((*sim.Node).StopByHand)
			s.broughtBack(copied)
			s.pass(10 * time.Minute)
			s.Store().SetSpec(up)
			s.must("ready", func() bool { return s.settled() && s.told().Health == cke.HealthReady && s.Minor() == 7 })
			for _, v := range s.Violations() {
				t.Error(v)
			}
		})
	}
}

// What etcd says of its data it says of the version that its container was made with: a record that has gone on to the next one, since the
// container could not be made, is no reason to go two steps, past the snapshot that 3.7 needs.
func TestMinorVersion_IsNotSkippedForWhatAnEarlierOneSaid(t *testing.T) {
	play(t, 1, func(s *stage) {
		declares := func(version string) {
			c := s.cluster(s.Nodes())
			c.Options.Etcd.Version = version
			s.Store().SetSpec(c)
		}
		declares("3.5.35")
		s.daemon()
		s.must("formed", s.settled)
		copied := s.Store().Copy()
		declares("3.6.16")
		s.must("upgraded", func() bool { return s.settled() && s.Minor() == 6 })
		s.latest().Kill()
		s.Node("n1").StopByHand()
		s.broughtBack(copied)
		s.must("told", func() bool {
			return slices.ContainsFunc(s.told().Problems, func(p cke.Problem) bool { return strings.Contains(p.Remedy, "options.etcd.version 3.6") })
		})
		s.Judge = func(_ int, c sim.Call) sim.Verdict { // no container can be made
			if strings.HasPrefix(c.Name, "EnsureContainer") {
				return sim.Refuse
			}
			return sim.Proceed
		}
		declares("3.6.16")
		s.pass(time.Minute)
		s.Judge = nil
		declares("3.7.3")
		s.must("ready", func() bool { return s.settled() && s.told().Health == cke.HealthReady && s.Minor() == 7 })
		for _, v := range s.Violations() {
			t.Error(v)
		}
	})
}
