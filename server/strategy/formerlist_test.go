package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// former lets the members that a restore under way is to stop report a list, in which strangers are.
func (s *scene) former(source cke.MembersSource, at uint64, names ...string) *scene {
	list := formed(3).stranger(names...).Seen.Etcd.Members
	s.Seen.Etcd.Former = cke.MemberList{Members: list, Source: source, At: at}
	return s
}

// The cluster that a restore under way replaces may have got foreign voters since that is on record, or has lost them. They count for a deletion and for
// another restore.
func TestDecide_CountsTheListOfWhatARestoreReplaces(t *testing.T) {
	foreign := []string{"f1", "f2", "f3", "f4"}
	for name, c := range map[string]struct {
		scene  *scene
		counts bool
	}{
		"none is reported":                  {formed(3).begun(), false},
		"strangers joined":                  {formed(3).begun().former(cke.MembersLinearizable, 9, foreign...), true},
		"no quorum says so":                 {formed(3).begun().former(cke.MembersLocal, 9, foreign...), true},
		"they have left since":              {formed(3).stranger(foreign...).begun().former(cke.MembersLinearizable, 9), false},
		"one that may be behind lacks them": {formed(3).stranger(foreign...).begun().with(func(s *scene) { s.Identity.Incarnation.Restore.MembersAt = 12 }).former(cke.MembersLocal, 9), true},
		"one that is ahead lacks them":      {formed(3).stranger(foreign...).begun().with(func(s *scene) { s.Identity.Incarnation.Restore.MembersAt = 5 }).former(cke.MembersLocal, 9), false},
		"an earlier cke recorded them, and one that may be behind lacks them": {formed(3).stranger(foreign...).begun().former(cke.MembersLocal, 9), true},
		"an earlier cke recorded them, and the list of one that is behind was stored": {formed(3).stranger(foreign...).begun().with(func(s *scene) {
			s.Before = s.former(cke.MembersLocal, 9).report()
			s.Seen.Etcd = cke.EtcdStatus{}
		}), true},
		"the stored status is older than the record": {formed(3).with(func(s *scene) { s.Seen.Etcd.MembersAt = 7 }).with(func(s *scene) {
			s.Before = s.report()
			s.stranger(foreign...).begun()
			s.Identity.Incarnation.Restore.MembersAt = 9
			s.Seen.Etcd = cke.EtcdStatus{}
		}), true},
		"they were read before": {formed(3).begun().with(func(s *scene) {
			s.Before = s.former(cke.MembersLinearizable, 9, foreign...).report()
			s.former(cke.MembersUnknown, 0)
			s.Seen.Etcd = cke.EtcdStatus{}
		}), true},
	} {
		order := strategy.Decide(c.scene.Input)
		if refused := refusal(cke.CodeFence, "could still form a quorum")(order); refused != c.counts {
			t.Errorf("%s: another restore: %T %s", name, order.Operation, order.Reason)
		}
		c.scene.Requests, c.scene.Deleting = cke.Requests{}, true
		deletion := strategy.Decide(c.scene.Input)
		if _, deletes := deletion.Operation.(op.DeleteCluster); deletes == c.counts || c.counts && (len(deletion.Blockers) != 4 || deletion.Blockers[0].Code != cke.CodeStranger) {
			t.Errorf("%s: a deletion: %T %s", name, deletion.Operation, deletion.Reason)
		}
	}
}

// While a restore is under way, the status keeps the list of the cluster that it replaces. Once it was canceled, that list is the one that was read last.
func TestReport_KeepsTheListOfWhatARestoreReplaces(t *testing.T) {
	foreign := []string{"f1", "f2", "f3", "f4"}
	was := formed(3).stranger(foreign...)
	before := was.report()
	for name, known := range map[string]cke.Status{"the status has it": before, "only the record has it": {}} {
		s := formed(3).stranger(foreign...)
		s.begunAt(noon.Add(-time.Minute), cke.RestoreOrder{})
		s.Before = known
		told := s.report()
		if told.Etcd.Former.Incarnation != before.Incarnation || len(told.Etcd.Former.Members) != 7 || told.Etcd.Former.Source != cke.MembersRemembered {
			t.Fatalf("%s: %+v", name, told.Etcd.Former)
		}
		s.Before = told
		again := s.report() // by the next look
		back := formed(3).silent(3).lost().restored("n3")
		back.Seen.Etcd, back.Before = cke.EtcdStatus{}, again
		if d := strategy.Decide(back.Input); !refusal(cke.CodeFence, "could still form a quorum")(d) {
			t.Errorf("%s: once it was canceled: %T %s", name, d.Operation, d.Reason)
		}
		if st := back.report(); len(st.Etcd.Members) != 7 || st.Etcd.Former.Members != nil {
			t.Errorf("%s: the status after that: %+v", name, st.Etcd)
		}
	}
}

// A restore that prepares ends when a list is read that it does not know, and that is not the one on record. Once its members may run, it does not.
func TestOutrun_AnotherListOfWhatARestoreReplaces(t *testing.T) {
	joined := formed(3).begun().former(cke.MembersLinearizable, 9, "f1", "f2", "f3", "f4")
	known := op.Restore{Known: []cke.MemberList{{Members: joined.Seen.Etcd.Former.Members}}}
	recorded := formed(3).begun().with(func(s *scene) {
		s.Identity.Incarnation.Restore.Members = s.former(cke.MembersLinearizable, 9).Seen.Etcd.Former.Members
	})
	for name, c := range map[string]struct {
		scene   *scene
		running op.Operation
		ends    bool
	}{
		"strangers joined":         {joined, op.Restore{}, true},
		"they were known":          {joined, known, false},
		"it is the one on record":  {recorded, op.Restore{}, false},
		"none is reported":         {formed(3).begun(), op.Restore{}, false},
		"members may run":          {joined, op.Restore{Started: true}, false},
		"it is another operation":  {joined, op.NoteReturned{}, false},
		"nothing is restored here": {formed(3).former(cke.MembersLinearizable, 9, "f1"), op.Restore{}, false},
	} {
		if ends := strategy.Outrun(c.running, &c.scene.Input) != nil; ends != c.ends {
			t.Errorf("%s: it ends %v", name, ends)
		}
	}
}
