package storage

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
)

// A key lives for as long as a record names its authority.
func TestAuthorities_AreReplacedWithTheirKeys(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	spec := setCluster(t, s, "prod").Cluster.WithDefaults()
	term := campaign(t, s, "prod", "here")
	if err := term.CreateIncarnation(ctx, cke.NewIncarnation(spec, nil, time.Now())); err != nil {
		t.Fatal(err)
	}
	secrets := s.Secrets("prod")
	for _, name := range []string{"pki/peer-ca", "pki/peer-ca.1", "pki/server-ca", "pki/client-ca"} {
		if err := secrets.CreateSecret(ctx, name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	there := func(names ...string) {
		t.Helper()
		for _, name := range []string{"pki/peer-ca", "pki/peer-ca.1", "pki/server-ca", "pki/client-ca"} {
			_, err := secrets.Secret(ctx, name)
			want := false
			for _, n := range names {
				want = want || n == name
			}
			if got := err == nil; got != want || err != nil && !errors.Is(err, cke.ErrNotFound) {
				t.Errorf("%s is there: %v, want %v: %v", name, got, want, err)
			}
		}
	}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	last := cke.Authorities{}
	next := cke.Authorities{
		Peer:   cke.AuthorityRecord{Current: cke.CA{Fingerprint: "old", NotAfter: now}, Next: &cke.CA{Generation: 1, Fingerprint: "new", NotAfter: now}, Phase: cke.AuthorityIntroduced, Since: now, Task: "t", By: "eve@host"},
		Server: cke.AuthorityRecord{Current: cke.CA{Fingerprint: "server", NotAfter: now}},
		Client: cke.AuthorityRecord{Current: cke.CA{Fingerprint: "client", NotAfter: now}},
	}
	states := s.WatchCluster(ctx, "prod")
	for range 4 {
		if err := term.PutAuthorities(ctx, last, next); err != nil {
			t.Fatal(err)
		}
		if err := term.PutAuthorities(ctx, last, next); err != nil {
			t.Errorf("again: %v", err)
		}
		if err := term.PutAuthorities(ctx, last, next.With(cke.ServerAuthority, next.Peer)); !errors.Is(err, cke.ErrConflict) {
			t.Errorf("what is on record by now is another: %v", err)
		}
		await(t, states, func(c ClusterState) bool { return cmp.Equal(c.Identity.Authorities, next) })
		id, err := s.Identity(ctx, "prod")
		if d := cmp.Diff(next, id.Authorities); d != "" || err != nil || len(id.Joins) == 0 {
			t.Errorf("%v (-want +got):\n%s", err, d)
		}
		if next.Peer.Next != nil {
			there("pki/peer-ca", "pki/peer-ca.1", "pki/server-ca", "pki/client-ca")
		}
		last, next = next, next.With(cke.PeerAuthority, next.Peer.Advanced(now))
	}
	there("pki/peer-ca.1", "pki/server-ca", "pki/client-ca")

	// Another life has the same authorities; the next cluster of that name has others.
	inc, err := term.Identity(ctx)
	if err != nil {
		t.Fatal(err)
	}
	abandoned := *inc.Incarnation
	abandoned.State = cke.Abandoned
	if err := term.UpdateIncarnation(ctx, abandoned); err != nil {
		t.Fatal(err)
	}
	if err := term.CreateIncarnation(ctx, cke.NewIncarnation(spec, &abandoned, time.Now())); err != nil {
		t.Fatal(err)
	}
	if id, err := term.Identity(ctx); err != nil || !cmp.Equal(id.Authorities, last) {
		t.Errorf("%v %+v", err, id.Authorities)
	}
}
