package op_test

import (
	"errors"
	"testing"

	"cke"
	"cke/op"
)

// Requirement D7: orderly, parallel, finalised; volumes are kept.
func TestDeleteCluster_StopsAllAndKeepsVolumes(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		w.Store().RequestDelete()
		if r, err := w.run(op.DeleteCluster{Joins: w.joins()}); r.State != cke.RecordCompleted || err != nil && !errors.Is(err, cke.ErrNotFound) {
			t.Fatalf("%v %+v", err, r) // its own record has gone to the archive
		}
		if !w.Store().Deleted() || len(w.Violations()) > 0 {
			t.Error(w.Violations())
		}
		for _, n := range w.Nodes() {
			containers, volumes := n.Look()
			if len(volumes) != 1 || len(containers) != 0 {
				t.Errorf("%s: %v %v", n.Name(), containers, volumes)
			}
		}
		w.Node("n1").Reboot()
		if len(w.Violations()) > 0 {
			t.Error(w.Violations())
		}
	})
}

func TestDeleteCluster_IsNotFinishedWhileAMemberMayRun(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		w.Node("n2").PowerOff()
		w.Store().RequestDelete()
		if _, err := w.run(op.DeleteCluster{Joins: w.joins()}); cke.CodeOf(err) != cke.CodeUnreachable {
			t.Error(err)
		}
		if w.Store().Deleted() {
			t.Error("deleted")
		}
	})
}

// A start that an earlier daemon sent off and that arrives late finds nothing to start.
func TestDeleteCluster_LeavesNothingThatALateStartCouldWake(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.mustRun(w.bootstrap(false))
		j := w.joins()[0]
		stop(w, j)
		w.Node("n1").Hang()
		_ = w.daemon.Machines().Machine(j.Node).StartContainer(w.daemon.Context(), j)
		w.daemon = w.NewDaemon()
		w.Node("n1").PowerOff()
		w.Node("n1").PowerOn()
		w.Store().RequestDelete()
		_, _ = w.run(op.DeleteCluster{Joins: []cke.Join{j}})
		if !w.Store().Deleted() {
			t.Fatal("not deleted")
		}
		late := w.NewDaemon()
		_ = late.Machines().Machine(j.Node).StartContainer(late.Context(), j)
		if len(w.Violations()) > 0 {
			t.Error(w.Violations())
		}
	})
}

// A deletion that is canceled ends at its next step, whichever that is.
func TestDeleteCluster_EndsOnceItIsCanceled(t *testing.T) {
	for step, left := range map[string]int{"stop": 3, "remove-container": 3, "seal": 0} {
		inWorld(t, 3, func(w *world) {
			w.mustRun(w.bootstrap(false))
			w.Store().RequestDelete()
			if _, err := w.run(cut{op.DeleteCluster{Joins: w.joins()}, step, w.Store().CancelDelete}); !errors.Is(err, cke.ErrConflict) {
				t.Errorf("%s: %v", step, err)
			}
			carried := 0
			for _, n := range w.Nodes() {
				containers, _ := n.Look()
				carried += len(containers)
			}
			if w.Store().Deleted() || carried != left || step == "stop" && w.Serving() != 3 {
				t.Errorf("%s: deleted %v, %d containers, %d serve", step, w.Store().Deleted(), carried, w.Serving())
			}
		})
	}
}
