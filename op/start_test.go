package op_test

import (
	"errors"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// Requirements A5, C9: known members are started on their own data, nothing else.
func TestStartMembers_StartsAllOnTheirOwnData(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		if !w.Write("n1", "precious") {
			t.Fatal("not written")
		}
		before := w.Store().Identity()
		for _, n := range w.Nodes() {
			n.StopByHand()
		}
		if got := w.states(); got != "n1 exited, n2 exited, n3 exited" {
			t.Fatal(got)
		}
		w.mustRun(op.StartMembers{Joins: w.joins(), AwaitServing: true})
		for _, n := range w.Nodes() {
			containers, _ := n.Look()
			if containers[0].State != cke.ContainerRunning {
				t.Errorf("%s: %+v", n.Name(), containers)
			}
		}
		if after := w.Store().Identity(); after.Incarnation.ClusterID != before.Incarnation.ClusterID || len(w.Violations()) > 0 {
			t.Error(w.Violations())
		}
		w.happened("node.Data on n1")
	})
}

func stop(w *world, j cke.Join) {
	w.t.Helper()
	if err := w.daemon.Machines().Machine(j.Node).StopContainer(w.daemon.Context(), j, time.Second); err != nil {
		w.t.Fatal(err)
	}
}

func TestStartMembers_NeverStartsOneWithoutData(t *testing.T) {
	for name, lose := range map[string]func(w *world, j cke.Join){
		"volume gone":    func(w *world, _ cke.Join) { w.Node("n2").RemoveVolumes() },
		"volume emptied": func(w *world, _ cke.Join) { w.Node("n2").EmptyVolumes() },
		"another volume": func(w *world, j cke.Join) { w.Node("n2").RemoveVolumes(); w.Node("n2").AddVolume(labelled(j)) },
	} {
		inWorld(t, 3, func(w *world) {
			w.mustRun(w.bootstrap(false))
			j := w.joins()[1]
			stop(w, j)
			lose(w, j)
			_, err := w.run(op.StartMembers{Joins: []cke.Join{j}})
			if !errors.Is(err, cke.ErrDataMissing) || cke.CodeOf(err) != cke.CodeDataMissing {
				t.Errorf("%s: %v", name, err)
			}
			if w.last("etcd of "+j.Volume+" runs") > w.happened("UpdateIncarnation") || len(w.Violations()) > 0 {
				t.Errorf("%s: started; %v", name, w.Violations())
			}
		})
	}
}

// Even where the look for data is deceived, etcd with these arguments refuses an empty volume.
func TestStartMembers_IsSafeFromANodeThatLies(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		j := w.joins()[1]
		stop(w, j)
		w.Node("n2").EmptyVolumes()
		w.Node("n2").LieOfData(true)
		if _, err := w.run(op.StartMembers{Joins: []cke.Join{j}, AwaitServing: true}); cke.CodeOf(err) != cke.CodeEtcdExited {
			t.Error(err)
		}
		if len(w.Violations()) > 0 {
			t.Error(w.Violations())
		}
	})
}

func TestStartMembers_RefusesWhatIsNoMembershipOfAFormedCluster(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.runUntil(w.bootstrap(false), "serve")
		if _, err := w.run(op.StartMembers{Joins: w.joins()}); !errors.Is(err, cke.ErrConflict) {
			t.Errorf("while forming: %v", err)
		}
		w.mustRun(w.bootstrap(true))
		stranger := w.joins()[0]
		stranger.ID = "other"
		if _, err := w.run(op.StartMembers{Joins: []cke.Join{stranger}}); !errors.Is(err, cke.ErrConflict) {
			t.Errorf("a stranger: %v", err)
		}
	})
}

// The file may name another SSH port than it did when the join was made.
func TestStartMembers_ReachesTheNodeAsItIsDeclaredNow(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		j := w.joins()[1]
		stop(w, j)
		w.Node("n2").MoveSSH(2222)
		j.Node = w.Node("n2").Declared()
		w.mustRun(op.StartMembers{Joins: []cke.Join{j}, AwaitServing: true})
	})
}

func TestStartMembers_RepeatsSafely(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		o := op.StartMembers{Joins: w.joins(), AwaitServing: true}
		w.mustRun(o)
		w.mustRun(o)
		if got := w.states(); got != "n1 running, n2 running, n3 running" {
			t.Error(got)
		}
	})
}

func TestStartMembers_MakesAContainerThatTheEngineMayRestart(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		stop(w, w.joins()[1])
		w.mustRun(op.StartMembers{Joins: w.joins()[1:2], AwaitServing: true})
		w.Node("n2").Reboot()
		if got := w.states(); got != "n1 running, n2 running, n3 running" {
			t.Error(got)
		}
	})
}
