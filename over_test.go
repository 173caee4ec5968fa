package cke_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
)

// What a person has lifted does not freeze the cluster again when less of it is seen.
func TestFreeze_ToleratesLessOfAnOlderStore(t *testing.T) {
	f := &cke.Freeze{Accepted: []string{"older-store a b c", "corrupt m1"}}
	for finding, want := range map[string]bool{"older-store a b c": true, "older-store a": true, "older-store a d": false, "corrupt m1": true, "corrupt": false} {
		if f.Tolerates(finding) != want {
			t.Errorf("%s: %v", finding, !want)
		}
	}
}

// What a restore replaces comes back when that is called off, and is over once its members may have been started.
func TestIdentity_WhatIsOverDoesNotComeBack(t *testing.T) {
	now := time.Now()
	c := cke.Cluster{Name: "demo", Nodes: []cke.Node{{Address: "10.0.0.1", Hostname: "n1", ControlPlane: true}}}.WithDefaults()
	first := cke.NewIncarnation(c, nil, now)
	first.State = cke.Formed
	id := cke.NewIdentity(&first, first.Founders)
	begin := func(was cke.Identity) cke.Identity {
		t.Helper()
		now = now.Add(time.Minute)
		next, err := was.Restoring(cke.NewRestoration(c, was, cke.Restoration{ID: now.String()}, now))
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	is := func(what string, id cke.Identity, want ...string) {
		t.Helper()
		if got := id.Over(); !slices.Equal(got, want) {
			t.Errorf("%s: over are %v, want %v", what, got, want)
		}
	}
	is("formed", id)
	second := begin(id)
	is("a restore is prepared", second)
	third := begin(second)
	is("another one takes its place", third)
	back, err := third.RestoreCancelled(*third.Incarnation)
	if err != nil {
		t.Fatal(err)
	}
	is("that is called off", back, third.Incarnation.ID)
	gaveUp := first
	gaveUp.State = cke.Abandoned
	early := begin(begin(cke.NewIdentity(&gaveUp, nil)))
	if early, err = early.RestoreCancelled(*early.Incarnation); err != nil {
		t.Fatal(err)
	}
	if got := early.Over(); slices.Contains(got, first.ID) {
		t.Errorf("a bootstrap that was given up comes back when the restore is called off, and is over: %v", got)
	}
	third.Joins[0].StartedAt = now
	is("its members may have been started", third, third.Incarnation.ID+"+", first.ID, second.Incarnation.ID)
	if got := third.IsOver([]cke.NodeStatus{{Over: []string{first.ID}}}); got != nil {
		t.Errorf("the present one is over: %v", got)
	}
	if got := id.IsOver([]cke.NodeStatus{{}, {Over: []string{"x", first.ID}}, {Over: []string{first.ID}, Problem: &cke.Problem{}}}); len(got) != 1 {
		t.Errorf("is over on %v", got)
	}
}

// A mark names what is over in the order in which it ended, as far as that is on record: a bootstrap that was given up came before what a
// restore replaced. What is declared from a copy of the store from before that restore is not restored beside the cluster.
func TestIdentity_ABootstrapThatWasGivenUpExcusesNoMark(t *testing.T) {
	now := time.Now()
	c := cke.Cluster{Name: "demo", Nodes: []cke.Node{{Address: "10.0.0.1", Hostname: "n1", ControlPlane: true}}}.WithDefaults()
	gaveUp := cke.NewIncarnation(c, nil, now)
	gaveUp.State = cke.Abandoned
	one := cke.NewIncarnation(c, &gaveUp, now)
	one.State = cke.Formed
	id := cke.NewIdentity(&one, one.Founders)
	two, err := id.Restoring(cke.NewRestoration(c, id, cke.Restoration{ID: "t1"}, now))
	if err != nil {
		t.Fatal(err)
	}
	two.Joins[0].StartedAt = now
	over := two.Over()
	if !slices.Equal(over, []string{gaveUp.ID, two.Incarnation.ID + "+", one.ID}) {
		t.Errorf("over are %v", over)
	}
	declared := id.Awaiting(now)
	for _, marks := range [][]string{over, {one.ID, gaveUp.ID}} { // an earlier cke had the latter order
		if got := declared.MarkedLater([]cke.NodeStatus{{Over: marks}}); len(got) != 1 {
			t.Errorf("marked %v: later on %v", marks, got)
		}
	}
	if got := declared.MarkedLater([]cke.NodeStatus{{Over: declared.Over()}}); got != nil {
		t.Errorf("marked %v by itself: later on %v", declared.Over(), got)
	}
}

// The incarnation from which a cluster is declared to be restored may serve until restored members are started: no mark names it.
func TestIdentity_WhatIsDeclaredToBeRestoredIsNotOver(t *testing.T) {
	now := time.Now()
	c := cke.Cluster{Name: "demo", Nodes: []cke.Node{{Address: "10.0.0.1", Hostname: "n1", ControlPlane: true}}}.WithDefaults()
	second := cke.NewIncarnation(c, nil, now)
	second.State, second.Replaced = cke.Formed, []string{"first"}
	second.Founders[0].StartedAt = now
	formed := cke.NewIdentity(&second, second.Founders)
	awaits := formed.Awaiting(now)
	if got := awaits.Over(); !slices.Equal(got, []string{"first"}) {
		t.Errorf("over are %v", got)
	}
	third, err := awaits.Restoring(cke.NewRestoration(c, awaits, cke.Restoration{ID: "t1"}, now))
	if err != nil {
		t.Fatal(err)
	}
	if got := third.Over(); slices.Contains(got, second.ID) {
		t.Errorf("a restore is prepared: over are %v", got)
	}
	third.Joins[0].StartedAt = now
	if got := third.Over(); !slices.Contains(got, second.ID) {
		t.Errorf("restored members may have been started: over are %v", got)
	}
	prepared, err := formed.Restoring(cke.NewRestoration(c, formed, cke.Restoration{ID: "t2"}, now))
	if err != nil {
		t.Fatal(err)
	}
	if got := prepared.Awaiting(now).Over(); !slices.Equal(got, []string{"first"}) {
		t.Errorf("it is declared from a record of a restore of which no member was started: over are %v", got)
	}
}

// Two restores that begin at one moment, by a clock that was set back or is coarse: only what the second one ended comes back when that is
// called off.
func TestIdentity_ARestoreThatIsCalledOffBringsBackWhatItEnded(t *testing.T) {
	now := time.Now()
	c := cke.Cluster{Name: "demo", Nodes: []cke.Node{{Address: "10.0.0.1", Hostname: "n1", ControlPlane: true}}}.WithDefaults()
	first := cke.NewIncarnation(c, nil, now)
	first.State = cke.Formed
	id := cke.NewIdentity(&first, first.Founders)
	for _, name := range []string{"second", "third"} {
		next, err := id.Restoring(cke.NewRestoration(c, id, cke.Restoration{ID: name}, now))
		if err != nil {
			t.Fatal(err)
		}
		id = next
	}
	for range 2 {
		back, err := id.RestoreCancelled(*id.Incarnation)
		if err != nil {
			t.Fatal(err)
		}
		if id = back; len(id.Joins) != 1 || !id.Incarnation.Life(id.Joins[0].Incarnation) {
			t.Errorf("%s has the members %+v", id.Incarnation.ID, id.Joins)
		}
	}
	if !id.Incarnation.Life(first.ID) {
		t.Errorf("it is %s, and was %s", id.Incarnation.ID, first.ID)
	}
}

// A mark that a start made which was withdrawn later, or that lands after that, says nothing of the incarnation that continues. It is over once
// another restore was started, or it was deleted, also by a mark that is made beside the first one, and for a store from before the first one.
func TestIncarnation_AWithdrawnStartMakesNothingOver(t *testing.T) {
	b := &cke.Incarnation{ID: "b", State: cke.Formed, Previous: []string{"x"}, Replaced: []string{"a"}}
	before := &cke.Incarnation{ID: "b", State: cke.Formed, Replaced: []string{"a"}}
	for marks, over := range map[string]bool{
		"b+ a": false, "x+ b": false, "b+ a x+ b x": false, "b+ a x+ b x y+": true, "y+ b": true, "y+ b x+": true, "b": true, "": false, "x": false,
		"x+ b x " + b.DeletedMark()[0]: true,
	} {
		if got := b.OverBy(strings.Fields(marks), "b"); got != over {
			t.Errorf("marks %q: over %v", marks, got)
		}
		if got := before.OverBy(strings.Fields(marks), "b"); got != slices.Contains(strings.Fields(marks), "b") {
			t.Errorf("marks %q, a store from before: over %v", marks, got)
		}
	}
}
