package op_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
)

// During an import the old members on record prove that the only member of cke was removed. Other foreign members do not.
func TestUnproved_OldMembersVotedToo(t *testing.T) {
	join := cke.Join{ID: "a", MemberID: "aa", StartedAt: time.Unix(1, 0), Node: cke.Node{Hostname: "n1", Address: "10.0.0.1"}}
	list := []cke.Member{{ID: "b1", Name: "old1"}, {ID: "b2", Name: "old2"}, {ID: "b3", Name: "old3"}}
	old := &cke.Import{Members: []cke.OldMember{{ID: "b1"}, {ID: "b2"}, {ID: "b3"}}}
	learning := append([]cke.Member{}, list...)
	learning[0].Learner, learning[1].Learner, learning[2].Learner = true, true, true
	for name, row := range map[string]struct {
		list   []cke.Member
		old    *cke.Import
		proved bool
	}{
		"three old members are listed": {list, old, true},
		"one old member of one":        {list[:1], &cke.Import{Members: old.Members[:1]}, false},
		"they do not vote":             {learning, old, false},
		"they are foreign members":     {list, nil, false},
	} {
		id := cke.Identity{Incarnation: &cke.Incarnation{Import: row.old}, Joins: []cke.Join{join}}
		if proved := op.Unproved(row.list, id, nil) == nil; proved != row.proved {
			t.Errorf("%s: proved is %v", name, proved)
		}
	}
}
