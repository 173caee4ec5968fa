package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// tellsOf reports whether people are told a problem of this code, at a node or at none.
func (s *stage) tellsOf(code cke.Code, node string) bool {
	_, st := s.latest().now()
	for _, p := range st.Problems {
		if p.Code == code && p.Node == node {
			return true
		}
	}
	return false
}

// A volume is archived for an hour, the clock of the management hosts jumps, and is set right after half an hour.
func TestClock_ThatJumpsGivesNoVolumeUpEarly(t *testing.T) {
	if race && testing.Short() {
		t.Skip("weeks of looks in one goroutine; without the race detector they are played")
	}
	for name, row := range map[string]struct {
		by     time.Duration
		before bool // it jumps before the membership ends
	}{
		"a year ahead": {by: 365 * 24 * time.Hour}, "a year behind": {by: -365 * 24 * time.Hour},
		"a day ahead, and then it ends": {24 * time.Hour, true}, "a day behind, and then it ends": {-24 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			inFormed(t, 4, func(s *stage) {
				if row.before {
					s.JumpClock(row.by)
					s.pass(time.Minute)
				}
				s.shrink(cke.VolumePolicies{OnRemoval: cke.VolumeArchive, Keep: cke.Duration(time.Hour)})
				ended := func() bool { return len(s.Store().Identity().Joins) == 3 }
				if !s.until(convergence, ended) {
					t.Fatal("does not shrink")
				}
				began := time.Now()
				if !row.before {
					s.JumpClock(row.by)
				}
				held := func() bool { _, volumes := s.Node("n4").Look(); return len(volumes) > 0 }
				s.pass(30 * time.Minute)
				if !held() || !s.tellsOf(cke.CodeClock, "") {
					t.Errorf("the volume is there: %v; the clock is told: %v", held(), s.tellsOf(cke.CodeClock, ""))
				}
				s.SetClock()
				limit := time.Hour + row.by.Abs() // by a clock that was ahead it is kept for longer
				if !s.until(limit, func() bool { return !held() }) {
					t.Errorf("not removed within %v", limit)
				}
				if took := time.Since(began); took < time.Hour-time.Minute {
					t.Errorf("removed after %v", took)
				}
				if s.pass(time.Minute); s.tellsOf(cke.CodeClock, "") {
					t.Error("the clock is told still")
				}
			})
		})
	}
}

// Certificates are not issued by a clock that is wrong, and nobody is cut off by it.
func TestClock_ThatJumpsRenewsNothing(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		renewals := func() (n int) {
			for _, r := range s.Store().Records() {
				if r.Operation == "renew-certificates" {
					n++
				}
			}
			return n
		}
		s.JumpClock(300 * 24 * time.Hour)
		s.pass(time.Hour)
		if n := renewals(); n != 0 || !s.tellsOf(cke.CodeClock, "") {
			t.Errorf("%d renewals; told: %v", n, s.tellsOf(cke.CodeClock, ""))
		}
		if !s.Write("n1", "while the clock is wrong") {
			t.Error("does not serve")
		}
		s.SetClock()
		if !s.until(convergence, s.settled) || renewals() != 0 {
			t.Errorf("%d renewals", renewals())
		}
		s.Node("n2").JumpClock(-2 * time.Hour)
		s.pass(time.Minute)
		if !s.tellsOf(cke.CodeClock, "n2") || s.tellsOf(cke.CodeClock, "") {
			t.Error("a node's clock is not told")
		}
	})
}

// Data that is missing is given up after the grace, not when a clock jumps over it.
func TestClock_ThatJumpsEndsNoGrace(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.replace = cke.ReplaceAuto
		c := s.cluster(s.Nodes())
		c.Policies.Replace.Grace = cke.Duration(time.Hour)
		s.Store().SetSpec(c)
		s.pass(time.Minute)
		s.Node("n3").EmptyVolumes()
		s.pass(10 * time.Minute)
		replaced := func() bool { return len(s.Store().Identity().Ended) > 0 }
		for _, jump := range []func(){func() { s.JumpClock(30 * 24 * time.Hour) }, s.SetClock, func() { s.JumpClock(-30 * 24 * time.Hour) }, s.SetClock} {
			jump()
			if s.pass(5 * time.Minute); replaced() {
				t.Fatal("replaced before the grace was over")
			}
		}
		if !s.until(2*time.Hour, replaced) || !s.until(convergence, s.settled) {
			dec, _ := s.latest().now()
			t.Error(describeDecision(1, dec))
		}
	})
}

// A clock that jumps between the comparison and the issue dates certificates that do not hold: they are not written.
func TestClock_ThatJumpsRightBeforeACertificateIsIssuedIsNoticed(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		s.must("formed", s.settled)
		s.declare(s.Nodes()...)
		s.once(sim.Proceed, func(c sim.Call) bool {
			if c.Name == "MemberFiles" {
				s.JumpClock(4000 * time.Hour)
			}
			return c.Name == "MemberFiles"
		})
		s.until(convergence, func() bool { return s.Judge == nil })
		s.pass(time.Minute)
		s.SetClock()
		containers, _ := s.Node("n4").Look()
		for _, c := range containers {
			if c.Certificates != nil && !c.Certificates.NotBefore.IsZero() {
				t.Errorf("%+v", c.Certificates)
			}
		}
		s.must("as declared", s.changed)
	})
}
