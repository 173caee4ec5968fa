package op_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// inStrange runs a test in a world of four nodes: a formed cluster on three, and on the fourth a member that a person
// runs, which the engine keeps running.
func inStrange(t *testing.T, f func(w *world, o op.AdoptMember)) {
	t.Helper()
	inGrowing(t, 3, func(w *world, last cke.Node) {
		if !w.Node("n4").Join("hand", true) {
			t.Fatal("etcd does not take it")
		}
		w.Node("n4").Keep("hand")
		time.Sleep(time.Minute) // etcd wants its members to have been connected for a while
		o := op.AdoptMember{Node: last, Member: w.members()[3], Container: "n4/hand"}
		w.Store().Ask("adopt", func(r *cke.Requests) {
			task := cke.NewTask(cke.TaskAdopt, "n4", o.Member.ID, "ann@boot-1", time.Now())
			task.Adopt = &cke.Adoption{Member: o.Member, Container: o.Container}
			r.Tasks = append(r.Tasks, task)
		})
		f(w, o)
	})
}

// carried is the container on n4 that a person runs.
func (w *world) carried() cke.Container {
	containers, _ := w.Node("n4").Look()
	i := slices.IndexFunc(containers, func(c cke.Container) bool { return c.Name == "hand" })
	if i < 0 {
		w.t.Fatal("the container is gone")
	}
	return containers[i]
}

// Requirement A6: what carried the stranger is stopped for good and kept, and a member of cke's can take its place.
func TestAdoptMember_TakesAStrangerAwayAndKeepsWhatCarriedIt(t *testing.T) {
	inStrange(t, func(w *world, o op.AdoptMember) {
		r := w.mustRun(o)
		if want := "find-container n4, move-leader n4, remove n4, stop-container n4"; steps(r) != want {
			t.Errorf("%s", steps(r))
		}
		if p := r.Steps[3].Note; p != "container hand is stopped, not started again, and kept, with hand" {
			t.Error(p)
		}
		w.Node("n4").Reboot()
		if c := w.carried(); !c.Down() || !w.Node("n4").Holds("hand") {
			t.Errorf("%+v", c)
		}
		w.mustRun(w.add(o.Node))
		w.mustRun(op.PromoteMember{Join: w.joinOn(o.Node)})
		if m := w.members(); len(m) != 4 || m[3].ID == o.Member.ID || m[3].Learner {
			t.Errorf("%+v", m)
		}
		w.mustRun(o) // again, late
		if m := w.members(); len(m) != 4 || w.runs("n4") != 1 {
			t.Errorf("%+v", m)
		}
	})
}

func (w *world) runs(node string) (n int) {
	containers, _ := w.Node(node).Look()
	for _, c := range containers {
		if c.Running() {
			n++
		}
	}
	return n
}

func TestAdoptMember_ResumesFromEveryStep(t *testing.T) {
	for _, step := range []string{"find-container", "move-leader", "remove", "stop-container"} {
		inStrange(t, func(w *world, o op.AdoptMember) {
			w.runUntil(o, step)
			w.mustRun(o)
			if m := w.members(); len(m) != 3 || !w.carried().Down() {
				t.Errorf("%s: %+v %+v", step, m, w.carried())
			}
		})
	}
}

func TestAdoptMember_MovesTheLeadershipAway(t *testing.T) {
	inStrange(t, func(w *world, o op.AdoptMember) {
		w.lead(o.Member.ID)
		w.mustRun(o)
		if w.happened("moved from n4") > w.happened("etcd.RemoveMember") {
			t.Error("removed while it led")
		}
	})
}

// lead lets a voter lead.
func (w *world) lead(member string) {
	w.t.Helper()
	for _, j := range w.joins() { // only the leader takes it
		if w.daemon.Etcd().MoveLeader(w.daemon.Context(), j.ClientURL(), member) == nil {
			break
		}
	}
	if s := w.daemon.Etcd().Endpoint(w.daemon.Context(), w.joins()[0].ClientURL()); s.LeaderID != member {
		w.t.Fatalf("%+v", s)
	}
}

