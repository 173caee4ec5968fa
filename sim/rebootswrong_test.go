package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// formedWith plays with a formed cluster of the first nodes, the others to spare, and judges that nothing is broken at its end.
func formedWith(t *testing.T, nodes, members int, scene func(s *stage)) {
	t.Helper()
	play(t, nodes, func(s *stage) {
		c := s.cluster(s.Nodes())
		for i := members; i < nodes; i++ {
			c.Nodes[i].ControlPlane = false
		}
		s.Store().SetSpec(c)
		s.daemon()
		if !s.until(convergence, s.settled) {
			t.Fatal("does not form")
		}
		scene(s)
		if v := s.Violations(); v != nil {
			t.Error(v)
		}
	})
}

// entryOf is the entry of a node in the reboot queue; its state is empty when it has none.
func (s *stage) entryOf(node string) cke.Entry {
	if r := s.Store().Requests().Reboots.Of(s.Node(node).Declared().Address); r != nil {
		return *r
	}
	return cke.Entry{}
}

// follower is a node whose member does not lead.
func (s *stage) follower() string {
	if s.leader() == "n2" {
		return "n1"
	}
	return "n2"
}

func (s *stage) cancelReboot(node string) {
	now, address := s.Now(), s.Node(node).Declared().Address
	s.editReboots("cancel", func(q cke.Queue) (cke.Queue, error) { return q.Cancel([]string{address}, now) })
}

// A reboot is canceled at each moment before its command: its member serves again at once, and nothing reboots.
func TestReboots_CanceledBeforeItsCommand(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"MoveLeader", "PutDrain", "StopContainer", "EditQueue"} {
		formedWith(t, 3, 3, func(s *stage) {
			node, did := s.leader(), false
			s.addReboots(node)
			s.Judge = func(_ int, c sim.Call) sim.Verdict {
				if c.Name == at && !did {
					did = true
					go s.cancelReboot(node) // while the call is on its way
				}
				return sim.Proceed
			}
			whole := func() bool {
				return did && s.entryOf(node).State == "" && len(s.Store().Requests().Drains) == 0 && s.settled()
			}
			if !s.until(time.Minute, whole) || s.Node(node).Boots() > 0 {
				t.Errorf("canceled at %s: %t, %+v, leases %+v, boots %d", at, did, s.entryOf(node), s.Store().Requests().Drains, s.Node(node).Boots())
			}
		})
	}
}

// While a command runs its node leaves the cluster file, the daemon is replaced, or the machine reboots by itself: the command does not
// act after its entry has gone on, which the world judges.
func TestReboots_WhileTheCommandRuns(t *testing.T) {
	t.Parallel()
	for name, befalls := range map[string]func(s *stage, node string){
		"its node leaves the file": func(s *stage, node string) {
			c := s.Store().Spec().Cluster
			c.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n cke.Node) bool { return n.Hostname == node })
			s.Store().SetSpec(c)
		},
		"another daemon leads": func(s *stage, _ string) { s.latest().Kill(); s.succeed() },
		"the machine reboots":  func(s *stage, node string) { s.Node(node).Reboot() },
		"the machine freezes":  func(s *stage, node string) { s.Node(node).Freeze() },
		"it is canceled":       func(s *stage, node string) { s.cancelReboot(node) },
		"another member fails": func(s *stage, _ string) { s.Node("n3").PowerOff() },
		"the queue is disabled": func(s *stage, _ string) {
			s.editReboots("disable", func(q cke.Queue) (cke.Queue, error) { q.Disabled = true; return q, nil })
		},
		"the operator asks for more": func(s *stage, _ string) { s.addReboots("n3", "n4") },
	} {
		t.Run(name, func(t *testing.T) {
			formedWith(t, 5, 5, func(s *stage) {
				node := s.follower()
				s.Node(node).SetRebootMode(sim.Slow)
				s.addReboots(node)
				if !s.until(time.Hour, func() bool { return s.entryOf(node).State == cke.EntryRebooting }) {
					t.Fatal("is not rebooted")
				}
				befalls(s, node)
				s.until(10*time.Minute, func() bool { s.succeed(); return len(s.Store().Requests().Reboots.Entries) == 0 })
				if left := s.Store().Requests(); len(left.Reboots.Entries) > 0 && !left.Reboots.Disabled {
					t.Errorf("left %+v", left.Reboots.Entries)
				}
			})
		})
	}
}

