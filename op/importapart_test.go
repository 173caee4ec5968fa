package op_test

import (
	"context"
	"testing"

	"cke"
	"cke/op"
)

// forked is an etcd of two old members with one cluster id: the first lists itself alone.
type forked struct {
	cke.Etcd
	second cke.EndpointStatus
}

func (f forked) Members(context.Context, string) (string, []cke.Member, error) {
	return "c1", []cke.Member{{ID: "o1", Name: "old1"}}, nil
}

func (f forked) Endpoint(_ context.Context, url string) cke.EndpointStatus {
	if url == "http://10.9.9.1:2379" {
		return cke.EndpointStatus{URL: url, ClusterID: "c1", MemberID: "o1", Linearizable: true}
	}
	return f.second
}

// A list that lacks an old member which serves is that of one of two clusters: nothing is done by it.
func TestReadList_RefusesOneOfTwoOldClusters(t *testing.T) {
	inc := &cke.Incarnation{ID: "life", State: cke.Formed, ClusterID: "c1", Import: &cke.Import{Members: []cke.OldMember{
		{ID: "o1", Name: "old1", URL: "http://10.9.9.1:2379"}, {ID: "o2", Name: "old2", URL: "http://10.9.9.2:2379"}}}}
	for what, c := range map[string]struct {
		second  cke.EndpointStatus
		refused bool
	}{
		"it serves":                  {cke.EndpointStatus{ClusterID: "c1", MemberID: "o2", Linearizable: true}, true},
		"it left, and is silent":     {cke.EndpointStatus{Problem: "connection refused"}, false},
		"another cluster is there":   {cke.EndpointStatus{ClusterID: "c2", MemberID: "o2", Linearizable: true}, false},
		"it answers local reads":     {cke.EndpointStatus{ClusterID: "c1", MemberID: "o2", Serializable: true}, false},
		"another member is where it": {cke.EndpointStatus{ClusterID: "c1", MemberID: "o1", Linearizable: true}, false},
	} {
		e := op.Env{Ledger: &ran{id: cke.Identity{Incarnation: inc}}, Etcd: forked{second: c.second}}
		if err := (op.EndImport{}).Stages()[0][0].Run(t.Context(), e); (cke.CodeOf(err) == cke.CodeSplitBrain) != c.refused || err == nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
