package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
)

// An operator who named the wrong side continues from a member that was put aside, while the others serve, on the way that the refusal
// of the recovery names.
func TestApart_TheSideThatWasNamedByMistakeIsRecovered(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		s.Node("n1").ContinueAlone()
		s.must("frozen", func() bool { return s.freeze().Active() })
		if !s.Write("n1", "right") {
			t.Fatal("n1 takes no write")
		}
		s.Choose(false) // a mistake
		lift := cke.NewTask(cke.TaskUnfreeze, "", s.freeze().ID, "eve@host", s.Now())
		lift.Reason, lift.Wrong = "a mistake", []string{"n1"}
		s.Store().Ask("unfreeze", func(r *cke.Requests) { r.Tasks = append(r.Tasks, lift) })
		s.must("put aside", func() bool { return !s.freeze().Active() && s.runningOn("n1") == 0 && s.Write("n2", "wrong") })
		s.Choose(true)
		fromN1 := cke.RestoreOrder{Survivor: "n1", Named: true}
		s.order(fromN1)
		s.must("refused", s.answered)
		records := s.Store().Records()
		refused := records[len(records)-1]
		if refused.Refusal == nil || !strings.Contains(refused.Refusal.Text(), "ckecli pause --reason TEXT") {
			t.Fatalf("no way is named: %+v", refused)
		}
		s.Store().Ask("pause", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "n1 has the right data"} })
		for _, n := range []string{"n2", "n3"} {
			s.Node(n).SwitchRestartsOff()
			s.Node(n).StopByHand()
		}
		s.pass(time.Minute)
		s.order(fromN1)
		s.pass(time.Minute)
		s.Store().Ask("resume", func(r *cke.Requests) { r.Hold = nil })
		s.must("recovered", func() bool { return s.restored() && s.arrived() })
		if v := s.Violations(); v != nil {
			t.Error(strings.Join(v, "\n"))
		}
		if f := s.freeze(); f.Active() {
			t.Errorf("%+v", f)
		}
	})
}

// recoverChosen continues from a member that was not put aside, as the status says where too few of them are left for a quorum.
func (n *nemesis) recoverChosen() {
	id := n.s.Store().Identity()
	told := slices.ContainsFunc(n.s.told().Problems, func(p cke.Problem) bool {
		return p.Code == cke.CodeNoQuorum && strings.HasPrefix(p.Remedy, "too few members were not put aside")
	})
	if !told || id.Freeze.Active() || n.s.asks(cke.TaskRestore) {
		return
	}
	for _, j := range id.Joins {
		if !j.Apart && n.s.MachineOf(j).Holds(j.Volume) {
			n.s.order(cke.RestoreOrder{Survivor: j.Node.Name()})
			return
		}
	}
}