// A machine that was silent as its command was started answers for a while, and goes down after that: it does not count as back.
func TestReboots_ASilentMachineGoesDownLate(t *testing.T) {
	t.Parallel()
	for name, dies := range map[string]bool{"the daemon leads on": false, "the daemon dies": true} {
		t.Run(name, func(t *testing.T) {
			formedWith(t, 3, 3, func(s *stage) {
				node := s.follower()
				s.Node(node).SetRebootMode(sim.Late)
				s.Node(node).Freeze()
				s.addReboots(node)
				if !s.until(time.Hour, func() bool { return s.entryOf(node).State == cke.EntryRebooting }) {
					t.Fatal("is not rebooted")
				}
				if dies {
					s.latest().Kill()
				} else {
					s.pass(2 * time.Second)
				}
				s.Node(node).Thaw()
				s.rebooted(10 * time.Minute)
				if e, boots := s.entryOf(node), s.Node(node).Boots(); e.State != "" || boots < 1 || !s.until(convergence, s.settled) {
					t.Errorf("%+v, %d boots", e, boots)
				}
			})
		})
	}
}

// Of four members one reboots after the other; the machines reboot twice each, go down late, or take long.
func TestReboots_AnEvenNumberOfVoters(t *testing.T) {
	t.Parallel()
	formedWith(t, 4, 4, func(s *stage) {
		for i, mode := range []sim.RebootMode{sim.Reboots, sim.Late, sim.Slow, sim.Twice} {
			s.Node([]string{"n1", "n2", "n3", "n4"}[i]).SetRebootMode(mode)
		}
		s.addReboots("n1", "n2", "n3", "n4")
		if order := s.rebooted(time.Hour); len(order) != 4 || !s.until(convergence, s.settled) {
			t.Errorf("%v, left %+v", order, s.Store().Requests().Reboots.Entries)
		}
	})
}

// A foreign voter is on a declared node that carries no member of cke: that node is not rebooted, nor is it beside another one.
func TestReboots_AForeignVoterOnANodeWithoutAMember(t *testing.T) {
	t.Parallel()
	join := func(s *stage, n string) bool { return s.Node(n).Join("x"+n, true) }
	named := func(s *stage, n string) bool { return s.Node(n).JoinAs("x"+n, n+".example.com") }
	for _, join := range []func(*stage, string) bool{join, named} {
		foreignVoters(t, join)
	}
}

func foreignVoters(t *testing.T, join func(*stage, string) bool) {
	t.Helper()
	formedWith(t, 3, 1, func(s *stage) {
		c := s.Store().Spec().Cluster
		c.Policies.Foreign = cke.ForeignHold
		s.Store().SetSpec(c)
		for _, n := range []string{"n2", "n3"} {
			if !join(s, n) {
				t.Fatalf("%s is not added", n)
			}
			s.pass(time.Minute)
		}
		s.addReboots("n2", "n3")
		s.until(10*time.Minute, func() bool { return s.Node("n2").Boots()+s.Node("n3").Boots() > 0 })
		if boots := s.Node("n2").Boots() + s.Node("n3").Boots(); boots > 0 || s.entryOf("n2").State != cke.EntryQueued || !s.Write("n1", "x") {
			t.Errorf("%d boots, %+v", boots, s.entryOf("n2"))
		}
	})
}

