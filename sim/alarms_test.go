package sim_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
	"cke/sim"
)

// small declares a quota of so many MiB.
func (s *stage) small(mib int) {
	c := s.cluster(s.Nodes())
	c.Options.Etcd.ExtraArgs = []string{quota(mib)}
	s.Store().SetSpec(c)
	s.must("of a small quota", s.changed)
}

// Clients fill the databases: what they read and delete goes on, their writes are refused until they have compacted, and
// every member is defragmented before the alarm is taken back. What the compaction freed no member reports before the next
// write, which none takes: one is defragmented for a trial.
func TestAlarms_AFullDatabaseIsDefragmentedBeforeItsAlarmIsTakenBack(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.small(512)
		for s.Fill("n1", 60<<20) {
		}
		if a := s.Alarms(); len(a) != 1 || a[0].Kind != "NOSPACE" {
			t.Fatalf("%+v", a)
		}
		if s.Fill("n2", 1) || s.Write("n3", "refused") {
			t.Error("a write is taken while etcd is out of space")
		}
		s.pass(convergence)
		if dec, status := s.latest().now(); dec.Operation != nil || status.Health != cke.HealthDegraded || !named(dec.Blockers, "", cke.CodeNoSpace) {
			t.Error(describeDecision(1, dec))
		}
		s.Compact()
		s.must("without an alarm", func() bool { return len(s.Alarms()) == 0 && s.changed() })
		var done []string
		for _, r := range s.Store().Records() {
			if r.Operation == "defragment" || r.Operation == "disarm" {
				done = append(done, r.Operation)
			}
		}
		if !slices.Equal(done, []string{"defragment", "defragment", "defragment", "defragment", "disarm"}) { // the first one is a trial before the compaction
			t.Error(done)
		}
		if !s.Write("n1", "taken again") {
			t.Error("no write is taken")
		}
	})
}

// Another version is not begun with while etcd is out of space; a larger quota is the cure, and is.
func TestAlarms_OutOfSpaceAVersionWaitsAndAQuotaDoesNot(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.small(512)
		for s.Fill("n1", 60<<20) {
		}
		c := s.Store().Spec().Cluster
		c.Options.Etcd.Version = "3.6.15"
		s.Store().SetSpec(c)
		s.pass(convergence)
		for _, j := range s.Store().Identity().Joins {
			if j.Etcd.Version != cke.DefaultEtcdVersion {
				t.Errorf("%s runs %s", j.Node.Name(), j.Etcd.Version)
			}
		}
		c.Options.Etcd.Version, c.Options.Etcd.ExtraArgs = cke.DefaultEtcdVersion, []string{quota(1024)}
		s.Store().SetSpec(c)
		s.must("as declared", s.changed)
	})
}

// A rule that takes NOSPACE back at once is noticed.
func TestChecker_NoticesAnAlarmThatIsTakenBackTooEarly(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.daemon()
		s.must("formed", s.settled)
		s.small(512)
		s.blind = func(in *strategy.Input) {
			in.Seen.Etcd.Endpoints = slices.Clone(in.Seen.Etcd.Endpoints)
			for i := range in.Seen.Etcd.Endpoints {
				in.Seen.Etcd.Endpoints[i].DBSize = 1
			}
		}
		for range 5 {
			s.Fill("n1", 60<<20)
		}
		s.small(256)
		s.Fill("n1", 1)
		s.pass(convergence)
		s.mustViolate(t, "clears NOSPACE while the database of")
	})
}

// Nobody but a person takes CORRUPT back.
func TestAlarms_CorruptIsJudgedByAPerson(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.Node("n2").CorruptData()
		s.NoticeCorruption()
		s.pass(convergence)
		if f := s.freeze(); !f.Active() || f.Kind != cke.FreezeCorrupt || len(s.Alarms()) != 1 {
			t.Fatalf("%+v %v", f, s.Alarms())
		}
		if s.Write("n1", "refused") {
			t.Error("a write is taken")
		}
		s.Node("n2").RepairData()
		s.person().unfreeze()
		s.must("lifted", func() bool { return !s.freeze().Active() && s.answered() })
		if len(s.Alarms()) != 1 {
			t.Error("taken back by itself")
		}
		s.ask(cke.TaskDisarm, "", "", "")
		s.must("as declared", s.changed)
	})
}

// While CORRUPT stands no member is healthy, and one of them leads all the same: it hands over before it stops.
func TestAlarms_ALeaderThatReportsAnAlarmHandsOver(t *testing.T) {
	inFormed(t, 2, func(s *stage) {
		s.Node("n2").CorruptData()
		s.NoticeCorruption()
		s.must("frozen", func() bool { return s.freeze().Active() })
		s.Node("n2").RepairData()
		s.person().unfreeze()
		c := s.cluster(s.Nodes())
		c.Options.Etcd.ClientPort, c.Options.Etcd.PeerPort = 3379, 3380
		s.Store().SetSpec(c)
		s.pass(convergence)
		s.ask(cke.TaskDisarm, "", "", "")
		s.must("as declared", s.changed)
		s.isUnharmed(t)
	})
}

