package sim_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
	"cke/sim"
)

// Operations of the queues.
const (
	rebootOperations = "drain-for-reboot reboot-node note-reboot"
	repairOperations = "drain-for-repair repair-node note-repair"
)

// rebooting is how cluster files say that nodes are rebooted.
var rebooting = cke.RebootOptions{Command: sim.RebootCommand, CommandTimeout: cke.Duration(10 * time.Second), BootTimeout: cke.Duration(time.Minute),
	Retries: new(1), Interval: cke.Duration(5 * time.Second), MaxConcurrent: 2, Settle: cke.Duration(10 * time.Second)}

// repairing is how cluster files say that machines are repaired: the second step is not judged by another boot.
var repairing = cke.RepairOptions{PerDay: 3, Cooldown: cke.Duration(time.Minute), Procedures: []cke.RepairProcedure{{On: "dead", Steps: []cke.RepairStep{
	{Command: sim.RebootCommand, Timeout: cke.Duration(10 * time.Second), Watch: cke.Duration(time.Minute), Reboot: true},
	{Command: sim.RebootCommand, Timeout: cke.Duration(10 * time.Second), Watch: cke.Duration(2 * time.Minute), Retries: 1}}}}}

// editQueue changes a queue as an operator does. What is refused changes nothing.
func (s *stage) editQueue(k cke.QueueKind, what string, edit func(cke.Queue) (cke.Queue, error)) {
	s.Store().Ask(what, func(r *cke.Requests) {
		if q, err := edit(*r.Queue(k)); err == nil {
			*r.Queue(k) = q
		}
	})
}

// editReboots is editQueue for the reboot queue.
func (s *stage) editReboots(what string, edit func(cke.Queue) (cke.Queue, error)) {
	s.editQueue(cke.RebootQueue, what, edit)
}

// addReboots puts nodes of the cluster file into the reboot queue, addRepairs into the repair queue.
func (s *stage) addReboots(nodes ...string) {
	s.enqueue(cke.RebootQueue, cke.Entry{Reason: "new kernel", By: "eve@host"}, nodes)
}

func (s *stage) addRepairs(nodes ...string) {
	s.enqueue(cke.RepairQueue, cke.Entry{On: "dead", By: "eve@host"}, nodes)
}

func (s *stage) enqueue(k cke.QueueKind, as cke.Entry, nodes []string) {
	declared, now := s.Store().Spec().Cluster, s.Now()
	s.editQueue(k, "put nodes into the "+string(k)+" queue", func(q cke.Queue) (cke.Queue, error) {
		var all []cke.Node
		for _, name := range nodes {
			if n, there := declared.Node(name); there && q.Of(n.Address) == nil {
				all = append(all, n)
			}
		}
		return q.Add(all, as, now)
	})
}

// reboot asks for reboots of one node or of all.
func (n *nemesis) reboot(node *sim.Node) {
	if n.IntN(3) == 0 {
		n.s.addReboots(n.s.everyNode()...)
		return
	}
	n.s.addReboots(node.Name())
}

// repair asks for the repair of one machine, which may be on or off, or of all.
func (n *nemesis) repair(node *sim.Node) {
	switch n.IntN(4) {
	case 0:
		n.s.addRepairs(n.s.everyNode()...)
		return
	case 1:
		node.PowerOff()
	}
	n.s.addRepairs(node.Name())
}

// judgeQueue is what operators do about a queue.
func (n *nemesis) judgeQueue(node *sim.Node) {
	on, now, name := n.IntN(4) > 0, n.s.Now(), []string{node.Declared().Address}
	k := cke.QueueKinds()[n.IntN(2)]
	switch n.IntN(4) {
	case 0:
		n.s.editQueue(k, "enable or disable a queue", func(q cke.Queue) (cke.Queue, error) { q.Disabled = !on; return q, nil })
	case 1:
		n.s.editQueue(k, "cancel an entry", func(q cke.Queue) (cke.Queue, error) { return q.Cancel(name, now) })
	case 2:
		n.s.editQueue(k, "retry an entry", func(q cke.Queue) (cke.Queue, error) { return q.Retry(name, now) })
	case 3:
		n.s.editQueue(k, "skip an entry", func(q cke.Queue) (cke.Queue, error) { return q.Skip(name) })
	}
}

