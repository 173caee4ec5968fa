package op_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"cke"
	"cke/op"
)

// Requirement C3: image, volume, container on each node, the control-plane nodes as initial cluster.
func TestBootstrap_FoundsOneCluster(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		r := w.mustRun(w.bootstrap(false))
		want := "image n1, image n2, image n3, certificate-authorities, record-incarnation, prepare n1, prepare n2, prepare n3, record-start, " +
			"start n1, start n2, start n3, serve n1, serve n2, serve n3, keep-running n1, keep-running n2, keep-running n3, record-formed"
		if got := steps(r); got != want {
			t.Errorf("steps:\n%s", got)
		}
		id := w.Store().Identity()
		if inc := id.Incarnation; inc.State != cke.Formed || inc.ClusterID == "" || inc.FormedAt.IsZero() || len(inc.Founders) != 3 {
			t.Errorf("incarnation %+v", inc)
		}
		for _, j := range id.Joins {
			if j.MemberID == "" || j.StartedAt.IsZero() || j.Volume != "etcd-cke."+string(j.ID) {
				t.Errorf("join %+v", j)
			}
		}
		if got := w.states(); got != "n1 running, n2 running, n3 running" {
			t.Error(got)
		}
		if len(w.Violations()) > 0 {
			t.Error(w.Violations())
		}
	})
}

// Requirements A1, N2, N15: all is prepared before anything starts.
func TestBootstrap_RecordsWhoTheClusterIsBeforeItTouchesANode(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		if w.happened("store.CreateIncarnation") > w.happened("node.EnsureVolume") {
			t.Error("a volume is made before the incarnation is recorded")
		}
		if w.last("node.PutFounder") > w.happened("store.PutJoins") {
			t.Error("the start is recorded before all is prepared")
		}
		if w.happened("store.PutJoins") > w.happened("node.StartContainer") {
			t.Error("a container starts before that is recorded")
		}
		if w.last("etcd.ProveWrite") > w.happened("node.KeepRunning") || w.last("node.KeepRunning") > w.happened("store.UpdateIncarnation") {
			t.Error("formed is recorded before every member took a write and is kept running")
		}
	})
}

// No container ever exists with which etcd could start a founder that has no log.
func TestBootstrap_MakesFoundersTheirFirstLog(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		if w.last("node.PutFounder") > w.happened("store.PutJoins") {
			t.Error("the start is recorded before every founder has its log")
		}
		for _, n := range w.Nodes() {
			containers, _ := n.Look()
			n.RemoveData()
			n.StartByHand()
			again, _ := n.Look()
			if len(containers) != 1 || again[0].Running() {
				t.Errorf("%s starts without its data: %+v", n.Name(), again)
			}
		}
	})
}

func TestBootstrap_RefusesASecondLife(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.mustRun(w.bootstrap(false))
		before := w.Store().Identity()
		for _, resume := range []bool{false, true} {
			if _, err := w.run(w.bootstrap(resume)); !errors.Is(err, cke.ErrConflict) {
				t.Errorf("resume %v: %v", resume, err)
			}
		}
		if after := w.Store().Identity(); after.Incarnation.ID != before.Incarnation.ID || len(w.Violations()) > 0 {
			t.Errorf("%+v %v", after.Incarnation, w.Violations())
		}
	})
}

func TestBootstrap_ResumesWithTheSameIdentity(t *testing.T) {
	for _, step := range []string{"start", "serve", "keep-running", "record-formed"} {
		inWorld(t, 3, func(w *world) {
			w.runUntil(w.bootstrap(false), step)
			before := w.Store().Identity().Incarnation
			w.mustRun(w.bootstrap(true))
			after := w.Store().Identity().Incarnation
			if before.ID != after.ID || before.Token != after.Token || after.State != cke.Formed || len(w.Violations()) > 0 {
				t.Errorf("cut at %s: %+v then %+v, %v", step, before, after, w.Violations())
			}
		})
	}
}

// What another daemon asked of a node before the start was recorded may still land. Nothing that it made is ever started.
func TestBootstrap_IsNotResumedBeforeItsStart(t *testing.T) {
	for _, step := range []string{"prepare", "record-start"} {
		inWorld(t, 3, func(w *world) {
			w.runUntil(w.bootstrap(false), step)
			if _, err := w.run(w.bootstrap(true)); !errors.Is(err, cke.ErrConflict) {
				t.Errorf("cut at %s: %v", step, err)
			}
			if id := w.Store().Identity(); id.Started() || id.Incarnation.State != cke.Forming {
				t.Errorf("cut at %s: %+v", step, id)
			}
		})
	}
}

