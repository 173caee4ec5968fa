package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/pki"
)

// replacing puts on record that an authority is replaced.
func replacing(t *testing.T, a *pki.Authority, name cke.AuthorityName) cke.Authorities {
	t.Helper()
	var rec cke.Authorities
	for _, n := range cke.AuthorityNames() {
		c, err := a.CA(t.Context(), n, 0)
		if err != nil {
			t.Fatal(err)
		}
		rec = rec.With(n, cke.AuthorityRecord{Current: c})
	}
	next, err := a.CreateCA(t.Context(), name, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := rec.Of(name)
	r.Next, r.Phase = &next, cke.AuthorityIntroduced
	return rec.With(name, r)
}

// member is what a member runs with: the files, and the CA files as they were when it was started.
type running struct{ files, started []cke.File }

func (m running) pool(t *testing.T, path string) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data(m.started, path)) {
		t.Fatalf("%s holds no certificate", path)
	}
	return pool
}

func (m running) shows(t *testing.T, cert, key string) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(data(m.files, cert), data(m.files, key))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// peers is the configuration of a member's connections with others.
func (m running) peers(t *testing.T) *tls.Config {
	t.Helper()
	pool := m.pool(t, cke.PeerCAFile)
	return &tls.Config{Certificates: []tls.Certificate{m.shows(t, cke.PeerCertFile, cke.PeerKeyFile)}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, ServerName: "127.0.0.1"}
}

// clients is the configuration of a member's client port.
func (m running) clients(t *testing.T) *tls.Config {
	t.Helper()
	return &tls.Config{Certificates: []tls.Certificate{m.shows(t, cke.ServerCertFile, cke.ServerKeyFile)}, ClientCAs: m.pool(t, cke.ClientCAFile),
		ClientAuth: tls.RequireAndVerifyClientCert}
}

// Requirement N15: through a whole replacement two members, cke, and a client trust each other after each single thing that is done to one
// of them; see docs/security.md.
func TestRotation_NobodyDistrustsAnybodyAtAnyMoment(t *testing.T) {
	for _, name := range cke.AuthorityNames() {
		t.Run(string(name), func(t *testing.T) {
			a, m, c := newAuthority()
			ctx := t.Context()
			joins := []cke.Join{join("127.0.0.1", "cp1"), join("127.0.0.1", "cp2")}
			var members []*running
			for _, j := range joins {
				files, err := a.MemberFiles(ctx, j, cke.Authorities{})
				if err != nil {
					t.Fatal(err)
				}
				members = append(members, &running{files, files})
			}
			client := func(rec cke.Authorities) *tls.Config {
				cert, key, ca, _, err := a.IssueClient(ctx, rec, "app", time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				pair, err := tls.X509KeyPair(cert, key)
				if err != nil {
					t.Fatal(err)
				}
				pool := x509.NewCertPool()
				pool.AppendCertsFromPEM(ca)
				return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ServerName: "127.0.0.1"}
			}
			app := client(cke.Authorities{})
			rec := replacing(t, a, name)
			before := rec
			check := func(when string) {
				t.Helper()
				own, err := a.ClientTLS(ctx, rec)
				if err != nil {
					t.Fatal(err)
				}
				own.ServerName = "127.0.0.1"
				for i, one := range members {
					for _, other := range members {
						if err := handshake(t, one.peers(t), other.peers(t)); err != nil {
							t.Errorf("%s: peers: %v", when, err)
						}
					}
					for who, config := range map[string]*tls.Config{"cke": own, "a client": app} {
						if err := handshake(t, one.clients(t), config); err != nil {
							t.Errorf("%s: %s and member %d: %v", when, who, i, err)
						}
					}
					if worth := cke.ReadCertificates(one.files); !worth.Hold(c.Now()) {
						t.Errorf("%s: %+v", when, worth)
					}
				}
			}
			restart := func() {
				for i, one := range members {
					files, err := a.Bundles(ctx, rec)
					if err != nil {
						t.Fatal(err)
					}
					one.files = put(one.files, files)
					check("written")
					one.started = one.files
					check("restarted")
					if got := cke.ReadCertificates(one.files).Bundle(); got != rec.Bundle() {
						t.Errorf("member %d holds %s, wanted %s", i, got, rec.Bundle())
					}
				}
			}
			advance := func(to cke.AuthorityPhase) {
				rec = rec.With(name, rec.Of(name).Advanced(c.Now()))
				if got := rec.Of(name).Phase; got != to {
					t.Fatalf("phase %s, want %s", got, to)
				}
				check("phase " + string(to))
			}
			check("made")
			restart()
			if name == cke.ServerAuthority {
				app = client(rec) // what a person sees to
			}
			advance(cke.AuthorityIssues)
			for i, one := range members {
				files, err := a.RenewMember(ctx, joins[i], rec, one.files)
				if err != nil {
					t.Fatal(err)
				}
				for n := range len(files) {
					one.files = put(one.files, files[n:n+1])
					check("issued")
				}
				if worth := cke.ReadCertificates(one.files); name != cke.ClientAuthority && worth.SignedBy(name) != rec.Of(name).Next.Fingerprint {
					t.Errorf("signed by %s", worth.SignedBy(name))
				}
			}
			if name == cke.ClientAuthority {
				app = client(rec)
			}
			advance(cke.AuthorityWithdrawn)
			restart()
			advance(cke.AuthoritySteady)
			if rec.Of(name).Current.Generation != 1 || rec.Of(name).Next != nil || rec.Bundle() == before.Bundle() {
				t.Errorf("%+v", rec)
			}
			delete(m.values, cke.AuthoritySecret(name, 0))
			check("dropped")
			if cas, err := pki.New(m, "prod", c.Now).CAs(ctx, rec); err != nil || len(cas) != 3 {
				t.Errorf("%v %v", cas, err)
			}
		})
	}
}