// endQueues cancels what is in the queues, and lets machines reboot as they should.
func (n *nemesis) endQueues() {
	for _, node := range n.s.Nodes() {
		node.SetRebootMode(sim.Reboots)
	}
	now := n.s.Now()
	for _, k := range cke.QueueKinds() {
		n.s.editQueue(k, "cancel all entries", func(q cke.Queue) (cke.Queue, error) {
			var all []string
			for _, r := range q.Entries {
				all = append(all, r.Address)
			}
			slices.Sort(all)
			q.Disabled = true
			return q.Cancel(all, now)
		})
	}
}

// rebooted plays until the queue is empty, or limit has passed, and returns the nodes in the order in which commands were started.
func (s *stage) rebooted(limit time.Duration) (order []string) {
	return s.emptied(cke.RebootQueue, limit)
}

// emptied is that for a queue.
func (s *stage) emptied(k cke.QueueKind, limit time.Duration) (order []string) {
	seen := map[string]bool{}
	s.until(limit, func() bool {
		s.succeed()
		asked := s.Store().Requests()
		q := asked.Queue(k)
		for _, r := range q.Entries {
			if r.Acting() && !seen[r.ID] {
				seen[r.ID] = true
				order = append(order, r.Node)
			}
		}
		return len(q.Entries) == 0
	})
	return order
}

// leader is the node of the member that leads.
func (s *stage) leader() string {
	for _, m := range s.told().Members {
		if m.Role == "leader" {
			return m.Name
		}
	}
	return ""
}

// Five nodes, of which one is a spare, reboot one after the other while clients write: the spare first, the leader last.
func TestReboots_TheLeaderLast(t *testing.T) {
	t.Parallel()
	play(t, 5, func(s *stage) {
		c := s.cluster(s.Nodes())
		c.Nodes[4].ControlPlane = false
		c.Nodes[3].ControlPlane = false
		s.Store().SetSpec(c)
		s.daemon()
		if !s.until(convergence, s.settled) {
			t.Fatal("does not form")
		}
		leader := s.leader()
		s.addReboots("n1", "n2", "n3", "n5")
		order := s.rebooted(time.Hour)
		if len(order) != 4 || order[0] != "n5" || order[3] != leader {
			t.Errorf("the leader is %s, rebooted were %v", leader, order)
		}
		if now := s.leader(); now == leader || now == "" {
			t.Errorf("%s leads", now)
		}
		for _, n := range []string{"n1", "n2", "n3", "n5"} {
			if boots := s.Node(n).Boots(); boots != 1 {
				t.Errorf("%s rebooted %d times", n, boots)
			}
		}
		h := s.Store().Requests().Reboots.History
		if len(h) != 4 || slices.ContainsFunc(h, func(e cke.EndedEntry) bool { return e.Result != cke.EntryDone || e.Attempts != 1 }) {
			t.Errorf("%+v", h)
		}
		if !s.until(convergence, s.settled) || s.Violations() != nil {
			t.Error(s.Violations())
		}
	})
}

// A node that never returns keeps those with members waiting, until an operator decides; others go on.
func TestReboots_ANodeThatNeverReturns(t *testing.T) {
	t.Parallel()
	play(t, 5, func(s *stage) {
		c := s.cluster(s.Nodes())
		c.Nodes[4].ControlPlane, c.Nodes[3].ControlPlane = false, false
		s.Store().SetSpec(c)
		s.daemon()
		if !s.until(convergence, s.settled) {
			t.Fatal("does not form")
		}
		leader := s.leader()
		followers := slices.DeleteFunc([]string{"n1", "n2", "n3"}, func(n string) bool { return n == leader })
		s.Node(followers[0]).SetRebootMode(sim.StaysOff)
		s.addReboots(followers...)
		state := func(node string) cke.EntryState {
			r := s.Store().Requests().Reboots.Of(s.Node(node).Declared().Address)
			if r == nil {
				return ""
			}
			return r.State
		}
		if !s.until(time.Hour, func() bool { return state(followers[0]) == cke.EntryFailed }) {
			t.Fatalf("%s is %s", followers[0], state(followers[0]))
		}
		if !s.hasProblem(cke.CodeReboot, followers[0]) {
			s.pass(time.Minute)
		}
		if !s.hasProblem(cke.CodeReboot, followers[0]) || len(s.Store().Requests().Drains) > 0 {
			t.Errorf("%+v, leases %+v", s.told().Problems, s.Store().Requests().Drains)
		}
		s.addReboots("n4", "n5")
		if !s.until(time.Hour, func() bool { return state("n4") == "" && state("n5") == "" }) {
			t.Error("nodes without members wait, too")
		}
		s.pass(10 * time.Minute)
		if state(followers[1]) != cke.EntryQueued {
			t.Errorf("%s is %s", followers[1], state(followers[1]))
		}
		s.editReboots("skip", func(q cke.Queue) (cke.Queue, error) { return q.Skip(followers[:1]) })
		s.pass(10 * time.Minute)
		if state(followers[1]) != cke.EntryQueued {
			t.Errorf("%s is %s although a member is away", followers[1], state(followers[1]))
		}
		s.Node(followers[0]).SetRebootMode(sim.Reboots)
		s.Node(followers[0]).PowerOn()
		if !s.until(time.Hour, func() bool { return state(followers[1]) == "" }) {
			t.Errorf("%s is %s", followers[1], state(followers[1]))
		}
		now := s.Now()
		s.editReboots("retry", func(q cke.Queue) (cke.Queue, error) { return q.Retry(followers[:1], now) })
		if order := s.rebooted(time.Hour); len(order) != 1 || s.Violations() != nil {
			t.Errorf("%v, %v", order, s.Violations())
		}
	})
}

