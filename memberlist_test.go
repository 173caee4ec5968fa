package cke_test

import (
	"testing"

	"cke"
)

// A list that a quorum read counts alone. Of two others the one with the larger index is the likelier one, and one with a smaller index may be newer if
// its member has just started.
func TestNewestLists_KeepsWhatMayBeTheNewest(t *testing.T) {
	list := func(name string, source cke.MembersSource, at uint64) cke.MemberList {
		return cke.MemberList{Members: []cke.Member{{Name: name}}, Source: source, At: at}
	}
	for name, c := range map[string]struct {
		seen, remembered cke.MemberList
		want             string
	}{
		"nothing is known":           {want: "-"},
		"none is seen":               {remembered: list("old", cke.MembersRemembered, 3), want: "old"},
		"none is remembered":         {seen: list("new", cke.MembersLocal, 3), want: "new"},
		"a quorum read it":           {list("new", cke.MembersLinearizable, 3), list("old", cke.MembersRemembered, 7), "new"},
		"its member is level":        {list("new", cke.MembersLocal, 7), list("old", cke.MembersRemembered, 7), "new"},
		"its member may be behind":   {list("new", cke.MembersLocal, 6), list("old", cke.MembersRemembered, 7), "old new"},
		"an earlier cke recorded it": {list("new", cke.MembersLocal, 6), list("old", cke.MembersRemembered, 0), "new"},
	} {
		got := ""
		for i, l := range cke.NewestLists(c.seen, c.remembered) {
			if i > 0 {
				got += " "
			}
			if l.Members == nil {
				got += "-"
			} else {
				got += l.Members[0].Name
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// The status of a restore under way has the list of the cluster that it replaces, too, for when it is canceled.
func TestListOf_KnowsTheClusterThatARestoreReplaces(t *testing.T) {
	before, next := &cke.Incarnation{ID: "before", State: cke.Formed}, &cke.Incarnation{ID: "next", State: cke.Restoring}
	next.Restore = &cke.Restoration{Before: before}
	s := cke.Status{Incarnation: "next", Etcd: cke.EtcdStatus{Members: []cke.Member{{Name: "restored"}}, MembersAt: 2,
		Former: cke.MemberList{Incarnation: "before", Members: []cke.Member{{Name: "former"}}, Source: cke.MembersLinearizable, At: 9}}}
	for inc, want := range map[*cke.Incarnation]struct {
		name string
		at   uint64
	}{next: {"restored", 2}, before: {"former", 9}} {
		if l := s.ListOf(inc); len(l.Members) != 1 || l.Members[0].Name != want.name || l.At != want.at || l.Source != cke.MembersRemembered {
			t.Errorf("%s: %+v", inc.ID, l)
		}
	}
	if l := s.LastList(next); len(l) != 1 || l[0].Name != "former" {
		t.Errorf("what serves while the restore is prepared: %+v", l)
	}
	for _, inc := range []*cke.Incarnation{nil, {}, {ID: "another"}} {
		if l := s.ListOf(inc); l.Members != nil {
			t.Errorf("%+v: %+v", inc, l)
		}
	}
}
