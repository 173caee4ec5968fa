package strategy_test

import (
	"strings"
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// old is the answer of a member of the old cluster.
func (s *scene) old(i int) *cke.EndpointStatus {
	url := s.Identity.Incarnation.Import.Members[i-1].URL
	for k := range s.Seen.Etcd.Endpoints {
		if e := &s.Seen.Etcd.Endpoints[k]; e.URL == url {
			return e
		}
	}
	panic(url)
}

// A member of the old cluster that serves a second history freezes an import as one of cke does: two clusters have one id, or it is of another
// one, or it went back.
func TestDecide_FreezesWhereAnOldMemberServesAnotherHistory(t *testing.T) {
	alone := func(s *scene) { s.old(1).LeaderID = "o1"; s.leads("o2", 2, 3) }
	reached := func(s *scene) {
		s.Before = cke.Status{Incarnation: s.Identity.Incarnation.ID, Reached: &cke.Reached{ClusterID: "c1", Revision: 100, RaftTerm: 7}}
	}
	for name, c := range map[string]struct {
		scene *scene
		want  cke.FreezeKind // empty: it does not freeze
	}{
		"it serves alone":                           {imported(3).with(alone), cke.FreezeTwoQuorums},
		"before cke has a voter":                    {imported(3).unjoined(3).unjoined(2).unjoined(1).with(alone), cke.FreezeTwoQuorums},
		"it was continued alone after it had left":  {imported(3).left(1).with(func(s *scene) { *s.old(1) = s.twin(1) }), cke.FreezeTwoQuorums},
		"it is of another cluster":                  {imported(3).with(func(s *scene) { s.old(2).ClusterID = "c2" }), cke.FreezeClusterID},
		"its machine serves another after it left":  {imported(3).left(2).with(func(s *scene) { *s.old(2) = s.twin(2); s.old(2).ClusterID = "c2" }), ""},
		"it went back":                              {imported(3).with(reached).with(func(s *scene) { s.old(3).Revision, s.old(3).RaftTerm = 90, 6 }), cke.FreezeWentBack},
		"all did before cke has a voter":            {imported(3).unjoined(3).unjoined(2).unjoined(1).with(reached).with(func(s *scene) { s.old(3).Revision, s.old(3).RaftTerm = 90, 7 }), cke.FreezeWentBack},
		"another etcd that nobody knows is no part": {imported(3).with(func(s *scene) { s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Endpoints, s.twin(9)) }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.scene
			s.Before.Etcd, s.Before.Incarnation = s.Seen.Etcd, s.Identity.Incarnation.ID // as it was seen before
			d := strategy.Decide(s.Input)
			f, is := d.Operation.(op.Freeze)
			if is != (c.want != "") || f.Kind != c.want || is && (!strings.HasPrefix(f.Problem.Node, "old") || !strings.Contains(f.Problem.Remedy, "old cluster")) {
				t.Errorf("%v %+v: %s", d.Operation, f.Problem, d.Reason)
			}
		})
	}
}

// leads lets members of the old cluster, and all of cke, follow one leader.
func (s *scene) leads(leader string, old ...int) {
	for _, i := range old {
		s.old(i).LeaderID = leader
	}
	for i := range s.Seen.Etcd.Endpoints {
		if e := &s.Seen.Etcd.Endpoints[i]; e.Join != "" {
			e.LeaderID = leader
		}
	}
}

// twin is the answer of an old member that leads itself.
func (s *scene) twin(i int) cke.EndpointStatus {
	id := string(rune('0' + i))
	return cke.EndpointStatus{URL: "http://10.9.9." + id + ":2379", Serializable: true, Linearizable: true, ClusterID: "c1", MemberID: "o" + id, LeaderID: "o" + id}
}

// Two histories serve under one id before cke has a voter, and the list is read from the smaller one: nothing is added to either, at the
// first look either.
func TestDecide_AddsNoMemberToOneOfTwoOldClusters(t *testing.T) {
	for _, before := range []bool{false, true} {
		s := imported(3).unjoined(3).unjoined(2).unjoined(1)
		s.Seen.Etcd.Members = s.Seen.Etcd.Members[:1]
		s.old(2).LeaderID, s.old(3).LeaderID = "o2", "o2"
		if before {
			s.Before.Etcd, s.Before.Incarnation = s.Seen.Etcd, s.Identity.Incarnation.ID
		}
		d := strategy.Decide(s.Input)
		if _, freezes := d.Operation.(op.Freeze); freezes != before || !freezes && d.Operation != nil {
			t.Errorf("seen before: %v: %v: %s", before, d.Operation, d.Reason)
		}
	}
}