// A daemon dies at every call of a reboot: the next one brings it to its end, and no machine is left without its member.
func TestReboots_ADaemonDiesAtEveryCall(t *testing.T) {
	t.Parallel()
	diesAtEveryCall(t, cke.RebootQueue, (*stage).addReboots)
}

// successionTakes bounds how much longer a queue takes because a daemon died once: the next one leads, and one step is done again.
const successionTakes = 2 * time.Minute

func diesAtEveryCall(t *testing.T, kind cke.QueueKind, add func(*stage, ...string)) {
	t.Helper()
	calls, usual := 0, time.Duration(0)
	for k := 0; k <= 2*calls; k++ { // 0: none dies; else before or after a write
		play(t, 3, func(s *stage) {
			s.daemon()
			if !s.until(convergence, s.settled) {
				t.Fatal("does not form")
			}
			add(s, "n1", "n2", "n3")
			writes, call, began := 0, "", s.Now()
			s.Judge = func(_ int, c sim.Call) sim.Verdict {
				if !c.Writes {
					return sim.Proceed
				}
				writes++
				if writes != (k+1)/2 {
					return sim.Proceed
				}
				call = c.Name
				if k%2 == 0 {
					return sim.KillBefore
				}
				return sim.KillAfter
			}
			order := s.emptied(kind, time.Hour)
			took := s.Now().Sub(began)
			if k == 0 {
				calls, usual = writes, took
			}
			asked := s.Store().Requests()
			if left := asked.Queue(kind); len(left.Entries) > 0 || !s.until(convergence, func() bool { s.succeed(); return s.settled() }) || s.Violations() != nil {
				t.Errorf("killed at write %d: order %v, left %+v, %v", k, order, left.Entries, s.Violations())
			}
			if took > usual+successionTakes {
				t.Errorf("killed at write %d, %s: took %s, usually %s", k, call, took, usual)
			}
			for _, n := range s.Nodes() {
				if n.Boots() == 0 {
					t.Errorf("killed at write %d: %s did not reboot", k, n.Name())
				}
			}
		})
	}
	if calls < 20 {
		t.Errorf("only %d writes", calls)
	}
}

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
	formedWith(t, 3, 1, func(s *stage) {
		c := s.Store().Spec().Cluster
		c.Policies.Foreign = cke.ForeignHold
		s.Store().SetSpec(c)
		for _, n := range []string{"n2", "n3"} {
			if !s.Node(n).Join("x"+n, true) {
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

// leasing is a ledger that gives a lease whoever else has one.
type leasing struct{ cke.Ledger }

func (l leasing) PutDrain(ctx context.Context, d cke.Drain) error {
	asked, err := l.Asked(ctx)
	if err != nil {
		return err
	}
	for _, other := range asked.Drains {
		if err := l.EndDrain(ctx, other.Node); err != nil {
			return err
		}
	}
	return l.Ledger.PutDrain(ctx, d)
}

// oneAtATime is the mutation of a daemon that sees neither what is under way in a queue nor leases.
func oneAtATime(k cke.QueueKind, add func(*stage, ...string)) mutation {
	return mutation{name: "one node of the " + string(k) + " queue at a time", blind: func(in *strategy.Input) {
		flatter(in, func(m cke.Member) bool { return !m.Learner && m.Name != "" })
		for i := range in.Seen.Etcd.Endpoints {
			in.Seen.Etcd.Endpoints[i].RaftIndex, in.Seen.Etcd.Endpoints[i].RaftApplied = 1<<40, 1<<40
		}
		queued := func(r cke.Entry) bool { return r.State == cke.EntryQueued }
		if q := in.Requests.Queue(k); slices.ContainsFunc(q.Entries, queued) && !slices.ContainsFunc(q.Entries, func(r cke.Entry) bool { return r.State == cke.EntryLeased }) {
			q.Entries = slices.DeleteFunc(slices.Clone(q.Entries), func(r cke.Entry) bool { return !queued(r) })
			in.Requests.Drains, q.History = nil, nil
		}
	}, wrap: func(s *stage, e op.Env) op.Env {
		e.Etcd, e.Ledger = flattering{e.Etcd, s}, leasing{e.Ledger}
		return e
	}, often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { add(n.s, n.s.everyNode()...) }},
		wants: []string{"is down through another one", "and takes the quorum away: attempt"}}
}

// Machines that are off are repaired one after the other, the member of none is lost, and a reboot that waits is not beside them.
func TestRepairs_BringMachinesBack(t *testing.T) {
	t.Parallel()
	play(t, 5, func(s *stage) {
		s.daemon()
		if !s.until(convergence, s.settled) {
			t.Fatal("does not form")
		}
		leader := s.leader()
		var followers []string
		for _, name := range []string{"n1", "n2", "n3", "n4", "n5"} {
			if name != leader {
				followers = append(followers, name)
			}
		}
		s.Node(followers[0]).PowerOff()
		s.Node(followers[1]).PowerOff()
		s.addReboots(followers[2])
		s.addRepairs(followers[:2]...)
		order := s.emptied(cke.RepairQueue, time.Hour)
		if !slices.Equal(order, followers[:2]) {
			t.Errorf("repaired were %v of %v", order, followers[:2])
		}
		if left := s.rebooted(time.Hour); !slices.Equal(left, followers[2:3]) {
			t.Errorf("rebooted were %v", left)
		}
		h := s.Store().Requests().Repairs.History
		if len(h) != 2 || slices.ContainsFunc(h, func(e cke.EndedEntry) bool { return e.Result != cke.EntryDone || e.Attempts != 1 }) {
			t.Errorf("%+v", h)
		}
		if !s.until(convergence, s.settled) || s.Violations() != nil {
			t.Error(s.Violations())
		}
	})
}

// What does not help is tried step by step, and then waits for an operator.
func TestRepairs_AMachineThatStaysOff(t *testing.T) {
	t.Parallel()
	play(t, 3, func(s *stage) {
		s.daemon()
		if !s.until(convergence, s.settled) {
			t.Fatal("does not form")
		}
		leader := s.leader()
		dead := "n1"
		if leader == dead {
			dead = "n2"
		}
		s.Node(dead).SetRebootMode(sim.StaysOff)
		s.Node(dead).PowerOff()
		s.addRepairs(dead)
		entry := func() cke.Entry {
			s.succeed()
			r := s.Store().Requests().Repairs.Of(s.Node(dead).Declared().Address)
			if r == nil {
				return cke.Entry{}
			}
			return *r
		}
		if !s.until(time.Hour, func() bool { return entry().State == cke.EntryFailed }) {
			t.Fatalf("%+v", entry())
		}
		if r := entry(); r.Step != 1 || r.Attempt != 3 || r.Earlier != 1 {
			t.Errorf("%+v", r)
		}
		s.pass(time.Minute)
		if !s.hasProblem(cke.CodeRepair, dead) || len(s.Store().Requests().Drains) > 0 {
			t.Errorf("%+v, leases %+v", s.told().Problems, s.Store().Requests().Drains)
		}
		s.Node(dead).SetRebootMode(sim.Reboots)
		now := s.Now()
		s.editQueue(cke.RepairQueue, "retry", func(q cke.Queue) (cke.Queue, error) { return q.Retry([]string{dead}, now) })
		s.emptied(cke.RepairQueue, time.Hour)
		if !s.until(convergence, s.settled) || s.Violations() != nil {
			t.Errorf("%+v, %v", entry(), s.Violations())
		}
	})
}

// A daemon dies at every call of a repair: the next one brings it to its end.
func TestRepairs_ADaemonDiesAtEveryCall(t *testing.T) {
	t.Parallel()
	diesAtEveryCall(t, cke.RepairQueue, (*stage).addRepairs)
}
