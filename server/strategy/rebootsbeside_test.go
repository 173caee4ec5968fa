package strategy_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// No operator's lease is given while a node with a member reboots, also when that has no lease any more.
func TestReboots_NoOtherNodeIsDrained(t *testing.T) {
	for _, state := range []cke.EntryState{cke.EntryRebooting, cke.EntryReturning} {
		s := rebootable(3, 3).queued(2)
		s.entry(2).To(state, noon.Add(-time.Minute))
		s.knowing(2, func(k *cke.EntrySeen) { k.Running = true })
		d := strategy.Decide(s.asked(cke.TaskDrain, "n3", "").Input)
		if o, refused := d.Operation.(op.Refuse); !refused || !strings.Contains(o.Why.Error(), "n2 is "+string(state)) {
			t.Errorf("%s: %T %s", state, d.Operation, d.Reason)
		}
	}
}

// While a node without a member reboots it gets none, and while one with a member does its member is not started.
func TestReboots_NothingIsStartedOnTheNode(t *testing.T) {
	s := rebootable(3, 4).in(4, cke.EntryRebooting, time.Minute).commandEnded(4, time.Second, "")
	s.Spec.Nodes[3].ControlPlane, s.Seen.Nodes[3].Node.ControlPlane = true, true
	s.Seen.Nodes[3].ClientPort, s.Seen.Nodes[3].PeerPort = cke.PortClosed, cke.PortClosed
	if d := strategy.Decide(s.Input); d.Operation != nil {
		t.Errorf("%s: %s", d.Operation.Name(), d.Reason)
	}
	s.Requests.Reboots = cke.Queue{}
	if d := strategy.Decide(s.Input); d.Operation == nil || d.Operation.Name() != "add-member" {
		t.Errorf("%T %s", d.Operation, d.Reason)
	}
}

// The queue keeps a cluster as declared, and is no step of a plan.
func TestReboots_AreNoChangeOfTheCluster(t *testing.T) {
	s := rebootable(3, 3).queued(2)
	if d := strategy.DecideChange(s.Input); d.Operation != nil || !d.Converged {
		t.Errorf("%T %s", d.Operation, d.Reason)
	}
	s.Requests.Reboots.Disabled = true
	if st := s.report(); st.Health != cke.HealthReady || st.ObservedGeneration != st.Generation {
		t.Errorf("%s %s", st.Health, st.Reason)
	}
}

// What is put on record about a reboot hides nothing that is wrong.
func TestReboots_HideNoTrouble(t *testing.T) {
	s := rebootable(3, 4).in(4, cke.EntryRebooting, time.Minute).commandEnded(4, time.Second, "").showing(4, "2")
	if st := s.report(); done(strategy.Decide(s.Input)) != "note n4 returning, released" || st.Health != cke.HealthReady {
		t.Errorf("%s %s", st.Health, st.Reason)
	}
	if st := s.denied().report(); done(strategy.Decide(s.Input)) != "note n4 returning, released" || st.Health == cke.HealthReady {
		t.Errorf("%s %s", st.Health, st.Reason)
	}
	if st := s.held().report(); st.Health == cke.HealthReady {
		t.Errorf("paused: %s %s", st.Health, st.Reason)
	}
}
