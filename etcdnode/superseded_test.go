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