// From 3.5 by way of 3.6 to 3.7.
func TestVersions_GoUpFromMinorToMinor(t *testing.T) {
	play(t, 3, func(s *stage) { s.climb(t, nil) })
}

// While clients write more than a member can write snapshots of, it writes one all the same, and serves no client until it runs 3.7: also
// if a daemon ends before that.
func TestVersions_GoUpWhileClientsWriteMuch(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		play(t, 3, func(s *stage) {
			s.eachNode(func(n *sim.Node) { n.Strain(true) })
			ended := map[cke.JoinID]bool{}
			s.Judge = func(_ int, c sim.Call) sim.Verdict {
				for _, j := range s.Store().Identity().Joins {
					if killed && c.Port == "etcd" && c.Name == "Endpoint" && op.WritesSnapshots(j.Etcd) && !ended[j.ID] {
						ended[j.ID] = true
						return sim.KillBefore
					}
				}
				return sim.Proceed
			}
			s.climb(t, nil)
			if killed && len(ended) != 3 {
				t.Errorf("%d daemons ended", len(ended))
			}
			for _, v := range s.Violations() {
				t.Error(v)
			}
		})
	}
}

// climb forms a cluster of 3.5 and brings it to 3.7; wrap is for mutations from 3.6 on.
func (s *stage) climb(t *testing.T, wrap func(op.Env) op.Env) {
	for _, version := range []string{"3.5.35", "3.6.16", "3.7.3"} {
		if version == "3.7.3" {
			s.wrap = wrap
		}
		c := s.cluster(s.Nodes())
		c.Options.Etcd.Version = version
		s.Store().SetSpec(c)
		if len(s.drivers) == 0 {
			s.daemon()
		}
		if !s.until(convergence, func() bool { s.succeed(); return s.changed() }) && wrap == nil {
			dec, _ := s.latest().now()
			t.Fatalf("%s: %s\n%v", version, describeDecision(1, dec), s.faults(s.declared()...))
		}
		s.Write("n1", version)
	}
}

// A member that takes the place of the only voter, which ran 3.5 before, gets a log that 3.7 cannot read.
func TestVersions_NobodyJoinsWith37OnALogOf35(t *testing.T) {
	play(t, 2, func(s *stage) {
		for _, row := range []struct{ version, node string }{{"3.5.35", "n1"}, {"3.6.16", "n1"}, {"3.7.3", "n2"}} {
			c := s.cluster([]*sim.Node{s.Node(row.node)})
			c.Options.Etcd.Version = row.version
			s.Store().SetSpec(c)
			if len(s.drivers) == 0 {
				s.daemon()
			}
			s.must(row.version+" on "+row.node, s.changed)
		}
		for _, v := range s.Violations() {
			t.Error(v)
		}
		if left := s.Store().Identity().Ended; len(left) != 1 || left[0].Node.Name() != "n1" {
			t.Errorf("members were given up: %+v", left)
		}
	})
}

// unsnapped are machines whose members write no snapshot before they run 3.7.
type unsnapped struct{ cke.Machines }

func (u unsnapped) Machine(n cke.Node) cke.Machine { return unsnappedMachine{u.Machines.Machine(n)} }

type unsnappedMachine struct{ cke.Machine }

func (m unsnappedMachine) EnsureContainer(ctx context.Context, s cke.MemberSpec) error {
	s.Join.Etcd.ExtraArgs = slices.DeleteFunc(slices.Clone(s.Join.Etcd.ExtraArgs), func(a string) bool { return strings.HasPrefix(a, "--snapshot-count") })
	return m.Machine.EnsureContainer(ctx, s)
}

// Container hides the options of the container, which show that it writes none.
func (m unsnappedMachine) Container(ctx context.Context, j cke.Join) (cke.Container, error) {
	c, err := m.Machine.Container(ctx, j)
	c.Options = ""
	return c, err
}

func TestChecker_NoticesAMissingSnapshotBefore37(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.climb(t, func(e op.Env) op.Env { e.Machines = unsnapped{e.Machines}; return e })
		s.mustViolate(t, "cannot read its log")
	})
}

// impatient is an operator who starts a member that cke has stopped to let it write a snapshot, each once.
type impatient struct {
	cke.Machines
	node    func(cke.Node) *sim.Node
	started map[string]bool
}

func (i impatient) Machine(n cke.Node) cke.Machine {
	return impatientMachine{i.Machines.Machine(n), i.node(n), i.started}
}

type impatientMachine struct {
	cke.Machine
	node    *sim.Node
	started map[string]bool
}

func (m impatientMachine) StopContainer(ctx context.Context, j cke.Join, grace time.Duration) error {
	err := m.Machine.StopContainer(ctx, j, grace)
	if name := j.Node.Name(); err == nil && !m.started[name] {
		m.started[name] = true
		m.node.StartByHand()
	}
	return err
}

