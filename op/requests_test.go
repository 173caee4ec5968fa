package op_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// inFormed runs a test in a world with a formed cluster of n.
func inFormed(t *testing.T, n int, f func(w *world)) {
	t.Helper()
	inWorld(t, n, func(w *world) {
		w.mustRun(w.bootstrap(false))
		f(w)
		if v := w.Violations(); v != nil {
			t.Error(strings.Join(v, "\n"))
		}
	})
}

func (w *world) drain(name string, accepted bool) op.DrainNode {
	n := w.node(name)
	j := w.joinOn(n)
	return op.DrainNode{Node: n, Join: &j, Reason: "new kernel", By: "ann@boot-1", For: time.Hour, Accepted: accepted}
}

func (w *world) node(name string) cke.Node {
	n, _ := w.cluster().Node(name)
	return n
}

// leaderNode is the name of the node whose member leads.
func (w *world) leaderNode() string {
	for _, j := range w.joins() {
		if s := w.daemon.Etcd().Endpoint(w.daemon.Context(), j.ClientURL()); s.MemberID != "" && s.LeaderID == s.MemberID {
			return j.Node.Name()
		}
	}
	return ""
}

func (w *world) leases() []cke.Drain { return w.daemon.Term().Requests().Drains }

func TestRefuse_FailsWithItsReasonAndChangesNothing(t *testing.T) {
	inFormed(t, 1, func(w *world) {
		why := &cke.Error{Code: cke.CodeCannot, What: "n9 carries no member", Facts: []string{"its nodes are n1"}, Unchanged: true, Try: "ckecli status"}
		r, err := w.run(op.Refuse{Task: cke.Task{Kind: cke.TaskReplace, Node: "n9"}, Why: why})
		if !errors.Is(err, why) || r.State != cke.RecordFailed || r.Operation != "replace" || r.Code != cke.CodeCannot || !r.Refused || r.Outcome() != "refused" {
			t.Errorf("%v %+v", err, r)
		}
		if f := r.Refusal; f == nil || f.What != why.What || len(f.Facts) != 1 || !f.Unchanged || f.Try != why.Try {
			t.Errorf("%+v", r.Refusal)
		}
		if r := w.mustRun(op.Settled{Task: cke.Task{Kind: cke.TaskDisarm}}); r.Operation != "disarm" || r.Targets != nil || r.Refused {
			t.Errorf("%+v", r)
		}
	})
}

// unanswered is a ledger of which an answer to a lease is lost.
type unanswered struct{ cke.Ledger }

func (f unanswered) PutDrain(ctx context.Context, d cke.Drain) error {
	return errors.Join(f.Ledger.PutDrain(ctx, d), cke.ErrUnreachable)
}

// A lease whose answer was lost is a lease: it would keep others waiting until it expires although its operation failed.
func TestDrainNode_ContinuesWhereTheAnswerToItsLeaseWasLost(t *testing.T) {
	inFormed(t, 3, func(w *world) {
		leader := w.leaderNode()
		if _, err := w.runIn(func(e op.Env) op.Env { e.Ledger = unanswered{e.Ledger}; return e }, w.drain(leader, false)); err != nil {
			t.Error(err)
		}
		if l := w.leases(); len(l) != 1 || w.happened("node.StopContainer") < 0 {
			t.Errorf("%+v", l)
		}
	})
}

// Requirements A22, N6: leadership goes before the lease, the lease is on record before the member stops.
func TestDrainNode_MovesLeadershipLeasesAndStops(t *testing.T) {
	inFormed(t, 3, func(w *world) {
		leader := w.leaderNode()
		r := w.mustRun(w.drain(leader, false))
		if steps(r) != "check "+leader+", move-leader "+leader+", lease "+leader+", stop "+leader {
			t.Error(steps(r))
		}
		if w.happened("etcd.MoveLeader") > w.happened("store.PutDrain") || w.happened("store.PutDrain") > w.happened("node.StopContainer") {
			t.Error(strings.Join(w.trace, "\n"))
		}
		l := w.leases()
		if len(l) != 1 || l[0].Node != leader || l[0].Reason != "new kernel" || l[0].Until.Sub(l[0].Since) != time.Hour {
			t.Errorf("%+v", l)
		}
		if !strings.Contains(w.states(), leader+" exited") || w.leaderNode() == "" {
			t.Error(w.states())
		}
		w.mustRun(w.drain(leader, false)) // again: the member is stopped already, the lease is renewed
	})
}

// Requirement A1: a drain that would lose quorum changes nothing and leaves no lease.
func TestDrainNode_RefusedLeavesNoLease(t *testing.T) {
	inFormed(t, 3, func(w *world) {
		w.Node("n3").PowerOff()
		r, err := w.run(w.drain("n2", true))
		if r.Code != cke.CodeQuorum || r.Refusal == nil || !r.Refusal.Unchanged || len(w.leases()) > 0 {
			t.Errorf("%v %+v", err, w.leases())
		}
	})
	// The quorum goes between the check and the stop.
	inFormed(t, 3, func(w *world) {
		r, err := w.run(cut{w.drain("n2", false), "stop", func() { w.Node("n3").PowerOff() }})
		if r.Code != cke.CodeQuorum || len(w.leases()) > 0 || !strings.Contains(w.states(), "n2 running") {
			t.Errorf("%v %+v %s", err, w.leases(), w.states())
		}
	})
	// The engine goes.
	inFormed(t, 3, func(w *world) {
		if _, err := w.run(cut{w.drain("n2", false), "stop", func() { w.Node("n2").Hang() }}); err == nil || len(w.leases()) > 0 {
			t.Errorf("%v %+v", err, w.leases())
		}
	})
	inFormed(t, 2, func(w *world) {
		if _, err := w.run(w.drain("n2", false)); cke.CodeOf(err) != cke.CodeQuorum {
			t.Error(err)
		}
		w.mustRun(w.drain("n2", true))
	})
}

