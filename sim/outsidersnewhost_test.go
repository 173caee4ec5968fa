package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// onNewHost has a real loop lead on another management host, which has only a copy of the record.
func (s *stage) onNewHost() {
	s.burnt()
	s.latest().Kill()
	s.loop()
	s.pass(time.Minute)
}

// readMeanwhile begins a restore that makes data while foreign voters join n1, until the daemon has read so and decides anew. Then n1 stops for good.
func (s *stage) readMeanwhile(t *testing.T, join func()) {
	t.Helper()
	joined, stopped := false, false
	s.Judge = func(_ int, c sim.Call) sim.Verdict {
		_, step := s.Store().Running()
		switch {
		case !joined && c.Name == "RestoreData":
			joined = true
			join()
			s.Node("n1").SlowDown(20 * time.Second)
		case joined && !stopped && step != "restore-data":
			stopped = true
			s.Node("n1").SlowDown(0)
			s.Node("n1").SwitchRestartsOff()
			s.Node("n1").StopByHand()
		}
		return sim.Proceed
	}
	s.order(fromBackup)
	s.until(10*time.Minute, func() bool { return stopped })
	if !joined || !stopped {
		t.Fatalf("joined %v, stopped %v", joined, stopped)
	}
}

// Foreign voters join while data is made on a new management host, and no member of cke runs any more that knows of them.
func TestRestoreOutsiders_ANewHostRemembersWhatItRead(t *testing.T) {
	for name, then := range map[string]func(*testing.T, *stage){
		"it continues":         func(*testing.T, *stage) {},
		"another daemon leads": func(_ *testing.T, s *stage) { s.loop() },
		"it is canceled, and ordered again": func(t *testing.T, s *stage) {
			s.pass(time.Minute)
			s.ask(cke.TaskCancelRestore, "", "", "")
			if !s.until(5*time.Minute, func() bool { return !s.restoring() }) {
				t.Error("not canceled")
			}
			s.Node("n1").StopByHand()
			s.order(fromBackup)
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				s.backedUpAlone(t)
				s.onNewHost()
				s.readMeanwhile(t, func() { s.joinByHand(t) })
				then(t, s)
				s.pass(20 * time.Minute)
				s.Write("n2", "to the former")
				s.unbroken(t)
			})
		})
	}
}

// The record on the new host is from before the member moved from n1 to n2, so the member of n2 is not on record.
func TestRestoreOutsiders_ANewHostRemembersWhatAMemberThatIsNotOnRecordReported(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.backedUpAlone(t)
		beside := s.Store().Copy()
		s.Store().SetSpec(s.held("n2"))
		s.must("moved", func() bool { return s.settled() && s.Serving() == 1 })
		s.pass(2 * time.Minute)
		s.latest().Kill()
		s.declaredFrom(beside)
		s.Store().SetSpec(s.held("n1", "n2"))
		s.latest().Kill()
		s.loop()
		s.pass(time.Minute)
		joined, stopped := false, false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			_, step := s.Store().Running()
			switch {
			case !joined && c.Name == "RestoreData":
				joined = true
				s.joinsOn(t, "n3", "n4")
				s.Node("n1").SlowDown(20 * time.Second)
				s.Node("n2").SlowDown(20 * time.Second)
			case joined && !stopped && step != "restore-data":
				stopped = true
				s.Node("n1").SlowDown(0)
				s.Node("n2").SlowDown(0)
				s.Node("n2").SwitchRestartsOff()
				s.Node("n2").StopByHand()
			}
			return sim.Proceed
		}
		s.order(fromBackup)
		s.pass(20 * time.Minute)
		s.Write("n3", "to the former")
		if !joined || !stopped {
			t.Errorf("joined %v, stopped %v", joined, stopped)
		}
		s.unbroken(t)
	})
}

// The foreign voters leave again, and a quorum says so: the restore ends.
func TestRestoreOutsiders_WhatHasLeftKeepsNoRestoreOnANewHostFromItsEnd(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.backedUpAlone(t)
		s.onNewHost()
		joined := false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if !joined && c.Name == "RestoreData" {
				joined = true
				s.joinByHand(t)
			}
			return sim.Proceed
		}
		s.order(fromBackup)
		s.pass(5 * time.Minute)
		if !joined || s.restored() {
			t.Errorf("joined %v, restored %v", joined, s.restored())
		}
		s.leaves(t, "n2")
		s.leaves(t, "n3")
		if !s.until(20*time.Minute, s.restored) {
			t.Errorf("not restored: %+v", s.Store().Status().Problems)
		}
		s.unbroken(t)
	})
}

// The restore reads of foreign voters right before it stops n1, which nothing has read before, and stops nobody. Then n1 stops for good.
func TestRestoreOutsiders_WhatARestoreRefusedByIsRemembered(t *testing.T) {
	for _, host := range []string{"the same host", "a new host"} {
		t.Run(host, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				s.backedUpAlone(t)
				if host == "a new host" {
					s.burnt()
				}
				s.pass(time.Minute)
				joined, read, stopped := false, false, false
				s.Judge = func(_ int, c sim.Call) sim.Verdict {
					_, step := s.Store().Running()
					switch {
					case !joined && c.Name == "RestoreData":
						joined = true
						s.joinByHand(t)
					case joined && !stopped && c.Port == "look":
						stopped = read
						if s.Node("n1").SwitchRestartsOff(); stopped {
							s.Node("n1").StopByHand()
						}
					case step == "store-last":
						read = true
					}
					return sim.Proceed
				}
				s.order(fromBackup)
				s.pass(20 * time.Minute)
				s.Write("n2", "to the former")
				if !joined || !stopped {
					t.Errorf("joined %v, stopped %v", joined, stopped)
				}
				s.unbroken(t)
			})
		})
	}
}