// A machine returns from its reboot without any data: its reboot fails after its time, and the others wait for an operator. Its member is
// replaced where the policy says so, and then it is rebooted again. Nothing starts empty, which the world judges.
func TestReboots_AMachineReturnsWiped(t *testing.T) {
	t.Parallel()
	for _, replace := range []cke.ReplaceMode{cke.ReplaceAuto, cke.ReplaceManual} {
		t.Run(string(replace), func(t *testing.T) {
			formedWith(t, 3, 3, func(s *stage) {
				c := s.Store().Spec().Cluster
				c.Policies.Replace.Mode = replace
				s.Store().SetSpec(c)
				node := s.follower()
				s.Node(node).SetRebootMode(sim.StaysOff)
				s.addReboots(node, "n3")
				if !s.until(time.Hour, func() bool { return !s.entryOf(node).CommandEndedAt.IsZero() }) {
					t.Fatalf("is not rebooted: %+v", s.entryOf(node))
				}
				s.pass(5 * time.Second) // until it is off
				s.Node(node).Blank()
				s.Node(node).SetRebootMode(sim.Reboots)
				s.Node(node).PowerOn()
				if !s.until(time.Hour, func() bool { return s.entryOf(node).State == cke.EntryFailed }) {
					t.Fatalf("no end: %+v", s.entryOf(node))
				}
				healed := s.until(10*time.Minute, func() bool { return len(s.told().Members) == 3 && s.told().Ready == 3 })
				if healed != (replace == cke.ReplaceAuto) || s.Node("n3").Boots() > 0 || s.entryOf("n3").State != cke.EntryQueued {
					t.Errorf("all members serve: %t; %s, %s: %+v; n3 rebooted %d times and is %s", healed, s.told().Summary, s.told().Reason, s.told().Problems, s.Node("n3").Boots(), s.entryOf("n3").State)
				}
				if !healed {
					return
				}
				now, address := s.Now(), s.Node(node).Declared().Address
				s.editReboots("retry", func(q cke.Queue) (cke.Queue, error) { return q.Retry([]string{address}, now) })
				if !s.until(time.Hour, func() bool { return len(s.Store().Requests().Reboots.Entries) == 0 }) || s.Node("n3").Boots() != 1 {
					t.Errorf("left %+v", s.Store().Requests().Reboots.Entries)
				}
			})
		})
	}
}

// etcd's leader changes while the queue is worked off: the member that leads then is rebooted last.
func TestReboots_TheLeaderChangesMeanwhile(t *testing.T) {
	t.Parallel()
	formedWith(t, 5, 5, func(s *stage) {
		s.addReboots("n1", "n2", "n3", "n4", "n5")
		moved := ""
		s.until(time.Hour, func() bool {
			q := s.Store().Requests().Reboots
			if moved == "" && len(q.History) == 2 && len(q.Entries) == 3 && !q.Entries[0].Active() && !q.Entries[1].Active() && !q.Entries[2].Active() {
				for _, e := range q.Entries {
					if e.Node != s.leader() {
						moved = e.Node
					}
				}
				s.ask(cke.TaskMoveLeader, moved, "", "")
			}
			return len(q.Entries) == 0
		})
		var order []string
		for _, e := range s.Store().Requests().Reboots.History {
			order = append(order, e.Node)
		}
		if moved == "" || len(order) != 5 || order[4] != moved {
			t.Errorf("%s leads since the second reboot, rebooted were %v", moved, order)
		}
	})
}

// What a command does, and the machine that it is to reboot, ends in a member that serves: at once, or once an operator decided.
func TestReboots_WhatCommandsAndMachinesDo(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name         string
		mode         sim.RebootMode
		fails        bool // an operator has to decide
		least, boots int  // of the machine: at least, at most
	}{
		{"the command takes long", sim.Slow, false, 1, 1},
		{"the machine goes down late", sim.Late, false, 1, 1},
		{"the machine reboots twice", sim.Twice, false, 1, 2},
		{"the machine does not reboot", sim.StaysUp, true, 0, 0},
		{"the command fails", sim.CommandFails, true, 0, 0},
		{"the command hangs", sim.CommandHangs, true, 0, 0},
		{"the machine never returns", sim.StaysOff, true, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			formedWith(t, 3, 3, func(s *stage) {
				node := s.Node(s.follower())
				node.SetRebootMode(row.mode)
				boots := node.Boots()
				s.addReboots(node.Name())
				failed := func() bool { return s.entryOf(node.Name()).State == cke.EntryFailed }
				if s.until(time.Hour, func() bool { return failed() || s.entryOf(node.Name()).ID == "" }); failed() != row.fails {
					t.Fatalf("%+v", s.entryOf(node.Name()))
				}
				if e := s.entryOf(node.Name()); row.fails && e.Tries() != rebooting.Attempts() {
					t.Errorf("%d attempts: %+v", e.Tries(), e)
				}
				s.pass(time.Minute)
				if did := node.Boots() - boots; did < row.least || did > row.boots {
					t.Errorf("%d boots", did)
				}
				node.PowerOn()
				s.cancelReboot(node.Name())
				s.must("whole again", func() bool { return s.settled() && s.entryOf(node.Name()).ID == "" && s.runningOn(node.Name()) == 1 })
				if leases := s.Store().Requests().Drains; len(leases) > 0 {
					t.Errorf("leases %+v", leases)
				}
			})
		})
	}
}
