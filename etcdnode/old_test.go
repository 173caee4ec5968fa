package etcdnode

import (
	"context"
	"crypto/tls"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"cke"
)

// The members of an old cluster are asked where they answered, with what was handed over for them or without TLS, and not any more once
// the import is over.
func TestObserve_AsksTheMembersOfAnOldCluster(t *testing.T) {
	t.Parallel()
	ca, theirs := NewTestCA(t), NewTestCA(t)
	plain, secure := newFakeEtcd(t, nil), newFakeEtcd(t, theirs.TLS("server", "127.0.0.1"))
	secure.status.Header.MemberId = 0xb2
	list := []*pb.Member{
		{ID: 0xa1, Name: "old1", PeerURLs: []string{"http://10.9.9.1:2380"}, ClientURLs: []string{"http://10.9.9.1:2379"}},
		{ID: 0xb2, Name: "old2", PeerURLs: []string{"http://10.9.9.2:2380"}, ClientURLs: []string{"https://10.9.9.2:2379"}},
	}
	plain.members, secure.members = list, list
	at := "http://" + plain.address
	f := New(Config{
		ClientTLS: func(context.Context) (*tls.Config, error) { return ca.TLS("cke"), nil },
		OldTLS:    func(context.Context) (*tls.Config, error) { return theirs.TLS("handed over"), nil },
	})
	t.Cleanup(f.Close)
	i := &cke.Import{Members: []cke.OldMember{{ID: "a1", Name: "old1", URL: at}, {ID: "b2", Name: "old2", URL: secure.url()}}}
	id := cke.Identity{Incarnation: &cke.Incarnation{ID: "life", State: cke.Formed, ClusterID: "c1", Import: i}}
	f.Update(cke.Cluster{Name: "demo"}, id)
	o := f.Observe(t.Context()).Etcd
	if !o.Quorate || len(o.Members) != 2 || len(o.Endpoints) != 2 {
		t.Fatalf("%+v", o)
	}
	for k, want := range []string{"a1", "b2"} {
		if e := o.Endpoints[k]; e.MemberID != want || !e.Healthy() || !e.Linearizable || e.Join != "" || e.URL != i.Members[k].URL {
			t.Errorf("%+v", e)
		}
	}
	if err := f.Promote(t.Context(), at, "a1"); err != nil {
		t.Errorf("a change through an old member: %v", err)
	}
	over := *i
	over.EndedAt = o.Endpoints[0].CertNotAfter.AddDate(1, 0, 0)
	id.Incarnation.Import = &over
	f.Update(cke.Cluster{Name: "demo"}, id)
	if o := f.Observe(t.Context()).Etcd; len(o.Endpoints) > 0 || o.Quorate {
		t.Errorf("%+v", o)
	}
}

// A member that is of no old cluster is never asked without TLS.
func TestEndpoint_WithoutTLSIsOnlyAskedInAnImport(t *testing.T) {
	t.Parallel()
	plain := newFakeEtcd(t, nil)
	f := etcdFleet(t, NewTestCA(t))
	if e := f.Endpoint(t.Context(), "http://"+plain.address); e.Problem == "" {
		t.Errorf("%+v", e)
	}
}

// A member of cke where an old one was is asked as those of cke are: also after the old one was asked there, and by a restore, which asks
// the old ones as before.
func TestObserve_AsksAMemberOfCkeWhereAnOldOneWas(t *testing.T) {
	t.Parallel()
	ca, theirs := NewTestCA(t), NewTestCA(t)
	f := New(Config{
		ClientTLS: func(context.Context) (*tls.Config, error) { return ca.TLS("cke"), nil },
		OldTLS:    func(context.Context) (*tls.Config, error) { return theirs.TLS("handed over"), nil },
	})
	t.Cleanup(f.Close)
	s := newFakeEtcd(t, theirs.TLS("server", "127.0.0.1"))
	j := joinOn(s, "j1")
	i := &cke.Import{Members: []cke.OldMember{{ID: "a1", Name: "old1", URL: s.url()}}}
	old := cke.Identity{Incarnation: &cke.Incarnation{ID: "life", State: cke.Formed, ClusterID: "c1", Import: i}}
	joined, restored := old, old
	joined.Joins = []cke.Join{j}
	restored.Incarnation = &cke.Incarnation{ID: "next", State: cke.Restoring, Restore: &cke.Restoration{Before: old.Incarnation}}
	for _, c := range []struct {
		what    string
		id      cke.Identity
		answers bool // with the certificate of the old cluster
		asked   int
	}{{"an old member", old, true, 1}, {"one of cke", joined, false, 1}, {"an old member again", old, true, 1}, {"a restore", restored, true, 0}} {
		f.Update(cke.Cluster{Name: "demo"}, c.id)
		if e := f.Endpoint(t.Context(), s.url()); (e.Problem == "") != c.answers || len(c.id.Asked()) != c.asked {
			t.Errorf("%s: %+v, asked at %v", c.what, e, c.id.Asked())
		}
	}
}
