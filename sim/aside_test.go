package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// putAside lets n1 continue alone, and an operator say which side is right; the members of the other one are put aside.
func (s *stage) putAside(alone bool, wrong ...string) {
	s.t.Helper()
	s.Node("n1").ContinueAlone()
	s.must("frozen", func() bool { return s.freeze().Active() })
	s.Choose(alone)
	s.person().unfreeze()
	s.must("lifted", func() bool { return !s.freeze().Active() })
	for _, n := range wrong {
		s.must(n+" stopped", func() bool { return s.runningOn(n) == 0 && s.join(n).Apart })
	}
}

// A daemon that may lead does not know of members that are put aside, and would start them: the freeze stays.
func TestAside_NoneWhereAnOlderDaemonMayLead(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.daemon()
		s.must("formed", s.settled)
		s.Node("n1").ContinueAlone()
		s.must("frozen", func() bool { return s.freeze().Active() })
		s.Store().LetOlderLead(true)
		s.Choose(false)
		s.person().unfreeze()
		s.must("refused", func() bool {
			return slices.ContainsFunc(s.Store().Records(), func(r cke.Record) bool { return r.Operation == "unfreeze" && r.Code == cke.CodeSchema })
		})
		s.pass(10 * time.Minute)
		if !s.freeze().Active() || s.join("n1").Apart {
			t.Errorf("%+v, %+v", s.freeze(), s.join("n1"))
		}
		s.Store().LetOlderLead(false)
		s.person().unfreeze()
		s.must("lifted", func() bool { return !s.freeze().Active() && s.join("n1").Apart && s.runningOn("n1") == 0 })
	})
}

// A key of a member that was put aside is damaged. Whatever is done about it, and wherever it is cut off: its engine does not start
// it after a reboot.
func TestAside_ADamagedKeyArmsNoMember(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.daemon()
		s.must("formed", s.settled)
		s.putAside(false, "n1")
		s.pass(5 * time.Minute)
		s.Node("n1").DamageCertificate(1)
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "PutFiles" && c.Node == "n1" {
				return sim.KillAfter
			}
			return sim.Proceed
		}
		s.pass(30 * time.Minute)
		for _, d := range s.drivers {
			d.Kill()
		}
		s.Node("n1").Reboot()
		s.pass(time.Minute)
		if s.runningOn("n1") != 0 || s.Write("n1", "wrong") {
			t.Error("the member that was put aside serves again")
		}
	})
}

// The right side is the smaller one, and has no list or no quorum by which anything could be concluded. The members that were put
// aside are marked all the same: a copy of the store from before does not start them.
func TestAside_AnOlderStoreDoesNotStartThem(t *testing.T) {
	for _, serves := range []bool{true, false} {
		play(t, 3, func(s *stage) {
			s.daemon()
			s.must("formed", s.settled)
			copied := s.Store().Copy()
			s.putAside(true, "n2", "n3")
			if !serves {
				s.Node("n1").KillEtcd()
			}
			s.pass(10 * time.Minute)
			s.Node("n1").PowerOff()
			s.broughtBack(copied)
			s.pass(10 * time.Minute)
			if n2, n3 := s.runningOn("n2"), s.runningOn("n3"); n2+n3 != 0 || s.Write("n2", "wrong") {
				t.Errorf("serves %v: members that were put aside run again: %d on n2, %d on n3", serves, n2, n3)
			}
		})
	}
}
