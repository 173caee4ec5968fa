package strategy_test

import (
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// renamed lets a node have got another hostname after its member was made.
func (s *scene) renamed(i int, name string) *scene {
	s.Spec.Nodes[i-1].Hostname = name
	s.node(i).Node.Hostname = name
	return s
}

// A lease names the node as it is declared now; the membership remembers what it was called.
func TestLease_HoldsForANodeThatWasRenamed(t *testing.T) {
	d := strategy.Decide(formed(3).renamed(2, "cp2").drained(2).Input)
	if d.Operation != nil || len(d.Blockers) != 1 || d.Blockers[0].Code != cke.CodeDrain {
		t.Errorf("%T %s", d.Operation, d.Reason)
	}
	s := formed(3).renamed(2, "cp2").asked(cke.TaskMoveLeader, "cp2", "")
	if d := strategy.Decide(s.Input); !does("move-leader", false)(d) {
		t.Errorf("%T %s", d.Operation, d.Reason)
	}
}

// The node is renamed in the cluster file while it is down for maintenance: nothing is started on it, and no other voter is taken away.
func TestLease_HoldsForANodeThatIsRenamedMeanwhile(t *testing.T) {
	s := formed(3).drained(2).with(func(s *scene) { s.Requests.Drains[0].Address = s.node(2).Node.Address })
	if d := strategy.Decide(s.renamed(2, "cp2").Input); d.Operation != nil || len(d.Blockers) != 1 || d.Blockers[0].Remedy != "ckecli node undrain n2 when the work is done" {
		t.Errorf("%T %s %+v", d.Operation, d.Reason, d.Blockers)
	}
	s.renamed(1, "n2") // which has another machine now
	if d := strategy.Decide(s.Input); d.Operation != nil || len(d.Blockers) != 1 || d.Blockers[0].Node != "n2" {
		t.Errorf("%T %s %+v", d.Operation, d.Reason, d.Blockers)
	}
}

// A member whose machine gets another address is not started while the machine is down for maintenance.
func TestLease_HoldsForANodeWithANewAddress(t *testing.T) {
	s := formed(3).readdressed(2, sameMachine).stopped(2)
	if _, moves := strategy.Decide(s.Input).Operation.(op.ChangeAddress); !moves {
		t.Fatalf("%T", strategy.Decide(s.Input).Operation)
	}
	if d := strategy.Decide(s.drained(2).Input); d.Operation != nil {
		t.Errorf("%T %s", d.Operation, d.Reason)
	}
}