// Requirement C12: also one that cke does not know.
func TestRemoveMember_MovesTheLeadershipOfAStrangerAway(t *testing.T) {
	inStrange(t, func(w *world, o op.AdoptMember) {
		w.lead(o.Member.ID)
		w.mustRun(op.RemoveMember{Member: o.Member})
		if w.happened("moved from n4") > w.happened("etcd.RemoveMember") {
			t.Error("removed while it led")
		}
		if m := w.members(); len(m) != 3 {
			t.Errorf("%+v", m)
		}
	})
	inStrange(t, func(w *world, o op.AdoptMember) { // etcd takes that order from the leader alone
		w.lead(o.Member.ID)
		w.unheard = o.Member.ClientURLs[0]
		if _, err := w.run(op.RemoveMember{Member: o.Member}); cke.CodeOf(err) != cke.CodeCannot || !strings.Contains(err.Error(), "leads") {
			t.Error(err)
		}
		if w.unheard = ""; len(w.members()) != 4 {
			t.Error("removed while it led")
		}
	})
}

// Requirements A1, A6: nothing is done to another container, nor against the arithmetic.
func TestAdoptMember_TouchesNothingElse(t *testing.T) {
	inStrange(t, func(w *world, o op.AdoptMember) {
		w.Node("n4").AddForeignEtcd("theirs", 9999)
		o.Container = "n4/theirs"
		if _, err := w.run(o); !errors.Is(err, cke.ErrConflict) {
			t.Errorf("another container: %v", err)
		}
		o.Container = "n4/none"
		if _, err := w.run(o); !errors.Is(err, cke.ErrNotFound) {
			t.Errorf("no container: %v", err)
		}
		o.Container = "n4/hand"
		w.Node("n2").PowerOff()
		w.Node("n3").PowerOff()
		if _, err := w.run(o); err == nil {
			t.Error("without a quorum")
		}
		w.Node("n2").PowerOn()
		time.Sleep(time.Minute)
		if _, err := w.run(o); cke.CodeOf(err) != cke.CodeQuorum { // it serves: it goes only while all others do
			t.Errorf("beside another loss: %v", err)
		}
		w.Node("n3").PowerOn()
		time.Sleep(time.Minute)
		if _, err := w.run(o); err != nil {
			t.Error(err)
		}
		containers, _ := w.Node("n4").Look()
		if !slices.ContainsFunc(containers, func(c cke.Container) bool { return c.Name == "theirs" && c.Running() }) {
			t.Errorf("%+v", containers)
		}
	})
	inStrange(t, func(w *world, o op.AdoptMember) {
		w.Node("n2").PowerOff()
		w.Node("n3").PowerOff()
		w.Node("n2").PowerOn()
		time.Sleep(time.Minute)
		w.Node("n1").PauseContainers(true)
		if _, err := w.run(o); err == nil || len(w.trace) > 0 && w.carried().Down() {
			t.Errorf("below quorum: %v", err)
		}
		w.Node("n1").PauseContainers(false)
		w.Node("n3").PowerOn()
		time.Sleep(time.Minute)
	})
}

// A member at our peer URL that a person added is never taken for one of ours: started empty under its id, it would vote
// without what it agreed to.
func TestAddMember_NeverTakesAStrangersPlaceInTheList(t *testing.T) {
	inStrange(t, func(w *world, o op.AdoptMember) {
		w.Node("n4").StopOne("hand")
		if _, err := w.run(w.add(o.Node)); !errors.Is(err, cke.ErrConflict) || !strings.Contains(err.Error(), "does not belong to membership") {
			t.Error(err)
		}
		if w.runs("n4") > 0 {
			t.Error("something was started")
		}
		w.Node("n4").Reboot()
		time.Sleep(time.Minute)
	})
}
