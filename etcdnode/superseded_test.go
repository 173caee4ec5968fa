package etcdnode

import (
	"testing"

	"cke"
)

// While a restore is under way, the members are asked that it replaces: of their nodes only etcd may answer. Once it is over, or
// before, they are not.
func TestObserve_AsksTheMembersThatARestoreReplaces(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	m := newFakeEtcd(t, ca.TLS("server", "127.0.0.1"))
	was := joinOn(m, "was")
	was.MemberID = "a1"
	f := etcdFleet(t, ca)
	inc := cke.Incarnation{ID: "life", State: cke.Restoring, ClusterID: "c2", Restore: &cke.Restoration{Fence: []cke.JoinID{"was"}}}
	id := cke.Identity{Incarnation: &inc, Ended: []cke.Join{was, joinOn(m, "ended before")}}
	asked := func() []cke.EndpointStatus {
		f.Update(cke.Cluster{Name: "demo"}, id)
		o := f.Observe(t.Context()).Etcd
		if o.Quorate || o.Members != nil || len(o.Endpoints) > 0 {
			t.Errorf("it counts as a member of the restored cluster: %+v", o)
		}
		return o.Superseded
	}
	if got := asked(); len(got) != 1 || got[0].Join != "was" || got[0].URL != was.ClientURL() || !id.Former(was).Answers(got[0], "c2") {
		t.Errorf("%+v", got)
	}
	m.mu.Lock()
	m.silent = true
	m.mu.Unlock()
	if got := asked(); len(got) != 1 || id.Former(was).Answers(got[0], "c2") {
		t.Errorf("it is silent: %+v", got)
	}
	inc.State = cke.Formed
	if got := asked(); got != nil {
		t.Errorf("once the restore is over: %+v", got)
	}
}

// A foreign member is asked by the member list that was read last as long as no member reports one.
func TestObserve_AsksForeignMembersOfTheLastListWhileThereIsNone(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	m := newFakeEtcd(t, ca.TLS("server", "127.0.0.1"))
	foreign, ours := joinOn(m, ""), joinOn(m, "a")
	ours.Node.Address, ours.MemberID = "127.0.0.2", "a1"
	f := etcdFleet(t, ca)
	id := cke.Identity{Incarnation: &cke.Incarnation{ID: "life", State: cke.Formed}, Joins: []cke.Join{ours}}
	last := []cke.Member{{ID: "ee", Name: "hand", ClientURLs: []string{foreign.ClientURL()}}}
	f.Update(cke.Cluster{Name: "demo"}, id, last...)
	o := f.Observe(t.Context()).Etcd
	if o.Quorate || len(o.Endpoints) != 1 || len(o.Superseded) != 1 || o.Superseded[0].URL != foreign.ClientURL() || o.Superseded[0].Problem != "" {
		t.Errorf("%+v", o)
	}
	id.Joins[0].Node.Address = foreign.Node.Address
	f.Update(cke.Cluster{Name: "demo"}, id, last...)
	if o := f.Observe(t.Context()).Etcd; o.Members == nil || o.Superseded != nil {
		t.Errorf("a member reports its list: %+v", o)
	}
}
