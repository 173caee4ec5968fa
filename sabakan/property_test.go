package sabakan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cke"
	"cke/sabakan"
)

// anyWorld draws a cluster and an inventory, and then spoils both.
func anyWorld(t *rapid.T) *world {
	hosts := rapid.IntRange(0, 14).Draw(t, "hosts")
	members := rapid.IntRange(0, min(5, hosts)).Draw(t, "members")
	w := blank(hosts)
	if members > 0 {
		w = formed(members, hosts)
	}
	flip := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) == 0 }
	rarely := func(name string) bool { return rapid.IntRange(0, 15).Draw(t, name) == 0 }
	if members > 0 && members < hosts && flip("a spare") {
		w.declare(members+1, false)
	}
	w.Template.Inventory.Spares = rapid.IntRange(0, 3).Draw(t, "spares")
	if flip("another number") {
		w.Template.Inventory.ControlPlane = rapid.IntRange(1, 7).Draw(t, "wanted")
	}
	states := append(cke.HostStates(), "missing")
	for i := 1; i <= hosts; i++ {
		if !flip("host") {
			continue
		}
		s := rapid.SampledFrom(states).Draw(t, "state")
		d := time.Duration(rapid.IntRange(0, 300).Draw(t, "minutes")) * time.Minute
		switch both := !flip("in this read only"); {
		case s == "missing" && both:
			w.gone(i, d)
		case s == "missing":
			w.lacks(i)
			continue
		case both:
			w.lasts(i, s, d)
		default:
			w.now(i, s, d)
		}
		if flip("asked for") {
			w.Unregistered = append(w.Unregistered, fmt.Sprintf("s%d", i))
		}
		if s != "missing" && rarely("moved") {
			w.addressed(i, fmt.Sprintf("10.0.9.%d", rapid.IntRange(1, 3).Draw(t, "address")))
		}
		if s == "missing" && flip("a successor") {
			w.successor(i)
		}
	}
	for i := 1; i <= members; i++ {
		if flip("silent") && w.Status.Tolerance > 0 {
			w.silent(i, time.Duration(rapid.IntRange(0, 300).Draw(t, "silent for"))*time.Minute)
		}
	}
	for i := range w.Read.Hosts {
		h := &w.Read.Hosts[i]
		switch {
		case rarely("role"):
			h.Role = "ss"
		case rarely("rack"):
			h.Rack = rapid.IntRange(1, 5).Draw(t, "rack")
		case rarely("unchecked"):
			delete(w.Checks, h.ID)
		case rarely("label"):
			h.Labels = map[string]string{"disk": "nvme"}
		}
	}
	if rarely("changed") {
		w.changed(rapid.IntRange(0, 5).Draw(t, "node"), time.Duration(rapid.IntRange(0, 1500).Draw(t, "ago"))*time.Minute)
	}
	switch rapid.IntRange(0, 20).Draw(t, "trouble") {
	case 0:
		w.Problem = "no answer"
	case 1:
		w.Status.Health = cke.HealthFrozen
	case 2:
		w.Status.ObservedAt = noon.Add(-time.Hour)
	case 3:
		w.Status.Tolerance = -1
	case 4:
		w.Status.ObservedGeneration--
	case 5:
		w.Now = noon.Add(time.Duration(rapid.IntRange(-60, 60).Draw(t, "clock")) * time.Minute)
	}
	w.Override = rarely("override")
	return w
}

// Whatever an inventory says, one member is moved at most, never beside a stop, and never because of a single read.
func TestChoose_MovesOneMemberAtMostAndNeverBesideAStop(t *testing.T) {
	named := outcomes(t)
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld(t)
		before := written(t, []any{w.Read, w.Spec, w.Status, w.Past, w.Template, w.Checks})
		c := sabakan.Choose(w.Input)
		if again := sabakan.Choose(w.Input); written(t, again) != written(t, c) {
			t.Fatalf("the same input gave two choices:\n%s\n%s", written(t, c), written(t, again))
		}
		if after := written(t, []any{w.Read, w.Spec, w.Status, w.Past, w.Template, w.Checks}); after != before {
			t.Fatal("the input was changed")
		}
		switch {
		case c.Reason == "":
			t.Fatal("no reason")
		case !slices.Contains(named, c.Outcome()):
			t.Fatalf("the outcome has no name that is documented: %q, %s", c.Outcome(), c.Reason)
		case (c.Outcome() == sabakan.OutcomeNone) != (c.Reason == "the cluster has the machines that the template asks for"):
			t.Fatalf("%s: %s", c.Outcome(), c.Reason)
		case c.Change == nil:
			return
		case c.Stop != "":
			t.Fatalf("a change beside the stop %s", c.Stop)
		}
		if w.Override = false; c.Change.Auto && sabakan.Choose(w.Input).Change == nil {
			t.Fatal("what overrides a stop is not confirmed")
		}
		checkChange(t, w, c)
	})
}

func checkChange(t *rapid.T, w *world, c sabakan.Choice) {
	was, is := w.Spec.Cluster, c.Change.Cluster
	if _, err := clusterfileCheck(is); err != nil {
		t.Fatalf("not a cluster file: %v", err)
	}
	left, came := difference(was.ControlPlane(), is.ControlPlane()), difference(is.ControlPlane(), was.ControlPlane())
	switch bootstrap := c.Change.Cause == cke.CauseBootstrap; {
	case bootstrap != (w.Spec.Generation == 0):
		t.Fatalf("%s with %d nodes", c.Change.Cause, len(was.Nodes))
	case bootstrap && c.Change.Auto, len(is.ControlPlane()) < len(was.ControlPlane()) && c.Change.Auto:
		t.Fatalf("%s is not confirmed", c.Change.Cause)
	case !bootstrap && (len(left) > 1 || len(came) > 1):
		t.Fatalf("%s: members leave %v, and come %v", c.Change.Cause, left, came)
	}
	for _, serial := range left {
		i := slices.IndexFunc(w.Read.Hosts, func(h cke.Host) bool { return h.ID == serial })
		state := cke.HostState("missing")
		if i >= 0 {
			state = w.Read.Hosts[i].State
		}
		if c.Change.Cause == cke.CauseFewer {
			continue
		}
		if state == cke.HostHealthy || state == cke.HostUnknown {
			t.Fatalf("%s leaves and is %s", serial, state)
		}
		if w.Past.Hosts[serial].State != state {
			t.Fatalf("%s leaves because of one read", serial)
		}
	}
	for _, serial := range came {
		h := w.Read.Hosts[slices.IndexFunc(w.Read.Hosts, func(h cke.Host) bool { return h.ID == serial })]
		if h.State != cke.HostHealthy || h.For < 10*time.Minute || h.Role != "cs" {
			t.Fatalf("a member comes to %+v", h)
		}
		_, checked := w.Checks[serial]
		if _, spare := was.Node(serial); !checked && !spare {
			t.Fatalf("%s was not checked", serial)
		}
	}
}

// difference returns the names in a that b lacks; a machine that moved keeps its name.
func difference(a, b []cke.Node) (names []string) {
	for _, n := range a {
		if !slices.ContainsFunc(b, func(o cke.Node) bool { return o.Name() == n.Name() }) {
			names = append(names, n.Name())
		}
	}
	return names
}