// Once the start is recorded nothing is made and nothing uploaded for it any more.
func TestBootstrap_PreparesNothingAfterItsStart(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.runUntil(w.bootstrap(false), "start")
		before := w.calls("node.PutFiles") + w.calls("node.EnsureContainer")
		w.mustRun(w.bootstrap(true))
		if after := w.calls("node.PutFiles") + w.calls("node.EnsureContainer"); before == 0 || after != before {
			t.Errorf("%d, then %d", before, after)
		}
	})
}

// A founder that ran and lost its log would take part under the same id without what it agreed to, and nobody would
// notice. Source: etcd, measured with two wiped members of three.
func TestBootstrap_RefusesToStartAFounderThatForgot(t *testing.T) {
	for name, lose := range map[string]func(w *world){
		"replaced by a blank machine": func(w *world) { w.Node("n2").Blank() },
		"volume and container gone":   func(w *world) { w.Node("n2").RemoveVolumes() },
		"container gone": func(w *world) {
			w.Node("n2").Remove(w.joins()[1].Volume)
			w.Node("n2").AddVolume(labelled(w.joins()[1]))
		},
		"volume emptied":              func(w *world) { w.Node("n2").EmptyVolumes() },
		"emptied, engine restarts it": func(w *world) { w.Node("n2").EmptyVolumes() },
	} {
		inWorld(t, 3, func(w *world) {
			step := "serve"
			if strings.Contains(name, "engine") {
				step = "record-formed"
			}
			w.runUntil(w.bootstrap(false), step)
			lose(w)
			_, err := w.run(w.bootstrap(true))
			if !errors.Is(err, cke.ErrDataMissing) || cke.CodeOf(err) != cke.CodeDataMissing {
				t.Errorf("%s: %v", name, err)
			}
			if len(w.Violations()) > 0 || w.Store().Identity().Incarnation.State != cke.Forming {
				t.Errorf("%s: %v", name, w.Violations())
			}
			if strings.Contains(w.states(), "n2 restarting") {
				t.Errorf("%s: the engine goes on starting it", name)
			}
		})
	}
}

func labelled(j cke.Join) cke.Volume {
	return cke.Volume{Name: j.Volume, Cluster: "demo", Incarnation: j.Incarnation, Join: j.ID}
}

func TestBootstrap_StartsAFounderThatNeverRan(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.runUntil(w.bootstrap(false), "start")
		if got := w.states(); got != "n1 created, n2 created, n3 created" {
			t.Fatal(got)
		}
		w.mustRun(w.bootstrap(true))
	})
}

func TestBootstrap_FailsWithTheLastWordsOfAnEtcdThatEnded(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.Node("n2").TakePort(cke.DefaultPeerPort)
		_, err := w.run(w.bootstrap(false))
		if cke.CodeOf(err) != cke.CodePortTaken || !strings.Contains(err.Error(), "address already in use") {
			t.Error(err)
		}
	})
}

func TestBootstrap_RemembersABoundedNumberOfAbandonedLives(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		ledger := w.daemon.Term()
		life := cke.Incarnation{ID: "last", State: cke.Abandoned}
		for i := range 1500 {
			life.Previous = append(life.Previous, fmt.Sprint("life", i))
		}
		if err := ledger.CreateIncarnation(w.daemon.Context(), life); err != nil {
			t.Fatal(err)
		}
		w.mustRun(w.bootstrap(false))
		kept := w.Store().Identity().Incarnation.Previous
		if len(kept) != 1000 || kept[len(kept)-1] != "last" {
			t.Errorf("%d lives, the last one %s", len(kept), kept[len(kept)-1])
		}
	})
}

// taken is a target that has another cluster of the name.
type taken struct {
	cke.Snapshots
	why error
}

func (t taken) NoSecond(context.Context, string, cke.Identity, func(string)) error { return t.why }

// Nothing is on record, and no node is touched, while the target has a cluster of this name that the store does not know.
func TestBootstrap_MakesNoSecondCluster(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		why := &cke.Error{Code: cke.CodeOlderStore, What: "the target has another one"}
		look := func(e op.Env) op.Env { e.Snapshots = taken{why: why}; return e }
		b := w.bootstrap(false)
		b.Spec.Backup.Target = "s3://b/x"
		if _, err := w.runIn(look, b); cke.CodeOf(err) != cke.CodeOlderStore || w.Store().Identity().Incarnation != nil || w.last("node.EnsureVolume") >= 0 {
			t.Errorf("%v", err)
		}
		b.Spec.Backup.Target = "" // nothing is asked
		if _, err := w.runIn(look, b); err != nil {
			t.Error(err)
		}
	})
}
