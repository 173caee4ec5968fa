package op_test

import (
	"context"
	"slices"
	"testing"
	"time"

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

// The first member of an import is refused as a bootstrap is: another cluster of the name may serve.
func TestAddMember_MakesNoSecondClusterOutOfAnImport(t *testing.T) {
	why := &cke.Error{Code: cke.CodeOlderStore, What: "the target has another one"}
	inc := &cke.Incarnation{ID: "life", State: cke.Formed, Import: &cke.Import{}}
	for what, c := range map[string]struct {
		target string
		joins  []cke.Join
		want   cke.Code
	}{
		"the first member":          {"s3://b/x", nil, cke.CodeOlderStore},
		"no target":                 {"", nil, ""},
		"cke has given it a member": {"s3://b/x", []cke.Join{{ID: "a", Node: cke.Node{Address: "10.0.0.9"}}}, ""},
	} {
		stored := false
		e := op.Env{Ledger: joining{&ran{id: cke.Identity{Incarnation: inc, Joins: c.joins}}, &stored}, Machines: onTime{}, Snapshots: taken{why: why}, Now: time.Now}
		all := slices.Concat(op.AddMember{Node: cke.Node{Address: "10.0.0.1"}, Target: c.target}.Stages()...)
		err := all[slices.IndexFunc(all, func(s op.Step) bool { return s.Name == "record-join" })].Run(t.Context(), e)
		if refused := c.want != ""; refused != (err != nil && cke.CodeOf(err) == c.want) || stored == refused {
			t.Errorf("%s: %v, stored %v", what, err, stored)
		}
	}
}

// joining is a ledger that notes that a membership was stored.
type joining struct {
	*ran
	stored *bool
}

func (j joining) PutJoins(context.Context, cke.Identity, ...cke.Join) error {
	*j.stored = true
	return nil
}

// onTime are machines whose clocks agree.
type onTime struct{}

func (onTime) Machine(cke.Node) cke.Machine { return onTimeNode{} }

type onTimeNode struct{ cke.Machine }

func (onTimeNode) Clock(context.Context) (time.Time, error) { return time.Now(), nil }
