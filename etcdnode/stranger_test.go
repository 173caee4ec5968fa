package etcdnode

import (
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"cke"
)

// Requirement A6: a member that cke never added is asked how it is, where etcd's own list says that it is.
func TestObserve_AsksStrangersAtTheAddressesOfTheMemberList(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	server := ca.TLS("server", "127.0.0.1")
	ours, hand, other := newFakeEtcd(t, server), newFakeEtcd(t, server), newFakeEtcd(t, server)
	hand.status.Header.MemberId = 0xb2
	ours.members = append(ours.members,
		&pb.Member{ID: 0xb2, Name: "hand", PeerURLs: []string{"https://10.9.9.9:2380"}, ClientURLs: []string{hand.url()}},
		&pb.Member{ID: 0xc3, Name: "taken", PeerURLs: []string{"https://10.9.9.8:2380"}, ClientURLs: []string{other.url()}},
		&pb.Member{ID: 0xd4, PeerURLs: []string{"https://10.9.9.7:2380"}, ClientURLs: []string{other.url()}})
	j := joinOn(ours, "a")
	j.MemberID = "a1"
	f := etcdFleet(t, ca)
	f.Update(cke.Cluster{Name: "demo"}, cke.Identity{Joins: []cke.Join{j}})
	o := f.Observe(t.Context()).Etcd
	if len(o.Endpoints) != 3 {
		t.Fatalf("%+v", o.Endpoints)
	}
	if e := o.Endpoints[1]; e.URL != hand.url() || e.MemberID != "b2" || !e.Healthy() || !e.Linearizable || e.Join != "" {
		t.Errorf("%+v", e)
	}
	if e := o.Endpoints[2]; !strings.Contains(e.Problem, "member a1 answers there, not c3") || e.MemberID != "" {
		t.Errorf("%+v", e)
	}
}

// What a member of another cluster says tells nothing about this one.
func TestObserve_BelievesNoMemberOfAnotherCluster(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	server := ca.TLS("server", "127.0.0.1")
	wrong, right := newFakeEtcd(t, server), newFakeEtcd(t, server)
	wrong.status.Header.ClusterId = 0xee
	wrong.members = append(wrong.members, &pb.Member{ID: 0xff, Name: "x"})
	f := etcdFleet(t, ca)
	id := cke.Identity{Incarnation: &cke.Incarnation{ID: "life", State: cke.Formed, ClusterID: "c1"}, Joins: []cke.Join{joinOn(wrong, "a"), joinOn(right, "b")}}
	f.Update(cke.Cluster{Name: "demo"}, id)
	o := f.Observe(t.Context()).Etcd
	if !o.Quorate || len(o.Members) != 1 || o.Endpoints[0].ClusterID != "ee" {
		t.Errorf("%+v", o)
	}
	right.mu.Lock()
	right.silent = true
	right.mu.Unlock()
	f.Observe(t.Context())
	if o := f.Observe(t.Context()).Etcd; o.Quorate || o.Members != nil {
		t.Errorf("%+v", o)
	}
}

// The alarm NOSPACE is no error of a member's own: it serves reads, and counts in the quorum.
func TestEndpoint_ServesInSpiteOfNoSpace(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	m := newFakeEtcd(t, ca.TLS("server", "127.0.0.1"))
	m.status.Errors = []string{"memberID:161  alarm:NOSPACE "}
	f := etcdFleet(t, ca)
	if s := f.Endpoint(t.Context(), m.url()); !s.Healthy() || !s.NoSpace || s.Corrupt || s.CertNotBefore.IsZero() || !s.CertNotAfter.After(s.CertNotBefore) {
		t.Errorf("%+v", s)
	}
	m.mu.Lock()
	m.status.Errors = []string{"memberID:161  alarm:CORRUPT ", "etcdserver: no leader"}
	m.mu.Unlock()
	if s := f.Endpoint(t.Context(), m.url()); s.Healthy() || !s.Corrupt || !slices.Equal(s.Errors, m.status.Errors) {
		t.Errorf("%+v", s)
	}
}
