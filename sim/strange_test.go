package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// ask lets a person ask for a task.
func (s *stage) ask(kind cke.TaskKind, node, subject, reason string) {
	t := cke.NewTask(kind, node, subject, "eve@host", time.Now())
	t.Reason = reason
	s.Store().Ask(string(kind), func(r *cke.Requests) { r.Tasks = append(r.Tasks, t) })
}

// freeze is the finding on record.
func (s *stage) freeze() *cke.Freeze { return s.Store().Identity().Freeze }

// Requirement A4: unequal data is found by the comparison, freezes everything, lasts, and is lifted by a person alone.
func TestCompare_FreezesOnUnequalDataUntilAPersonLiftsIt(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.Node("n3").CorruptData()
		if !s.until(2*time.Hour, func() bool { return s.freeze().Active() }) {
			t.Fatal("not found")
		}
		s.pass(time.Minute)
		dec, status := s.latest().now()
		if dec.Frozen == nil || status.Health != cke.HealthFrozen {
			t.Fatalf("%+v", dec)
		}
		s.Node("n1").StopByHand() // nothing is done about it
		s.latest().Kill()
		s.daemon()
		s.pass(time.Hour)
		for _, r := range s.Store().Records() {
			if r.Operation == "start-members" {
				t.Error("a frozen cluster was changed")
			}
		}
		s.ask(cke.TaskUnfreeze, "", s.freeze().ID, "n3 is to be replaced")
		if !s.until(convergence, func() bool { return !s.freeze().Active() && s.settled() }) {
			dec, _ := s.latest().now()
			t.Fatal(describeDecision(2, dec))
		}
		s.pass(2 * time.Hour)
		if s.freeze().Active() {
			t.Error("what was lifted freezes again")
		}
		// The person replaces the member; once all are equal the finding is over, and would freeze again.
		n3 := s.Node("n3")
		s.declare(s.Node("n1"), s.Node("n2"))
		if !s.until(convergence, s.changed) {
			t.Fatal("does not shrink")
		}
		s.declare(s.Node("n1"), s.Node("n2"), n3)
		if !s.until(3*time.Hour, func() bool { return s.changed() && !s.freeze().OverAt.IsZero() }) {
			t.Fatalf("%+v %+v", s.freeze(), s.Store().Identity().Compared)
		}
		n3.CorruptData()
		if !s.until(2*time.Hour, func() bool { return s.freeze().Active() }) {
			t.Error("found again, it does not freeze")
		}
	})
}

// Whenever the daemon dies while it compares, the finding is recorded in the end, once.
func TestCompare_IsFoundFromEveryCrashPoint(t *testing.T) {
	t.Parallel()
	for k := range points(60, 3, 1) {
		for _, v := range []sim.Verdict{sim.KillBefore, sim.KillAfter, sim.LoseAnswer, sim.Linger, sim.Freeze} {
			inFormed(t, 3, func(s *stage) {
				s.Node("n2").CorruptData()
				s.ask(cke.TaskCompare, "", "", "")
				begin := s.Calls()
				s.Judge = func(n int, _ sim.Call) sim.Verdict {
					if n == begin+k {
						return v
					}
					return sim.Proceed
				}
				if !s.until(2*time.Hour, func() bool { s.succeed(); return s.freeze().Active() }) {
					t.Fatalf("%v at call %d: not found", v, k)
				}
				first := s.freeze().ID
				s.Land()
				for _, d := range s.drivers {
					d.Wake()
				}
				s.pass(time.Minute)
				if s.freeze().ID != first {
					t.Errorf("%v at call %d: found twice", v, k)
				}
			})
		}
	}
}

// Requirements A6, C11: a member that a person added by hand is held, counted, and removed when the policy says so.
func TestStranger_IsHeldAndRemovedByPolicy(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		if !s.until(convergence, s.settled) || !s.Node("n4").Join("hand", true) {
			t.Fatal("does not form")
		}
		s.pass(time.Minute)
		_, status := s.latest().now()
		last := status.Members[len(status.Members)-1]
		if last.State != "stranger" || last.Role != "follower" || status.Tolerance != 1 || status.Health != cke.HealthReady {
			t.Fatalf("%s, tolerance %d: %+v", status.Health, status.Tolerance, last)
		}
		c := s.cluster(s.Nodes()[:3])
		c.Policies.Foreign = cke.ForeignRemove
		s.Store().SetSpec(c)
		if !s.until(convergence, func() bool {
			_, status := s.latest().now()
			return s.settled() && len(status.Members) == 3
		}) {
			dec, _ := s.latest().now()
			t.Fatal(describeDecision(1, dec))
		}
		if v := s.Violations(); v != nil {
			t.Error(v)
		}
	})
}

// The file wants a single member, where a person put one of their own: that does not stand in for the members that cke knows.
func TestStranger_IsNotLeftAlone(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		if !s.until(convergence, s.settled) || !s.Node("n4").Join("hand", true) {
			t.Fatal("does not form")
		}
		c := s.onNodes("n4")
		c.Policies.Volumes.OnRemoval = cke.VolumeDelete
		s.Store().SetSpec(c)
		s.pass(time.Hour)
		dec, _ := s.latest().now()
		if len(s.Store().Identity().Joins) != 1 || !named(dec.Blockers, "n4", cke.CodeStranger) {
			t.Fatal(describeDecision(1, dec))
		}
		s.adopt(s.Node("n4"))
		s.must("on n4", func() bool { return s.settled() && s.answered() && s.join("n4").ID != "" })
		if !s.Write("n4", "afterwards") {
			t.Error("it does not serve")
		}
		s.unbroken(t)
	})
}

func TestStranger_ThatNeverRanKeepsOthersWaiting(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		if !s.until(convergence, s.settled) || !s.Node("n4").Join("hand", false) {
			t.Fatal("does not form")
		}
		c := s.cluster(s.Nodes()[:3])
		c.Options.Etcd.ExtraArgs = []string{"--heartbeat-interval=101"}
		s.Store().SetSpec(c)
		s.pass(time.Minute)
		dec, status := s.latest().now()
		if dec.Operation != nil || status.Health != cke.HealthDegraded || status.Tolerance != 0 {
			t.Errorf("%s %d %s", status.Health, status.Tolerance, describeDecision(1, dec))
		}
		c.Policies.Foreign = cke.ForeignRemove
		s.Store().SetSpec(c)
		if !s.until(convergence, s.settled) {
			dec, _ := s.latest().now()
			t.Error(describeDecision(1, dec))
		}
	})
}

// Requirement N15: certificates are renewed without a restart, long before they end.
func TestCertificates_AreRenewedWhileMembersRun(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.CertificatesLast(3 * time.Hour)
		s.pass(9 * time.Hour)
		renewed := map[string]int{}
		for _, r := range s.Store().Records() {
			switch r.Operation {
			case "renew-certificates":
				renewed[r.Targets[0]]++
			case "start-members", "restart-member":
				t.Errorf("%s %v", r.Operation, r.Targets)
			}
		}
		_, status := s.latest().now()
		for _, m := range status.Members {
			if n := renewed[m.Name]; n < 3 || n > 5 || time.Until(m.CertNotAfter) < time.Hour-time.Minute {
				t.Errorf("%s: renewed %d times, ends in %v", m.Name, n, time.Until(m.CertNotAfter))
			}
		}
	})
}
