package strategy_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// Of what a restore replaces where the cluster was declared to be restored, each cluster's newest list counts and is kept, but none of one that may
// be over, and none of the restored one.
func TestDecide_RemembersTheListsOfCopiedClusters(t *testing.T) {
	was := formed(3)
	life, joined := was.Identity.Incarnation.ID, was.stranger("f1", "f2", "f3", "f4").Seen.Etcd.Members
	list := func(clusterID string, source cke.MembersSource, at uint64, members []cke.Member) cke.MemberList {
		return cke.MemberList{Incarnation: life, ClusterID: clusterID, Members: members, Source: source, At: at}
	}
	other := []cke.Member{{ID: "e1", Name: "x1"}, {ID: "e2", Name: "x2"}}
	unknown := list("c9", cke.MembersLocal, 9, other)
	unknown.Incarnation = "nobody knows"
	serves := unknown
	serves.Source = cke.MembersLinearizable
	for name, c := range map[string]struct {
		seen, last, outside []cke.MemberList
		known               []string // ids of clusters
	}{
		"none":                          {},
		"one is read":                   {seen: []cke.MemberList{list("c1", cke.MembersLocal, 9, joined)}, known: []string{"c1"}},
		"two are read":                  {seen: []cke.MemberList{list("c2", cke.MembersLinearizable, 9, other), list("c1", cke.MembersLocal, 9, joined)}, known: []string{"c1", "c2"}},
		"one was read":                  {last: []cke.MemberList{list("c1", cke.MembersLocal, 9, joined)}, known: []string{"c1"}},
		"one that is behind was read":   {seen: []cke.MemberList{list("c1", cke.MembersLocal, 3, other)}, last: []cke.MemberList{list("c1", cke.MembersLocal, 9, joined)}, known: []string{"c1", "c1"}},
		"a quorum has another one":      {seen: []cke.MemberList{list("c1", cke.MembersLinearizable, 3, formed(3).Seen.Etcd.Members)}, last: []cke.MemberList{list("c1", cke.MembersLocal, 9, joined)}},
		"nobody was stopped by it":      {outside: []cke.MemberList{list("c1", cke.MembersLocal, 9, joined)}, known: []string{"c1"}},
		"it is older than what is read": {seen: []cke.MemberList{list("c1", cke.MembersLocal, 9, other)}, outside: []cke.MemberList{list("c1", cke.MembersLocal, 8, joined)}, known: []string{"c1"}},
		"of one that may be over":       {seen: []cke.MemberList{unknown}},
		"of one that serves":            {seen: []cke.MemberList{serves}, known: []string{"c9"}},
		"of the restored one":           {seen: []cke.MemberList{list("restored", cke.MembersLinearizable, 9, other)}},
	} {
		s := formed(3)
		s.Identity = s.Identity.Awaiting(noon)
		s.begunAt(noon.Add(-time.Minute), cke.RestoreOrder{})
		inc := s.Identity.Incarnation
		for i := range c.seen {
			if c.seen[i].ClusterID == "restored" {
				c.seen[i].ClusterID = inc.ClusterID
			}
		}
		s.Seen.Etcd.Copied, s.Before.Etcd.Copied, inc.Restore.Outside = c.seen, c.last, c.outside
		inc.Restore.Members, inc.Restore.MembersAt = formed(3).Seen.Etcd.Members, 2
		o, is := strategy.Decide(s.Input).Operation.(op.Restore)
		var known []string
		for _, l := range o.Known {
			known = append(known, l.ClusterID)
		}
		if !is || !slices.Equal(known, c.known) {
			t.Errorf("%s: %T, known %v, not %v", name, strategy.Decide(s.Input).Operation, known, c.known)
		}
		s.Before = s.report()
		s.Seen.Etcd = cke.EtcdStatus{}
		if again := s.report().Etcd.Copied; len(again) != len(s.Before.Etcd.Copied) || len(c.known) > 0 && len(again) == 0 {
			t.Errorf("%s: kept %+v of %+v", name, again, s.Before.Etcd.Copied)
		}
	}
}
