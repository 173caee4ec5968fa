package cke_test

import (
	"slices"
	"testing"

	"cke"
)

// While a restore is under way all are asked that may serve until it has replaced them: memberships, members of an old cluster, and foreign ones
// that a list of any restore under way has. Each is asked where it is on record.
func TestAskedBeside_NamesAllThatMayServe(t *testing.T) {
	was := cke.Join{ID: "b", Node: cke.Node{Hostname: "n2", Address: "10.0.0.2"}, ClientPort: 2379, PeerPort: 2380, MemberID: "b2"}
	before := &cke.Incarnation{ID: "before", State: cke.Formed, ClusterID: "c1", Import: &cke.Import{Members: []cke.OldMember{
		{ID: "o1", Name: "old1", URL: "http://10.0.9.1:2379"}, {ID: "o2", Name: "old2", URL: "http://10.0.9.2:2379"}}}}
	first := &cke.Incarnation{ID: "first", State: cke.Restoring, ClusterID: "c2", Restore: &cke.Restoration{Before: before, Members: []cke.Member{
		{ID: "b2", Name: "n2", ClientURLs: []string{was.ClientURL()}}, {ID: "o1", Name: "old1"},
		{ID: "f1", Name: "hand", ClientURLs: []string{"https://10.0.8.1:2379"}}, {ID: "f2", Name: "hidden"}}}}
	second := &cke.Incarnation{ID: "second", State: cke.Restoring, ClusterID: "c3", Restore: &cke.Restoration{Before: first, Fence: []cke.JoinID{"b"}}}
	id := cke.Identity{Incarnation: second, Ended: []cke.Join{was}}
	var urls []string
	for _, f := range id.AskedBeside() {
		urls = append(urls, f.Name+" "+f.URL)
		for _, c := range []struct {
			answer cke.EndpointStatus
			counts bool
		}{
			{cke.EndpointStatus{MemberID: f.ID, ClusterID: "c1"}, true},
			{cke.EndpointStatus{MemberID: "unknown", ClusterID: "c1"}, true},
			{cke.EndpointStatus{MemberID: "unknown", ClusterID: "c9"}, f.Join.ID != ""},
			{cke.EndpointStatus{MemberID: f.ID, ClusterID: "c3"}, false},
			{cke.EndpointStatus{Problem: "no answer"}, false},
		} {
			if f.Answers(c.answer, "c3") != c.counts {
				t.Errorf("%s: %+v counts: %v", f.Name, c.answer, !c.counts)
			}
		}
	}
	if want := []string{"n2 https://10.0.0.2:2379", "old1 http://10.0.9.1:2379", "hand https://10.0.8.1:2379"}; !slices.Equal(urls, want) {
		t.Errorf("asked are %v, want %v", urls, want)
	}
}

// As long as no member reports a member list, foreign members are asked by the last one, and those that are asked in any case are not twice.
func TestAskedUnlisted_NamesForeignMembersOfTheLastList(t *testing.T) {
	ours := cke.Join{ID: "a", Node: cke.Node{Hostname: "n1", Address: "10.0.0.1"}, ClientPort: 2379, PeerPort: 2380, MemberID: "a1"}
	list := []cke.Member{{ID: "a1", Name: "n1", ClientURLs: []string{ours.ClientURL()}}, {ID: "o1", Name: "old1"}, {ID: "f1", Name: "hand", ClientURLs: []string{"https://10.0.8.1:2379"}}, {ID: "f2"}}
	id := cke.Identity{Joins: []cke.Join{ours}, Incarnation: &cke.Incarnation{ID: "life", State: cke.Formed, ClusterID: "c1", Import: &cke.Import{Members: []cke.OldMember{{ID: "o1", Name: "old1", URL: "http://10.0.9.1:2379"}}}}}
	if got := id.AskedUnlisted(list); len(got) != 1 || got[0].Name != "hand" || got[0].URL != "https://10.0.8.1:2379" || !got[0].Answers(cke.EndpointStatus{MemberID: "f1", ClusterID: "c1"}, "") {
		t.Errorf("%+v", got)
	}
	id = cke.Identity{Incarnation: &cke.Incarnation{ID: "next", State: cke.Restoring, Restore: &cke.Restoration{Members: list, Before: id.Incarnation, Fence: []cke.JoinID{"a"}}}, Ended: []cke.Join{ours}}
	if got := id.AskedUnlisted(list); len(got) != 0 {
		t.Errorf("during a restore they are asked by its record: %+v", got)
	}
	if got := id.AskedUnlisted(append(list, cke.Member{ID: "f3", Name: "late", ClientURLs: []string{"https://10.0.8.3:2379"}})); len(got) != 1 || got[0].Name != "late" || got[0].ClusterID != "c1" {
		t.Errorf("one that joined since is asked, too: %+v", got)
	}
	if got := (cke.Identity{}).AskedUnlisted(list); got != nil {
		t.Errorf("without an incarnation: %+v", got)
	}
}

// What a list read through a quorum lacks is not asked, nor what answered already. One that answered where another member was to be found is.
func TestNotAsked_AsksWhatNoQuorumListed(t *testing.T) {
	unlisted := []cke.Former{{Name: "f1", ID: "a", URL: "https://10.0.8.1:2379"}, {Name: "f2", ID: "b", URL: "https://10.0.8.2:2379"}}
	s := cke.EtcdStatus{Endpoints: []cke.EndpointStatus{{URL: "https://10.0.8.1:2379", Problem: "member a answers there, not c"}, {URL: "https://10.0.8.2:2379", MemberID: "b"}}}
	for source, want := range map[cke.MembersSource]int{cke.MembersUnknown: 1, cke.MembersLocal: 1, cke.MembersLinearizable: 0} {
		s.MembersSource = source
		if got := s.NotAsked(unlisted); len(got) != want || want > 0 && got[0].Name != "f1" {
			t.Errorf("%q: %+v", source, got)
		}
	}
}
