package cke

import "testing"

// What a restore has on record of member lists is kept by a write that does not have it, and by one that has an older list.
func TestIncarnation_KeepsTheListsOfARestore(t *testing.T) {
	list := func(cluster, id string, at uint64) MemberList {
		return MemberList{ClusterID: cluster, Members: []Member{{ID: id}}, At: at}
	}
	with := func(lists ...MemberList) Incarnation { return Incarnation{Restore: &Restoration{Outside: lists}} }
	now := with(list("a", "new", 5), list("b", "b", 1)).With(with(list("a", "old", 4), list("c", "c", 1))).With(with(list("b", "later", 2))).Restore
	for of, id := range map[string]string{"a": "new", "b": "later", "c": "c"} {
		if got := OfCluster(now.Outside, of).Members; len(now.Outside) != 3 || len(got) != 1 || got[0].ID != id {
			t.Errorf("%s: %+v", of, now.Outside)
		}
	}
}
