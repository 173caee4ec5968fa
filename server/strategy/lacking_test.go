package strategy_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// onlyRecorded lets the membership of the last node be on record, and nothing else of it be anywhere: its addition was cut off.
func (s *scene) onlyRecorded() *scene {
	n := len(s.Identity.Joins)
	s.wiped(n)
	j := &s.Identity.Joins[n-1]
	j.StartedAt, j.MemberID = time.Time{}, ""
	s.Seen.Etcd.Members = slices.Delete(slices.Clone(s.Seen.Etcd.Members), n-1, n)
	return s
}

// A member that serves stays until the one that replaces it votes: a membership on record is no member. One that does not serve is removed.
func TestDecide_AMembershipThatIsOnlyOnRecordReplacesNoMember(t *testing.T) {
	moves := func() *scene { return formed(4).running().undeclared(3).onlyRecorded() } // from n3 to n4
	lost := func() *scene {
		return formed(4).running().onlyRecorded().silent(4).hollow(time.Hour, 2).with(func(s *scene) {
			s.Spec.Policies.Replace = cke.ReplacePolicy{Mode: cke.ReplaceAuto, Grace: cke.Duration(time.Minute)}
		})
	}
	f := formed(3).running()
	check(t, []row{
		{"its node is silent", moves().silent(4), nil, "n3 is no longer a control-plane node, and its member stays until there is one on n4", []string{"CKE201 n4"}},
		{"adding it fails", moves().failed(op.AddMember{Node: spec(4).Nodes[3]}, 3, time.Second), nil, "its member stays until there is one on n4", []string{"CKE207 n1", "CKE305 n4"}},
		{"it votes", formed(4).running().undeclared(3), remove(f, 3), "n3 is no longer a control-plane node", nil},
		{"what does not serve is removed", moves().silent(3, 4), silently(remove(f, 3)), "n3 is no longer a control-plane node", nil},
		{"one that runs on removed files", lost(), nil, "n2 stays until there is a member on n4, or `ckecli replace n2` is requested", []string{"CKE213 n2", "CKE201 n4"}},
	})
	for name, c := range map[string]struct {
		scene *scene
		want  string
	}{
		"the file names another node instead": {moves().silent(4).undeclared(4), "end-membership"},
		"the file names n3 again":             {moves().silent(4).undeclared(4).with(func(s *scene) { s.Spec.Nodes[2].ControlPlane = true }), "end-membership"},
	} {
		if d := strategy.Decide(c.scene.Input); nameOf(d) != c.want {
			t.Errorf("%s: %q %s", name, nameOf(d), d.Reason)
		}
	}
}

// The removal asks once more, right before it: not for nodes that wait for it themselves, nor where an operator requested it.
func TestDecide_TellsARemovalForWhichNodesItWaits(t *testing.T) {
	auto := func(s *scene) {
		s.Spec.Policies.Replace = cke.ReplacePolicy{Mode: cke.ReplaceAuto, Grace: cke.Duration(time.Minute)}
	}
	for name, c := range map[string]struct {
		scene *scene
		want  int
	}{
		"a member on a node that is not declared": {formed(4).running().undeclared(4), 3},
		"one that does not serve":                 {formed(4).running().undeclared(4).silent(4), 3},
		"a foreign member":                        {formed(3).running().joinedBy(true).with(removing), 3},
		"a foreign member on a declared node":     {foreignOn4(), 3},
		"lost data":                               {formed(3).running().hollow(time.Hour, 2).with(auto), 3},
		"lost data beside a foreign member":       {formed(5).running().unjoined(5).joinedBy(true).with(strangerOn(5)).hollow(time.Hour, 2).with(auto), 4},
		"a replacement on request":                {formed(3).running().asked(cke.TaskReplace, "n3", "join3"), 0},
	} {
		r, removes := strategy.Decide(c.scene.Input).Operation.(op.RemoveMember)
		if !removes || len(r.Declared) != c.want {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
