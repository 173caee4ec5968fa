package op_test

import (
	"errors"
	"slices"
	"strings"
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

// Which members the cluster has is not known while a member runs and does not answer, and no quorum confirms a list. What the deletion or the operator has stopped is not
// asked any more.
func TestDeleteCluster_StopsNobodyByAListThatIsNotKnown(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(w *world)
		sealed bool
		try    string
	}{
		{"all run and none answers", func(w *world) {}, false, "docker stop etcd-cke."},
		{"a deletion stopped two before", func(w *world) { stop(w, w.joins()[0]); stop(w, w.joins()[1]) }, false, "docker stop etcd-cke."},
		{"the operator stopped all", func(w *world) {
			for _, n := range w.Nodes() {
				n.SwitchRestartsOff()
				n.StopByHand()
			}
		}, false, ""},
		{"it is sealed", func(w *world) {}, true, ""},
		{"a quorum answers", func(w *world) { w.Nodes()[1].FilterClientPort(false); w.Nodes()[2].FilterClientPort(false) }, false, ""},
		{"one answers without a quorum", func(w *world) { w.Nodes()[2].FilterClientPort(false); stop(w, w.joins()[0]) }, false, "docker stop etcd-cke."},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				w.mustRun(w.bootstrap(false))
				for _, n := range w.Nodes() {
					n.FilterClientPort(true)
				}
				c.before(w)
				runs := w.states()
				w.Store().RequestDelete()
				_, err := w.run(op.DeleteCluster{Joins: w.joins(), Sealed: c.sealed})
				var why *cke.Error
				refused := errors.As(err, &why) && why.Code == cke.CodeFence
				if refused != (c.try != "") || refused && (!strings.HasPrefix(why.Try, c.try) || w.states() != runs) {
					t.Errorf("%v; ran: %s, run: %s", err, runs, w.states())
				}
				if w.Store().Deleted() == refused {
					t.Errorf("deleted: %v", w.Store().Deleted())
				}
			})
		})
	}
}

// The lists that members have right before they are stopped count, whatever the decision was made by.
func TestDeleteCluster_StopsNobodyBesideForeignVoters(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(d *op.DeleteCluster, foreign []cke.Member)
		refused bool
	}{
		{"they joined since", func(*op.DeleteCluster, []cke.Member) {}, true},
		{"they are down, as the decision has found", func(d *op.DeleteCluster, foreign []cke.Member) {
			d.Down = []string{foreign[0].ID, foreign[1].ID}
		}, false},
		{"the operator called them destroyed", func(d *op.DeleteCluster, foreign []cke.Member) {
			d.Excused = []string{foreign[0].ID, foreign[1].ID}
			for _, m := range foreign { // before the deletion is sealed they are asked
				d.Foreign = append(d.Foreign, cke.Former{Name: m.Name, ID: m.ID, URL: "https://10.0.0.9:2379"})
			}
		}, false},
		{"the operator called them destroyed by ids that were in no list, and they answer", func(d *op.DeleteCluster, foreign []cke.Member) {
			d.Excused = []string{foreign[0].ID, foreign[1].ID}
		}, true},
		{"it is sealed", func(d *op.DeleteCluster, _ []cke.Member) { d.Sealed = true }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				first := w.cluster()
				first.Nodes = first.Nodes[:1]
				w.mustRun(op.Bootstrap{Spec: first, Founders: first.ControlPlane()})
				for _, n := range w.Nodes()[1:] {
					if !n.Join("hand-"+n.Name(), true) {
						t.Fatal("cannot join")
					}
				}
				_, members, err := w.daemon.Etcd().Members(w.daemon.Context(), w.joins()[0].ClientURL())
				if err != nil || len(members) != 3 {
					t.Fatal(members, err)
				}
				foreign := slices.DeleteFunc(members, func(m cke.Member) bool { return m.Of(w.joins()[0]) })
				w.Store().RequestDelete()
				d := op.DeleteCluster{Joins: w.joins()}
				c.change(&d, foreign)
				_, err = w.run(d)
				if refused := cke.CodeOf(err) == cke.CodeStranger; refused != c.refused || refused != strings.HasPrefix(w.states(), "n1 running") {
					t.Errorf("%v: %s", err, w.states())
				}
			})
		})
	}
}
