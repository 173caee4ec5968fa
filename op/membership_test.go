package op_test

import (
	"errors"
	"strings"
	"testing"

	"cke"
	"cke/op"
)

// inGrowing runs a test in a world of n+1 nodes with a formed cluster on the first n.
func inGrowing(t *testing.T, n int, f func(w *world, last cke.Node)) {
	t.Helper()
	inWorld(t, n+1, func(w *world) {
		c := w.cluster()
		c.Nodes = c.Nodes[:n]
		w.mustRun(op.Bootstrap{Spec: c, Founders: c.ControlPlane()})
		f(w, w.cluster().Nodes[n])
		if v := w.Violations(); v != nil {
			t.Error(strings.Join(v, "\n"))
		}
	})
}

func (w *world) add(n cke.Node) op.AddMember {
	return op.AddMember{Node: n, Etcd: w.cluster().Options.Etcd}
}

// resume is the operation that goes on with the membership on the last node.
func (w *world) resume(n cke.Node) op.AddMember {
	o := w.add(n)
	for _, j := range w.joins() {
		if j.Node.Address == n.Address {
			o.Resume = j.ID
		}
	}
	return o
}

func (w *world) joinOn(n cke.Node) cke.Join {
	for _, j := range w.joins() {
		if j.Node.Address == n.Address {
			return j
		}
	}
	w.t.Fatalf("no membership on %s", n.Name())
	return cke.Join{}
}

func (w *world) members() []cke.Member {
	_, members, err := w.daemon.Etcd().Members(w.daemon.Context(), w.joins()[0].ClientURL())
	if err != nil {
		w.t.Fatal(err)
	}
	return members
}

func TestAddMember_AddsALearnerAndPromotionMakesItAVoter(t *testing.T) {
	inGrowing(t, 3, func(w *world, last cke.Node) {
		w.mustRun(w.add(last))
		if m := w.members(); len(m) != 4 || !m[3].Learner {
			t.Errorf("%+v", m)
		}
		w.mustRun(op.PromoteMember{Join: w.joinOn(last)})
		if m := w.members(); m[3].Learner {
			t.Errorf("%+v", m)
		}
		if w.happened("store.PutJoins") > w.happened("etcd.AddLearner") {
			t.Error("the learner is added before its membership is recorded")
		}
	})
}

func TestAddMember_ResumesFromEveryStep(t *testing.T) {
	for _, step := range []string{"record-join", "add-learner", "prepare", "start", "receive-data", "serve"} {
		inGrowing(t, 3, func(w *world, last cke.Node) {
			w.runUntil(w.add(last), step)
			w.mustRun(w.resume(last))
			if m := w.members(); len(m) != 4 {
				t.Errorf("cut at %s: %+v", step, m)
			}
		})
	}
}

// From its first start on a learner is started on what it wrote, or not at all.
func TestAddMember_RefusesALearnerThatForgot(t *testing.T) {
	for name, lose := range map[string]func(w *world){
		"blank machine": func(w *world) { w.Node("n4").Blank() },
		"volumes gone":  func(w *world) { w.Node("n4").RemoveVolumes() },
		"emptied":       func(w *world) { w.Node("n4").EmptyVolumes() },
	} {
		for _, step := range []string{"receive-data", "serve"} {
			inGrowing(t, 3, func(w *world, last cke.Node) {
				w.runUntil(w.add(last), step)
				lose(w)
				if _, err := w.run(w.resume(last)); !errors.Is(err, cke.ErrDataMissing) {
					t.Errorf("%s at %s: %v", name, step, err)
				}
			})
		}
	}
}

func TestRemoveMember_AsksForTheArithmeticAgain(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		m, j := w.members(), w.joins()
		o := op.RemoveMember{Member: m[2], Join: &j[2]}
		w.Node("n2").PowerOff() // after it was decided
		if _, err := w.run(o); cke.CodeOf(err) != cke.CodeQuorum {
			t.Error(err)
		}
		if len(w.members()) != 3 || len(w.joins()) != 3 {
			t.Error("removed")
		}
		w.Node("n2").PowerOn()
	})
}

func TestRemoveMember_EndsTheMembershipAndKeepsTheVolume(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		m, j := w.members(), w.joins()
		o := op.RemoveMember{Member: m[0], Join: &j[0]}
		w.mustRun(o)
		if id := w.Store().Identity(); len(id.Joins) != 2 || len(id.Ended) != 1 || id.Ended[0].EndedAt.IsZero() {
			t.Errorf("%+v", id)
		}
		if c, v := w.Node("n1").Look(); len(v) != 1 || len(c) > 0 && c[0].Running() {
			t.Errorf("%v %v", c, v)
		}
		if !w.Write("n2", "more") {
			t.Error("the others take no write")
		}
	})
}

func TestRestartMember_AsksForTheArithmeticAgain(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		next := w.cluster().Options.Etcd
		next.ExtraArgs = []string{"--quota-backend-bytes=1"}
		o := op.RestartMember{Join: w.joins()[2], Etcd: next}
		w.Node("n2").PowerOff()
		if _, err := w.run(o); cke.CodeOf(err) != cke.CodeQuorum {
			t.Error(err)
		}
		if got := w.states(); got != "n1 running, n2 exited, n3 running" {
			t.Error(got)
		}
		w.Node("n2").PowerOn()
		w.mustRun(o)
		if got := w.joins()[2].Etcd.ExtraArgs; len(got) != 1 {
			t.Errorf("recorded: %v", got)
		}
	})
}