func TestRotation_IsToldOfBoth(t *testing.T) {
	a, _, _ := newAuthority()
	if err := a.Ensure(t.Context(), cke.Authorities{}); err != nil {
		t.Fatal(err)
	}
	rec := replacing(t, a, cke.PeerAuthority)
	var got []string
	tell := func() {
		cas, err := a.CAs(t.Context(), rec)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cas {
			if c.Name != cke.PeerAuthority {
				continue
			}
			line := map[int]string{0: "old", 1: "new"}[c.Generation]
			if c.Signs {
				line += " signs"
			}
			if c.Trusted {
				line += " trusted"
			}
			got = append(got, line)
		}
	}
	for range 4 {
		tell()
		rec.Peer = rec.Peer.Advanced(time.Now())
	}
	want := []string{"old signs trusted", "new trusted", "old trusted", "new signs trusted", "old", "new signs trusted", "new signs trusted"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// One that is on record is never made anew, whatever became of its key.
func TestRotation_MakesNothingThatIsOnRecord(t *testing.T) {
	a, m, c := newAuthority()
	if err := a.Ensure(t.Context(), cke.Authorities{}); err != nil {
		t.Fatal(err)
	}
	rec := replacing(t, a, cke.ServerAuthority)
	again, err := a.CreateCA(t.Context(), cke.ServerAuthority, 1)
	if err != nil || again != *rec.Server.Next {
		t.Errorf("%+v %v, was %+v", again, err, rec.Server.Next)
	}
	made := m.creates
	for _, lost := range []string{"pki/server-ca", "pki/server-ca.1"} {
		kept := m.values[lost]
		delete(m.values, lost)
		if err := pki.New(m, "prod", c.Now).Ensure(t.Context(), rec); !errors.Is(err, cke.ErrNotFound) {
			t.Errorf("without %s: %v", lost, err)
		}
		m.values[lost] = kept
	}
	m.values["pki/server-ca"] = m.values["pki/server-ca.1"]
	if _, err := pki.New(m, "prod", c.Now).MemberFiles(t.Context(), join("10.0.0.11", "cp1"), rec); cke.CodeOf(err) != cke.CodeInternal {
		t.Errorf("another key than that on record: %v", err)
	}
	if m.creates != made {
		t.Error("an authority was made anew")
	}
}
