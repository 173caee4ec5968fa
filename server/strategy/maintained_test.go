package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// What runs on removed files would not start again: it is not drained, and no person is told that its node may go down.
func TestDecide_DrainsNoMemberThatRunsOnRemovedFiles(t *testing.T) {
	for _, n := range [][]int{{2}, {2, 3}} {
		s := formed(3).running().hollow(time.Hour, n...)
		s.Spec.Policies.Replace.Mode = cke.ReplaceManual
		for _, m := range s.report().Members {
			if m.CanStop && m.Name != "n1" && (m.Name == "n2" || len(n) == 2) {
				t.Errorf("of %v: %s may stop", n, m.Name)
			}
		}
		s.Requests.Tasks = []cke.Task{{ID: "t1", Kind: cke.TaskDrain, Node: "n2", For: cke.Duration(time.Hour)}}
		d := strategy.Decide(s.Input)
		if _, drains := d.Operation.(op.DrainNode); drains {
			t.Errorf("of %v: %+v", n, d.Operation)
		}
	}
}

func TestDecide_MakesNoAuthorityByAClockThatIsWrong(t *testing.T) {
	s := formed(3).running().clocks(-200000, -200000, -200000)
	s.Requests.Tasks = []cke.Task{{ID: "t1", Kind: cke.TaskRotate, Subject: "client"}}
	if d := strategy.Decide(s.Input); d.Operation != nil && d.Operation.Name() == (op.RotateAuthority{}).Name() {
		t.Errorf("%+v", d)
	}
}

func TestDecide_DefragmentsNoFullMemberBesideALease(t *testing.T) {
	s := formed(3).running()
	s.Requests.Drains = []cke.Drain{{Node: "n9", Since: noon.Add(-time.Minute), Until: noon.Add(time.Hour)}}
	s.Seen.Etcd.Alarms = []cke.Alarm{{MemberID: "1", Kind: "NOSPACE"}}
	for i := range s.Seen.Etcd.Endpoints {
		s.Seen.Etcd.Endpoints[i].DBSize, s.Seen.Etcd.Endpoints[i].DBSizeInUse = 2<<30, 1<<30
	}
	if d := strategy.Decide(s.Input); d.Operation != nil {
		t.Errorf("%+v", d)
	}
	s.Requests.Drains = nil
	if d := strategy.Decide(s.Input); d.Operation == nil || d.Operation.Name() != (op.Defragment{}).Name() {
		t.Errorf("without one: %+v", d)
	}
}
