package strategy_test

import (
	"strings"
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// left puts a founder of a life before the present one on n2, which its engine starts, and what is answered at its place.
func left(change func(*cke.Container, *cke.Elsewhere)) *scene {
	s := formed(3).unjoined(2)
	n := s.node(2)
	s.Identity.Incarnation.Previous = []string{"past"}
	c := cke.Container{Name: "etcd-cke.old", Cluster: "demo", Incarnation: "past", Join: "old", State: cke.ContainerRunning, StartedAt: noon, Place: "https://10.0.0.2:2379 https://10.0.0.2:2380"}
	e := cke.Elsewhere{Place: c.Place, EndpointStatus: cke.EndpointStatus{Join: "old", URL: "https://10.0.0.2:2379", Serializable: true, ClusterID: "c0", MemberID: "m0", Revision: 1, Errors: []string{"etcdserver: no leader"}}}
	change(&c, &e)
	n.Containers = []cke.Container{c}
	n.Volumes = []cke.Volume{{Name: "etcd-cke.old", Cluster: "demo", Incarnation: "past", Join: "old"}}
	s.Seen.Etcd.Elsewhere = []cke.Elsewhere{e}
	return s
}

// A founder of an abandoned life that its engine starts goes once it answers that nobody wrote; whoever else answers there is no
// proof.
func TestDecide_AsksAFounderOfAnEarlierLifeWhereItStands(t *testing.T) {
	cleaned := op.CleanUp{Left: []cke.Join{{ID: "old", Incarnation: "past", Node: formed(3).node(2).Node, Volume: "etcd-cke.old", Etcd: formed(3).Spec.Options.Etcd}}}
	if d := strategy.Decide(left(func(*cke.Container, *cke.Elsewhere) {}).Input); strategy.FailureKey(orNone(d.Operation)) != strategy.FailureKey(cleaned) {
		t.Errorf("%+v", d)
	}
	if d := strategy.Decide(left(func(c *cke.Container, e *cke.Elsewhere) { // cke stopped it, and that is on record
		c.State, c.KeptDown, e.Problem = cke.ContainerExited, true, "connection refused"
	}).Input); strategy.FailureKey(orNone(d.Operation)) != strategy.FailureKey(cleaned) {
		t.Errorf("stopped: %+v", d)
	}
	for name, change := range map[string]func(*cke.Container, *cke.Elsewhere){
		"it holds more":                        func(_ *cke.Container, e *cke.Elsewhere) { e.Revision = 2 },
		"it does not answer":                   func(_ *cke.Container, e *cke.Elsewhere) { e.Problem = "context deadline exceeded" },
		"a member of the present cluster":      func(_ *cke.Container, e *cke.Elsewhere) { e.ClusterID = "c1" },
		"who answers does not say who it is":   func(_ *cke.Container, e *cke.Elsewhere) { e.ClusterID, e.MemberID = "", "" },
		"at a place where a member is":         func(c *cke.Container, e *cke.Elsewhere) { at(c, e, "10.0.0.1") },
		"another machine's place":              func(c *cke.Container, e *cke.Elsewhere) { at(c, e, "10.0.0.9") },
		"its container is about to restart":    func(c *cke.Container, _ *cke.Elsewhere) { c.State = cke.ContainerRestarting },
		"its container does not tell for what": func(c *cke.Container, e *cke.Elsewhere) { c.Place, e.Place = "", "" },
	} {
		s := left(change)
		if d := strategy.Decide(s.Input); d.Operation != nil && strings.Contains(strategy.FailureKey(d.Operation), "clean-up") {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func at(c *cke.Container, e *cke.Elsewhere, address string) {
	c.Place = "https://" + address + ":2379 https://" + address + ":2380"
	e.Place, e.URL = c.Place, "https://"+address+":2379"
}

func orNone(o op.Operation) op.Operation {
	if o == nil {
		return op.Settled{}
	}
	return o
}
