package sim_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// wish is something that a person asks of a formed cluster of three.
type wish struct {
	name string
	ask  func(s *stage, r *cke.Requests)
	// done reports whether it is so.
	done func(s *stage) bool
	// undo takes it back; nil: there is nothing to take back.
	undo func(r *cke.Requests)
}

func task(kind cke.TaskKind, node string) func(s *stage, r *cke.Requests) {
	return func(s *stage, r *cke.Requests) {
		t := cke.NewTask(kind, node, "", "ann@boot-1", time.Now())
		t.For = cke.Duration(time.Hour)
		r.Tasks = append(r.Tasks, t)
	}
}

// runningOn counts the containers that run on a node.
func (s *stage) runningOn(node string) (n int) {
	containers, _ := s.Node(node).Look()
	for _, c := range containers {
		if c.Running() {
			n++
		}
	}
	return n
}

// answered reports whether the leader took the task and ended it.
func (s *stage) answered() bool {
	return len(s.latest().Term().Requests().Tasks) == 0
}

// failed reports whether the last task did not complete: a write to the store whose outcome is not known fails it, and may
// land on the record afterwards.
func (s *stage) failed() bool {
	records := s.Store().Records()
	for i := len(records) - 1; i >= 0; i-- {
		if records[i].Task != "" {
			return records[i].State != cke.RecordCompleted
		}
	}
	return false
}

var wishes = []wish{
	{"drain", task(cke.TaskDrain, "n1"),
		func(s *stage) bool {
			r := s.latest().Term().Requests()
			down := len(r.Drains) == 1 && s.runningOn("n1") == 0
			return s.answered() && (down || s.failed() && s.runningOn("n1") == 1) && s.runningOn("n2") == 1 && s.runningOn("n3") == 1
		},
		func(r *cke.Requests) { r.Drains = nil }},
	{"hibernate", func(_ *stage, r *cke.Requests) { r.Hibernation = &cke.Hibernation{By: "ann@boot-1", Since: time.Now()} },
		func(s *stage) bool { return s.runningOn("n1")+s.runningOn("n2")+s.runningOn("n3") == 0 },
		func(r *cke.Requests) { r.Hibernation = nil }},
	{"replace", func(s *stage, r *cke.Requests) {
		for _, j := range s.Store().Identity().Joins {
			if j.Node.Name() == "n2" {
				r.Tasks = append(r.Tasks, cke.NewTask(cke.TaskReplace, "n2", string(j.ID), "ann@boot-1", time.Now()))
			}
		}
	}, func(s *stage) bool {
		id := s.Store().Identity()
		return s.answered() && len(id.Ended) > 0 && id.Ended[0].Node.Name() == "n2" && s.changed()
	}, nil},
	{"defragment", task(cke.TaskDefragment, ""), func(s *stage) bool { return s.answered() && s.changed() }, nil},
	{"move-leader", task(cke.TaskMoveLeader, "n3"), func(s *stage) bool { return s.answered() && s.changed() }, nil},
}

// wished plays a wish that judge disturbs, which is given calls counted from the moment when it is asked for.
func wished(t *testing.T, w wish, seed uint64, judge judge) (calls int, faults []string) {
	scene := func(s *stage) {
		faults = nil
		s.beginChange(t, change{from: []int{1, 2, 3}, to: []int{1, 2, 3}})
		if !s.until(convergence, s.changed) {
			t.Fatal("does not form")
		}
		before := s.Store().Identity()
		s.Store().Ask(w.name, func(*cke.Requests) {})
		var asked cke.Requests
		w.ask(s, &asked)
		s.Store().Ask(w.name, func(r *cke.Requests) { r.Tasks, r.Hibernation = asked.Tasks, asked.Hibernation })
		begin := s.Calls()
		s.Judge = func(n int, _ sim.Call) sim.Verdict { return judge(s, n-begin) }
		if seed > 0 {
			s.Pick = rand.New(rand.NewPCG(seed, 0)).IntN
		}
		ok := s.until(2*convergence, func() bool { s.succeed(); return w.done(s) })
		calls = s.Calls() - begin
		s.Land()
		for _, d := range s.drivers {
			d.Wake()
		}
		if !ok || !s.until(convergence, func() bool { s.succeed(); return w.done(s) }) {
			dec, _ := s.latest().now()
			faults = append(faults, "is not done: "+describeDecision(s.latest().Number(), dec))
		}
		if w.undo != nil {
			s.Store().Ask("no more "+w.name, w.undo)
			if s.Store().Identity().Joins[0].ID != before.Joins[0].ID {
				faults = append(faults, "a membership was given up")
			}
		}
		if !s.until(convergence, func() bool { s.succeed(); return s.changed() }) {
			dec, _ := s.latest().now()
			faults = append(faults, append(s.faults(s.declared()...), "does not come back: "+describeDecision(s.latest().Number(), dec))...)
		}
		if !s.Write("n1", "afterwards") {
			faults = append(faults, "does not serve afterwards")
		}
		faults = append(faults, s.Violations()...)
	}
	if play(t, 3, scene); faults != nil {
		play(t, 3, func(s *stage) {
			s.tell = t.Logf
			s.OnTrace(t.Logf)
			scene(s)
			t.Logf("\n%s", s.World)
		})
	}
	return calls, faults
}

