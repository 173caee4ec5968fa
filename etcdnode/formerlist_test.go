package etcdnode

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"cke"
)

// A member that may be behind lists another foreign member where the newest list has this one, which answers.
func TestObserve_AsksTheForeignMemberThatTookThePlaceOfAnother(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	server := ca.TLS("server", "127.0.0.1")
	ours, hand := newFakeEtcd(t, server), newFakeEtcd(t, server)
	ours.noQuorum = true
	hand.status.Header.MemberId = 0xb2
	ours.members = append(ours.members, &pb.Member{ID: 0xb1, Name: "hand", PeerURLs: []string{"https://10.9.9.9:2380"}, ClientURLs: []string{hand.url()}})
	j := joinOn(ours, "a")
	j.MemberID = "a1"
	id := cke.Identity{Incarnation: &cke.Incarnation{ID: "life", State: cke.Formed, ClusterID: "c1"}, Joins: []cke.Join{j}}
	f := etcdFleet(t, ca)
	f.Update(cke.Cluster{Name: "demo"}, id, cke.Member{ID: "b2", Name: "hand", ClientURLs: []string{hand.url()}})
	o := f.Observe(t.Context()).Etcd
	if o.MembersSource != cke.MembersLocal || len(o.Superseded) != 1 || o.Superseded[0].MemberID != "b2" || o.Superseded[0].ClusterID != "c1" {
		t.Errorf("%+v", o)
	}
}

// The members that a restore is to stop report who is in their list, and each does by itself.
func TestObserve_HasTheListOfWhatARestoreReplaces(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	m := newFakeEtcd(t, ca.TLS("server", "127.0.0.1"))
	was := joinOn(m, "was")
	was.MemberID = "a1"
	f := etcdFleet(t, ca)
	before := &cke.Incarnation{ID: "before", State: cke.Formed, ClusterID: "c1"}
	inc := cke.Incarnation{ID: "life", State: cke.Restoring, ClusterID: "c2", Restore: &cke.Restoration{Fence: []cke.JoinID{"was"}, Before: before}}
	f.Update(cke.Cluster{Name: "demo"}, cke.Identity{Incarnation: &inc, Ended: []cke.Join{was}})
	o := f.Observe(t.Context()).Etcd
	if l := o.Former; l.Source != cke.MembersLinearizable || l.At != 9 || len(l.Members) != 1 || l.Members[0].ID != "a1" || o.Members != nil {
		t.Errorf("%+v", o)
	}
	before.ClusterID = "c3"
	f.Update(cke.Cluster{Name: "demo"}, cke.Identity{Incarnation: &inc, Ended: []cke.Join{was}})
	if l := f.Observe(t.Context()).Etcd.Former; l.Members != nil {
		t.Errorf("of another cluster: %+v", l)
	}
	before.State, before.ClusterID = cke.Awaiting, ""
	f.Update(cke.Cluster{Name: "demo"}, cke.Identity{Incarnation: &inc, Ended: []cke.Join{was}})
	if l := cke.OfCluster(f.Observe(t.Context()).Etcd.Copied, "c1"); l.Source != cke.MembersLinearizable || l.At != 9 || len(l.Members) != 1 {
		t.Errorf("its id is not on record: %+v", l)
	}
	was.MemberID = "b7"
	f.Update(cke.Cluster{Name: "demo"}, cke.Identity{Incarnation: &inc, Ended: []cke.Join{was}})
	if l := f.Observe(t.Context()).Etcd.Copied; l != nil {
		t.Errorf("another member answers: %+v", l)
	}
	clusterID, list, err := f.Listed(t.Context(), m.url())
	if err != nil || clusterID != "c1" || list.Source != cke.MembersLocal || list.At != 9 || len(list.Members) != 1 {
		t.Errorf("%q %+v %v", clusterID, list, err)
	}
}