func TestDrainNode_OneNodeAtATime(t *testing.T) {
	inFormed(t, 3, func(w *world) {
		w.mustRun(op.DrainNode{Node: w.node("n1"), For: time.Hour}) // as of a node without a member
		if r, err := w.run(w.drain("n2", false)); r.Code != cke.CodeDrain || len(w.leases()) != 1 || !strings.Contains(w.states(), "n2 running") {
			t.Errorf("%v %+v", err, w.leases())
		}
		time.Sleep(time.Hour)
		w.mustRun(w.drain("n2", false))
		if l := w.leases(); len(l) != 1 || l[0].Node != "n2" {
			t.Errorf("%+v", l)
		}
	})
}

func TestDrainNode_ResumesFromEveryStep(t *testing.T) {
	for _, step := range []string{"check", "move-leader", "lease", "stop"} {
		inFormed(t, 3, func(w *world) {
			d := w.drain("n1", false)
			w.runUntil(d, step)
			w.mustRun(d)
			if !strings.Contains(w.states(), "n1 exited, n2 running, n3 running") || len(w.leases()) != 1 {
				t.Errorf("%s: %s", step, w.states())
			}
			w.mustRun(op.StartMembers{Joins: []cke.Join{*d.Join}, AwaitServing: true})
			w.happened("node.KeepRunning on n1")
		})
	}
}

// Requirements A15, A16, I6: the leader goes last, and what was stopped starts on its own data.
func TestHibernate_StopsTheLeaderLastAndKeepsAllData(t *testing.T) {
	inFormed(t, 3, func(w *world) {
		if !w.Write("n1", "precious") {
			t.Fatal("does not serve")
		}
		w.Store().Ask("hibernate", func(r *cke.Requests) { r.Hibernation = &cke.Hibernation{Since: time.Now()} })
		leader := w.leaderNode()
		h := op.Hibernate{Joins: w.joins(), Leader: w.joinOn(w.node(leader)).ID}
		r := w.mustRun(h)
		if got := r.Steps[5]; got.Node != leader || len(r.Steps) != 6 {
			t.Errorf("%s, and %s led", steps(r), leader)
		}
		if w.states() != "n1 exited, n2 exited, n3 exited" {
			t.Error(w.states())
		}
		w.mustRun(h) // what is stopped is stopped
		w.mustRun(op.StartMembers{Joins: w.joins(), AwaitServing: true})
		if !w.Write("n2", "afterwards") {
			t.Error("does not serve again")
		}
	})
}

func TestMoveLeader_MovesItToTheMember(t *testing.T) {
	inFormed(t, 3, func(w *world) {
		for _, to := range []string{"n1", "n2", "n3", "n3"} {
			w.mustRun(op.MoveLeader{Join: w.joinOn(w.node(to))})
			if got := w.leaderNode(); got != to {
				t.Errorf("%s leads, not %s", got, to)
			}
		}
		w.Node("n2").StopByHand()
		if r, err := w.run(op.MoveLeader{Join: w.joinOn(w.node("n2"))}); r.Code != cke.CodeCannot || !r.Refusal.Unchanged {
			t.Errorf("%v %+v", err, r)
		}
	})
}

// Requirement N6: one after the other, the next only when the one before serves again.
func TestDefragment_IsSerialAndPassesTheGate(t *testing.T) {
	inFormed(t, 3, func(w *world) {
		leader := w.leaderNode()
		d := op.Defragment{}
		for _, j := range w.joins() {
			if j.Node.Name() != leader {
				d.Joins = append(d.Joins, j)
			}
		}
		d.Joins = append(d.Joins, w.joinOn(w.node(leader)))
		w.mustRun(d)
		if w.last("etcd.MoveLeader") < w.happened("etcd.Defragment") || w.last("etcd.Defragment") < w.last("etcd.MoveLeader") {
			t.Error("the leader's turn is not the last, or its leadership was not moved")
		}
		w.runUntil(d, "defragment")
		w.mustRun(d)
		w.Node("n3").PowerOff()
		if r, err := w.run(op.Defragment{Joins: w.joins()[:1]}); r.Code != cke.CodeQuorum {
			t.Error(err)
		}
	})
	inFormed(t, 1, func(w *world) { w.mustRun(op.Defragment{Joins: w.joins()}) })
}

func TestDisarm_AsksOneMemberAfterTheOther(t *testing.T) {
	inFormed(t, 3, func(w *world) {
		alarm := op.Disarm{Alarms: []cke.Alarm{{Kind: "NOSPACE", MemberID: w.joins()[0].MemberID}}}
		w.Node("n1").PowerOff()
		time.Sleep(time.Second) // another one is elected: an alarm is taken back through raft
		w.mustRun(alarm)
		w.Node("n2").PowerOff()
		w.Node("n3").PowerOff()
		if _, err := w.run(alarm); err == nil || !strings.Contains(err.Error(), "no member clears the alarm") {
			t.Error(err)
		}
	})
}