// Requirements A15, A16, A22, I6, C10: what a person asked for is done, once, whichever call of it kills the daemon; nothing
// that was acknowledged is lost, and the cluster serves again once it is taken back.
func TestRequests_AreFulfilledFromEveryCrashPoint(t *testing.T) {
	for i, w := range wishes {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			fromEveryCrashPoint(t, 2, i, func(seed uint64, j judge) (int, []string) { return wished(t, w, seed, j) })
		})
	}
}

// A drain that would lose quorum is refused, and its lease is not left behind.
func TestRequests_ARefusedDrainLeavesNothingBehind(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.beginChange(t, change{from: []int{1, 2, 3}, to: []int{1, 2, 3}})
		s.until(convergence, s.changed)
		s.Node("n3").PowerOff()
		s.Store().Ask("drain n2", func(r *cke.Requests) { task(cke.TaskDrain, "n2")(s, r) })
		if !s.until(convergence, s.answered) {
			t.Fatal("nobody answers")
		}
		last := s.Store().Records()[len(s.Store().Records())-1]
		if last.Code != cke.CodeQuorum || last.Refusal == nil || !last.Refusal.Unchanged || len(s.latest().Term().Requests().Drains) > 0 {
			t.Errorf("%+v %+v", last, last.Refusal)
		}
		if s.runningOn("n2") != 1 || !s.Write("n1", "still") {
			t.Error("the cluster does not serve any more")
		}
	})
}

// While a node is down for maintenance another one dies, and comes back: it is started, the drained one is not.
func TestRequests_ADrainedNodeStaysDownUntilItsTimeIsOver(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.beginChange(t, change{from: []int{1, 2, 3, 4, 5}, to: []int{1, 2, 3, 4, 5}})
		s.until(convergence, s.changed)
		s.Store().Ask("drain n2", func(r *cke.Requests) { task(cke.TaskDrain, "n2")(s, r) })
		s.until(convergence, func() bool { return s.answered() && s.runningOn("n2") == 0 })
		s.Node("n2").Reboot()
		s.Node("n3").StopByHand()
		if !s.until(convergence, func() bool { return s.runningOn("n3") == 1 }) || s.runningOn("n2") != 0 {
			t.Errorf("n2 %d, n3 %d", s.runningOn("n2"), s.runningOn("n3"))
		}
		s.pass(50 * time.Minute)
		if s.runningOn("n2") != 0 {
			t.Error("n2 is started before the lease ends")
		}
		if !s.until(20*time.Minute, s.changed) {
			t.Error(s.faults(s.declared()...))
		}
	})
}

// A member that somebody starts while the cluster hibernates is stopped again, also by another daemon.
func TestRequests_AMemberThatStartsWhileHibernatedIsStoppedAgain(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.beginChange(t, change{from: []int{1, 2, 3}, to: []int{1, 2, 3}})
		s.until(convergence, s.changed)
		asleep := func() bool { return s.runningOn("n1")+s.runningOn("n2")+s.runningOn("n3") == 0 }
		s.Store().Hibernate(true)
		if !s.until(convergence, asleep) {
			t.Fatal("does not hibernate")
		}
		for i := 1; i <= 3; i++ {
			s.Node(fmt.Sprintf("n%d", i)).Reboot()
		}
		s.pass(time.Minute)
		if !asleep() {
			t.Error("members start by themselves")
		}
		s.Node("n2").StartByHand()
		s.latest().Kill()
		s.daemon()
		if !s.until(convergence, asleep) {
			t.Error("a member that was started is not stopped again")
		}
	})
}
