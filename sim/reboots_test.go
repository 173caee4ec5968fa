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
	Retries: new(1), Interval: cke.Duration(5 * time.Second), MaxConcurrent: 2, Settle: cke.Duration(10 * time.Second), FleetLock: true}

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
	n.s.agents.hush()
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
	dies := func(k int) { // 0: none dies; else before or after a write
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
	dies(0)
	for k := range points(2*calls, 3, 0) {
		dies(k)
	}
	if calls < 20 {
		t.Errorf("only %d writes", calls)
	}
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
		wants: []string{"is down through another one", "and takes the quorum away: attempt", "of the " + string(k) + " queue are under way"}}
}

// The store is brought back from a copy that was made while a node was rebooted and another one waited. Neither is rebooted once more: the
// first leaves the queue by itself, the other one keeps restores waiting until the operator cancels it.
func TestReboots_OfAnOlderStoreAreNotRepeated(t *testing.T) {
	t.Parallel()
	for _, at := range []cke.EntryState{cke.EntryQueued, cke.EntryLeased, cke.EntryRebooting, cke.EntryReturning} {
		t.Run(string(at), func(t *testing.T) {
			formedWith(t, 3, 3, func(s *stage) {
				s.TakeBackup()
				s.addReboots("n2", "n3")
				copied := s.copiedOnce(func(cke.Identity, sim.Call) bool {
					return s.entryOf("n2").State == at && s.entryOf("n3").State == cke.EntryQueued
				})
				if !s.until(2*time.Hour, func() bool { return copied.made && len(s.Store().Requests().Reboots.Entries) == 0 && s.settled() }) {
					t.Fatalf("not rebooted: %+v", s.Store().Requests().Reboots)
				}
				s.replaceAll(t, "n1")
				s.broughtBack(copied.StoreCopy)
				s.freezesAndServes(t)
				s.reclaims(t)
				under := func() bool { e := s.entryOf("n2"); return e.Active() }
				if !s.until(2*time.Hour, func() bool { return !under() }) {
					t.Fatalf("it stays: %+v", s.entryOf("n2"))
				}
				s.order(fromBackup)
				s.must("answered", func() bool { return !s.asks(cke.TaskRestore) })
				if s.Store().Identity().Incarnation.Restore != nil {
					t.Fatal("a restore is accepted although a reboot is held")
				}
				for _, r := range s.Store().Requests().Reboots.Entries {
					s.cancelReboot(r.Node)
				}
				s.order(fromBackup)
				s.must("restored", func() bool { return s.restored() && s.settled() })
				s.pass(time.Hour)
				if one, two := s.Node("n2").Boots(), s.Node("n3").Boots(); one != 1 || two != 1 || len(s.Store().Requests().Reboots.Entries) > 0 {
					t.Errorf("%d and %d boots, left %+v", one, two, s.Store().Requests().Reboots.Entries)
				}
			})
		})
	}
}

// A node that cannot be drained is failed in the end, after few attempts, also where nothing else is left to do.
func TestReboots_OneThatCannotBeDrainedIsFailed(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.Store().SetSpec(s.onNodes("n1", "n2", "n3"))
		s.daemon()
		s.must("formed", s.settled)
		s.Node("n4").FillDisk() // it takes no image
		before := len(s.Store().Records())
		s.addReboots("n4")
		failed := func() bool {
			e := s.Store().Requests().Reboots.Entries
			return len(e) == 1 && e[0].State == cke.EntryFailed
		}
		if !s.until(15*time.Minute, failed) {
			t.Errorf("%+v", s.Store().Requests().Reboots)
		}
		if n := len(s.Store().Records()) - before; n > 40 {
			t.Errorf("%d records", n)
		}
		s.unbroken(t)
	})
}
