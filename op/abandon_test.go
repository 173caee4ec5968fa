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

func (w *world) empty() bool {
	for _, n := range w.Nodes() {
		if c, v := n.Look(); len(c)+len(v) > 0 {
			return false
		}
	}
	return true
}

func TestAbandonBootstrap_RecordsThenStopsThenRecordsThenRemoves(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.runUntil(w.bootstrap(false), "serve")
		w.mustRun(op.AbandonBootstrap{Reachable: w.joins(), Founders: 3})
		givenUp, abandoned := w.happened("store.UpdateIncarnation"), w.last("store.UpdateIncarnation")
		if w.happened("node.StopContainer") < givenUp || w.last("node.StopContainer") > abandoned || w.happened("node.RemoveContainer") < abandoned {
			t.Error("not recorded before the stops, and between them and the removal")
		}
		if w.Store().Identity().Incarnation.State != cke.Abandoned || !w.empty() || len(w.Violations()) > 0 {
			t.Errorf("%s %v", w.states(), w.Violations())
		}
	})
}

func TestAbandonBootstrap_RefusesWhereTheSilentCouldHaveAQuorum(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.runUntil(w.bootstrap(false), "serve")
		_, err := w.run(op.AbandonBootstrap{Reachable: w.joins()[:1], Founders: 3})
		if err == nil || !strings.Contains(err.Error(), "2 of 3 members of the bootstrap do not answer and could form a quorum") {
			t.Error(err)
		}
		if w.Store().Identity().Incarnation.State != cke.Forming {
			t.Error("abandoned")
		}
		w.mustRun(op.AbandonBootstrap{Reachable: w.joins()[:2], Founders: 3})
	})
}

func TestAbandonBootstrap_RefusesAFormedCluster(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.mustRun(w.bootstrap(false))
		if _, err := w.run(op.AbandonBootstrap{Reachable: nil, Founders: 1}); !errors.Is(err, cke.ErrConflict) {
			t.Error(err)
		}
		if len(w.Violations()) > 0 {
			t.Error(w.Violations())
		}
	})
}

// A formed cluster's members must not even be stopped, whatever the caller believed.
func TestAbandonBootstrap_StopsNothingOfAFormedCluster(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		if _, err := w.run(op.AbandonBootstrap{Reachable: w.joins(), Founders: 3}); !errors.Is(err, cke.ErrConflict) {
			t.Error(err)
		}
		if got := w.states(); got != "n1 running, n2 running, n3 running" {
			t.Error(got)
		}
	})
}

func TestCleanUp_RemovesWhatAnAbandonedLifeLeft(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.runUntil(w.bootstrap(false), "serve")
		joins := w.joins()
		w.mustRun(op.AbandonBootstrap{Reachable: joins[:2], Founders: 3})
		w.mustRun(op.CleanUp{Left: joins[2:]})
		w.mustRun(op.CleanUp{Left: joins[2:]})
		if !w.empty() || len(w.Violations()) > 0 {
			t.Errorf("%s %v", w.states(), w.Violations())
		}
	})
}

func TestCleanUp_TouchesNothingOfALifeThatWasNotAbandoned(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		if _, err := w.run(op.CleanUp{Left: w.joins()}); !errors.Is(err, cke.ErrConflict) {
			t.Error(err)
		}
		if got := w.states(); got != "n1 running, n2 running, n3 running" || len(w.Violations()) > 0 {
			t.Error(got, w.Violations())
		}
	})
}

// One node that fails does not keep the others from being cleaned.
func TestCleanUp_GoesOnWhereOneNodeFails(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		w.runUntil(w.bootstrap(false), "serve")
		joins := w.joins()
		w.mustRun(op.AbandonBootstrap{Reachable: joins[:3], Founders: 5})
		w.Node("n4").Hang()
		if _, err := w.run(op.CleanUp{Left: joins[3:]}); cke.CodeOf(err) != cke.CodeEngine {
			t.Error(err)
		}
		if got := w.states(); got != "n4 running" {
			t.Error(got)
		}
	})
}

// earlier is the membership of n3 in a life that was abandoned while n3 was silent, after its engine was told to start it; another life
// was formed since.
func (w *world) earlier() cke.Join {
	w.runUntil(w.bootstrap(false), "record-formed")
	joins := w.joins()
	w.Node("n3").PowerOff()
	w.mustRun(op.AbandonBootstrap{Reachable: joins[:2], Founders: 3})
	c := w.cluster()
	c.Nodes = c.Nodes[:2]
	w.Store().SetSpec(c)
	w.mustRun(op.Bootstrap{Spec: c, Founders: c.ControlPlane()})
	w.Node("n3").PowerOn()
	time.Sleep(time.Minute)
	j := joins[2]
	return cke.Join{ID: j.ID, Incarnation: j.Incarnation, Node: j.Node, Volume: j.Volume, Etcd: j.Etcd} // as it is known from its labels
}

func TestCleanUp_AsksAFounderOfAnEarlierLife(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		j := w.earlier()
		for name, claims := range map[string]func(*cke.EndpointStatus){
			"it holds more":              func(e *cke.EndpointStatus) { e.Revision = 2 },
			"it does not answer":         func(e *cke.EndpointStatus) { e.Problem = "context deadline exceeded" },
			"the present cluster's":      func(e *cke.EndpointStatus) { e.ClusterID = w.Store().Identity().Incarnation.ClusterID },
			"it does not say who it is":  func(e *cke.EndpointStatus) { e.MemberID = "" },
			"its container is restarted": func(*cke.EndpointStatus) { w.Node("n3").Reboot() },
		} {
			_, err := w.runIn(func(e op.Env) op.Env { e.Etcd = claiming{e.Etcd, claims}; return e }, op.CleanUp{Left: []cke.Join{j}})
			if cke.CodeOf(err) != cke.CodeOlderStore {
				t.Errorf("%s: %v", name, err)
			}
			time.Sleep(time.Minute)
		}
		if got := w.states(); got != "n1 running, n2 running, n3 running" {
			t.Fatal(got)
		}
		w.mustRun(op.CleanUp{Left: []cke.Join{j}})
		if got := w.states(); got != "n1 running, n2 running" || len(w.Violations()) > 0 {
			t.Error(got, w.Violations())
		}
	})
}

// claiming is an etcd whose members claim something else about themselves.
type claiming struct {
	cke.Etcd
	claims func(*cke.EndpointStatus)
}

// Endpoint implements cke.Etcd.
func (c claiming) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	e := c.Etcd.Endpoint(ctx, url)
	c.claims(&e)
	return e
}
