package sim_test

import (
	"testing"
	"time"

	"cke/sim"
)

// fenced forms a cluster of n1, n2, n3 and a foreign voter on n4, of which n3 is up and out of the reach of cke, begins a restore without n3, and has the daemon
// end right before it stops its nth member: that is on record by then. at is the call at which the foreign voter joins; empty: before the order.
func (s *stage) fenced(t *testing.T, at string, nth int) {
	t.Helper()
	s.fencedUnread(t, at, nth)
	if at != "" {
		s.readAgain(t)
	}
}

// fencedUnread is fenced without another daemon that reads the list.
func (s *stage) fencedUnread(t *testing.T, at string, nth int) {
	t.Helper()
	s.heldOn(t, 3)
	s.TakeBackup()
	joined := at == ""
	if joined {
		s.joinsOn(t, "n4")
	}
	s.Cut(sim.Management, "n3")
	s.pass(time.Minute)
	calls := 0
	s.Judge = func(_ int, c sim.Call) sim.Verdict {
		if !joined && c.Name == at {
			joined = true
			s.joinsOn(t, "n4")
		}
		if _, step := s.Store().Running(); step != "fence" || c.Name != "StopContainer" {
			return sim.Proceed
		}
		if calls++; calls == nth {
			return sim.KillBefore
		}
		return sim.Proceed
	}
	o := fromBackup
	o.Without = []string{"n3"}
	s.order(o)
	if !s.until(20*time.Minute, func() bool { return calls == nth }) {
		t.Fatal("the daemon did not end")
	}
	s.Judge = nil
}

// readAgain lets another daemon read the member list, and end before it continues with the restore.
func (s *stage) readAgain(t *testing.T) {
	t.Helper()
	ended := false
	s.Judge = func(_ int, c sim.Call) sim.Verdict {
		if operation, _ := s.Store().Running(); operation == "restore" && !ended && c.Port == "node" {
			ended = true
			return sim.KillBefore
		}
		return sim.Proceed
	}
	s.daemon()
	if !s.until(10*time.Minute, func() bool { return ended }) {
		t.Fatal("the second daemon did not end")
	}
	s.Judge = nil
}

// notBeside starts the daemon again, while n3 and n4 are a quorum of the former cluster.
func (s *stage) notBeside(t *testing.T) {
	t.Helper()
	s.daemon()
	if s.until(30*time.Minute, func() bool { return s.Store().Identity().Started() }) {
		t.Error("restored members start while n3 and n4 are a quorum")
	}
	s.pass(10 * time.Minute)
	s.Rejoin("n3")
	s.Rejoin("n4")
	if s.Write("n4", "to the former") && s.Store().Identity().Started() {
		t.Error("the former cluster takes writes beside the restored one")
	}
	s.unbroken(t)
}

// lost plays a restore that has stopped n1 and is about to stop n2, an operator who removes n1, which is down, and what happens to n2 long after the daemon
// ended. n3 and n4 are a quorum then.
func lost(t *testing.T, ends map[string]func(*sim.Node), before func(*stage)) {
	for name, end := range ends {
		joining(t, name, func(t *testing.T, at string) {
			play(t, 4, func(s *stage) {
				s.fenced(t, at, 2)
				s.Cut(sim.Management, "n4")
				s.pass(10 * time.Minute)
				if !s.Node("n1").Leave("n1") {
					t.Error("n1 is not removed")
				}
				s.pass(10 * time.Minute)
				before(s)
				end(s.Node("n2"))
				s.pass(10 * time.Minute)
				s.notBeside(t)
			})
		})
	}
}

// With n2, n3 and n4 there is a quorum: the operator also removes n2 from the list, and takes its machine or its container away.
func TestRestoreOutsiders_AMemberWhoseContainerIsGoneIsNotOneThatTheRestoreStopped(t *testing.T) {
	lost(t, map[string]func(*sim.Node){"container": (*sim.Node).RemoveContainers, "disk": (*sim.Node).Blank, "volume": (*sim.Node).RemoveVolumes}, func(s *stage) {
		if !s.Node("n2").Leave("n2") {
			t.Error("n2 is not removed")
		}
		s.pass(10 * time.Minute)
	})
}

// As before, and n2 stays in the list: it is lost once n1 was removed from the list, and n3 and n4 are two of three voters.
func TestRestoreOutsiders_AMemberThatIsLostMayHaveTakenPartInARemoval(t *testing.T) {
	lost(t, map[string]func(*sim.Node){"container": (*sim.Node).RemoveContainers, "disk": (*sim.Node).Blank}, func(*stage) {})
}

// The clock of n2 is ahead by less than what cke accepts when the stop is put on record, and is set right before n2 ends by itself.
func TestRestoreOutsiders_AClockThatIsSetRightMakesNoStop(t *testing.T) {
	joining(t, "", func(t *testing.T, at string) {
		play(t, 4, func(s *stage) {
			s.Node("n2").JumpClock(9 * time.Minute)
			s.fenced(t, at, 2)
			s.Cut(sim.Management, "n4")
			s.Node("n2").SetClock()
			s.pass(2 * time.Minute)
			if !s.Node("n1").Leave("n1") {
				t.Error("n1 is not removed")
			}
			s.pass(2 * time.Minute)
			s.Node("n2").SwitchRestartsOff()
			s.Node("n2").StopByHand()
			s.pass(time.Minute)
			s.notBeside(t)
		})
	})
}

// N2 is stopped by the operator within the time that the restore had for its stop, right after n1 was removed from the list.
func TestRestoreOutsiders_AStopByTheOperatorIsNotOneOfTheRestore(t *testing.T) {
	joining(t, "", func(t *testing.T, at string) {
		play(t, 4, func(s *stage) {
			s.fenced(t, at, 2)
			s.Cut(sim.Management, "n4")
			s.pass(5 * time.Second)
			if !s.Node("n1").Leave("n1") {
				t.Error("n1 is not removed")
			}
			s.pass(10 * time.Second)
			s.Node("n2").SwitchRestartsOff()
			s.Node("n2").StopByHand()
			s.pass(time.Minute)
			s.notBeside(t)
		})
	})
}

// joining plays a story in which the foreign voter joins before the order of the restore, and while it makes data.
func joining(t *testing.T, name string, story func(*testing.T, string)) {
	for at, when := range map[string]string{"": "before the order", "RestoreData": "while data is made"} {
		t.Run(name+" "+when, func(t *testing.T) { story(t, at) })
	}
}