// A member that an operator starts before cke could start it for its snapshot has written none, and does not run 3.7 yet.
func TestVersions_AMemberThatIsStartedBeforeItsSnapshotDoesNotRun37(t *testing.T) {
	for _, members := range []int{1, 3} {
		play(t, members, func(s *stage) {
			started := map[string]bool{}
			s.climb(t, func(e op.Env) op.Env {
				e.Machines = impatient{e.Machines, func(n cke.Node) *sim.Node { return s.Node(n.Name()) }, started}
				return e
			})
			if v := s.Violations(); v != nil || len(started) != members {
				t.Error(started, v)
			}
			s.must("as declared", s.changed)
		})
	}
}

// Limits that somebody gives a container by hand are put right, by a restart of that member alone.
func TestLimits_ChangedByHandArePutRight(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.Node("n2").SetLimits(0.5, 1<<30)
		s.must("put right", s.changed)
		for _, r := range s.Store().Records() {
			if r.Operation == "restart-member" && !slices.Equal(r.Targets, []string{"n2"}) {
				t.Error(r.Targets)
			}
		}
	})
}

// What the engine refuses for want of a directory can be taken back, as every other option.
func TestOptions_ADirectoryThatIsNotThereCanBeTakenBack(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		c := s.cluster(s.Nodes())
		c.Options.Etcd.ExtraEnv = map[string]string{"GOMAXPROCS": "2"}
		c.Options.Etcd.ExtraBinds = []cke.Bind{{Source: sim.MissingDirectory, Destination: "/x"}}
		s.Store().SetSpec(c)
		s.pass(convergence)
		if !s.Write("n1", "while one is down") && !s.Write("n2", "while one is down") {
			t.Error("more than one member was stopped")
		}
		c.Options.Etcd.ExtraBinds = nil
		s.Store().SetSpec(c)
		s.must("as declared", s.changed)
	})
}

// A checker that judges needless restarts has to see one.
func TestChecker_NoticesARestartThatNothingAsksFor(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.daemon()
		s.must("formed", s.settled)
		s.blind = func(in *strategy.Input) {
			in.Spec.Options.Etcd.ExtraArgs = []string{"--heartbeat-interval=101"}
		}
		s.pass(convergence)
		s.mustViolate(t, "stops a member that runs as declared")
	})
}

// A member cannot be started for a while when others run 3.7 already: it comes back as it ran, and takes the step after.
func TestVersions_AMemberThatCouldNotStartTakesTheStepTo37WithItsSnapshot(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.declare(s.Nodes()...)
		c := s.cluster(s.Nodes())
		c.Options.Etcd.Version = "3.5.35"
		s.Store().SetSpec(c)
		s.daemon()
		s.must("formed", s.changed)
		c.Options.Etcd.Version = "3.6.16"
		s.Store().SetSpec(c)
		s.must("as declared", s.changed)
		c.Options.Etcd.Version = "3.7.3"
		s.Store().SetSpec(c)
		late := ""
		s.must("halfway", func() bool {
			steps := map[string]string{}
			for _, j := range s.Store().Identity().Joins {
				steps[j.Etcd.Version] = j.Node.Name()
			}
			late = steps["3.6.16"]
			return steps["3.7.3"] != "" && late != ""
		})
		s.Node(late).TakePort(cke.DefaultPeerPort)
		s.Node(late).KillEtcd()
		s.pass(time.Minute)
		s.Node(late).ReleasePort(cke.DefaultPeerPort)
		s.must("as declared", s.changed)
		if v := s.Violations(); v != nil {
			t.Error(v)
		}
	})
}

// etcd before 3.5.30 and 3.6.11 adds nobody while a voter is away: nothing is begun that could not end, and would keep all
// else waiting.
func TestVersions_OneThatWantsAllVotersIsAskedForAMemberOnceTheyServe(t *testing.T) {
	play(t, 6, func(s *stage) {
		nodes := s.Nodes()
		declare := func(nodes []*sim.Node) {
			c := s.cluster(nodes)
			c.Options.Etcd.Version = "3.6.10"
			s.Store().SetSpec(c)
		}
		declare(nodes[:5])
		s.daemon()
		s.must("formed", s.changed)
		nodes[4].PowerOff()
		declare(nodes)
		s.pass(10 * time.Minute)
		if id, status := s.Store().Identity(), s.told(); len(id.Joins) != 5 || !strings.Contains(status.Reason, "etcd 3.6.10 requires 5 healthy") {
			t.Errorf("%d memberships: %s", len(id.Joins), status.Reason)
		}
		for _, r := range s.Store().Records() {
			if r.State == cke.RecordFailed {
				t.Errorf("%s: %s", r.Operation, r.Error)
			}
		}
		nodes[4].PowerOn()
		s.must("as declared", s.changed)
		s.isUnharmed(t)
	})
}
