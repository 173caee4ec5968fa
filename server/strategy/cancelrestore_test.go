package strategy_test

import (
	"strings"
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// calledOff is a restore of a cluster that was declared to be restored, with all members before stopped. It is canceled.
func calledOff() *scene {
	s := formed(3).stopped(1, 2, 3)
	s.Identity = s.Identity.Awaiting(noon)
	s.begun()
	s.Requests.Tasks = []cke.Task{{ID: "t2", Kind: cke.TaskCancelRestore, By: "ann@boot-1", At: noon}}
	return s
}

// A cancellation starts the members again that the restore stopped, of the incarnation that continues and of none that is over.
func TestCancelRestore_StartsAgainWhatContinues(t *testing.T) {
	over := func(s *scene) { s.node(3).Over = []string{formed(3).Identity.Incarnation.ID} }
	removed := func(s *scene) {
		for i := range s.Seen.Nodes {
			s.Seen.Nodes[i].Containers = nil
		}
	}
	runs := func(i int) func(*scene) {
		return func(s *scene) { s.node(i).Containers[0].State = cke.ContainerRunning }
	}
	for name, c := range map[string]struct {
		change []func(*scene)
		starts int
		says   string // by the refusal or the reason
	}{
		"all were stopped":         {nil, 3, "continues as it was"},
		"all were removed":         {[]func(*scene){removed}, 3, "continues as it was"},
		"one runs":                 {[]func(*scene){runs(2)}, 3, "continues as it was"},
		"none was stopped":         {[]func(*scene){runs(1), runs(2), runs(3)}, 0, "continues as it was"},
		"they are over":            {[]func(*scene){over, removed}, 0, "continues as it was"},
		"they may be over":         {[]func(*scene){over}, -1, "a mark on a node names its incarnation as over"},
		"another restore is below": {[]func(*scene){replaces}, 0, "the one whose place it took continues"},
		"a later incarnation runs": {[]func(*scene){removed, func(s *scene) {
			s.Identity.Incarnation.Replaced = append(s.Identity.Incarnation.Replaced, "later")
			s.node(1).Containers = []cke.Container{{Name: "x", Cluster: "demo", Incarnation: "later", Join: "x", State: cke.ContainerRunning, StartedAt: noon}}
		}}, 0, "continues as it was"},
	} {
		t.Run(name, func(t *testing.T) {
			s := calledOff()
			for _, change := range c.change {
				change(s)
			}
			d := strategy.Decide(s.Input)
			starts, says := -1, d.Reason
			switch o := d.Operation.(type) {
			case op.CancelRestore:
				starts = len(o.Revive)
			case op.Refuse:
				says = o.Why.Error()
			}
			if starts != c.starts || !strings.Contains(says, c.says) {
				t.Errorf("%T starts %d: %s", d.Operation, starts, says)
			}
		})
	}
}

// A restore whose cancellation failed does not continue: it is canceled as soon as that is possible.
func TestRestore_DoesNotContinueOnceItIsCanceled(t *testing.T) {
	s := calledOff()
	s.Requests.Tasks, s.Identity.Incarnation.Restore.Canceling = nil, true
	d := strategy.Decide(s.Input)
	if _, cancels := d.Operation.(op.CancelRestore); !cancels {
		t.Errorf("%T: %s", d.Operation, d.Reason)
	}
	d = strategy.Decide(s.silent(2).Input)
	if d.Operation != nil || !strings.Contains(d.Blockers[len(d.Blockers)-1].Remedy, "once that is possible") {
		t.Errorf("%T: %s, %+v", d.Operation, d.Reason, d.Blockers)
	}
}
