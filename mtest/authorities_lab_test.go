package mtest_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/mtest/rig"
)

// authority is what `ca list` tells of one.
type authority struct {
	Name        cke.AuthorityName
	Generation  int
	Signs       bool
	Trusted     bool
	Fingerprint string
	Phase       cke.AuthorityPhase
}

func (s *story) authorities() (all []authority) {
	s.Helper()
	s.must(json.Unmarshal([]byte(s.do("ca", "list", "-o", "json")), &all))
	return all
}

// replaced fails unless one authority of a name is left, of a generation, by which every member's certificate is.
func (s *story) replaced(name cke.AuthorityName, generation int, former []authority) {
	s.Helper()
	var left authority
	n := 0
	for _, a := range s.authorities() {
		if a.Name == name {
			left = a
			n++
		}
		for _, f := range former {
			if f.Name == a.Name && (f.Fingerprint == a.Fingerprint) == (a.Name == name) {
				s.Errorf("%s: %+v, before %+v", name, a, f)
			}
		}
	}
	if n != 1 || left.Generation != generation || !left.Signs || !left.Trusted || left.Phase != "" {
		s.Errorf("%d of %s: %+v", n, name, left)
	}
	var certs []struct {
		Member                     string
		PeerSigner, ServerSigner   string
		PeerCAs, ClientCAs         []string
		PeerAuthority, NotKnownYet int
	}
	s.must(json.Unmarshal([]byte(s.do("ca", "certs", "-o", "json")), &certs))
	if len(certs) != len(s.nodes) {
		s.Errorf("%d certificates", len(certs))
	}
	for _, c := range certs {
		trusts, signer := c.ClientCAs, c.ServerSigner
		if name == cke.PeerAuthority {
			trusts, signer = c.PeerCAs, c.PeerSigner
		}
		if all := strings.Join(trusts, " "); !strings.Contains(all, left.Fingerprint) || name != cke.ClientAuthority && signer != left.Fingerprint {
			s.Errorf("%s trusts %s, signed by %s, not %s", c.Member, all, signer, left.Fingerprint)
		}
		for _, f := range former {
			if f.Name == name && strings.Contains(strings.Join(trusts, " "), f.Fingerprint) {
				s.Errorf("%s still trusts the former %s authority", c.Member, name)
			}
		}
	}
}

// Requirement N15: the authority by which members know each other is replaced while clients write. No write is lost, and
// clients wait no longer than for any other restart of the members one after the other.
func TestLabAuthorities_ThePeersIsReplacedUnderLoad(t *testing.T) {
	rare(t)
	chapter{name: "rotation", nodes: 3, members: 3, tell: func(m *loaded) {
		rolling := m.measured("other arguments", func() { m.argument("4294967296"); m.apply() })
		former, restarts := m.authorities(), m.done("restart-member")
		rotation := m.measured("another peer authority", func() { m.do("ca", "rotate", "peer") })
		if limit := 2*rolling + time.Second; rotation > limit {
			m.Errorf("clients could not write for %s; with a rolling restart it is %s", rotation, rolling)
		}
		m.settled()
		m.replaced(cke.PeerAuthority, 1, former)
		for _, r := range m.records() {
			m.Logf("#%d %s %s: %s after %s", r.ID, r.Operation, strings.Join(r.Targets, ","), r.State, r.Took(time.Now()).Round(time.Millisecond))
		}
		for node, n := range m.done("restart-member") {
			if n-restarts[node] != 2 {
				m.Errorf("%s was restarted %d times", node, n-restarts[node])
			}
		}
		if got := m.done("renew-certificates"); len(got) != 3 {
			m.Errorf("renewed: %v", got)
		}
	}}.run(t)
}

// Requirement N15: clients go on through a replacement of the authorities that they have to do with, once each of them has
// what it needs and a person has said so; a client that is of the former authority is let in until then.
func TestLabAuthorities_ThoseOfClientsWaitForAPerson(t *testing.T) {
	extra(t)
	s := newStory(t, 3)
	s.daemon("cke1")
	before := s.found()
	old := s.clientTLS()
	writes := func(who string, config *tls.Config, welcome bool) {
		s.Helper()
		for _, n := range s.nodes {
			if err := s.write(rig.URL(n), config, "w/"+who); (err == nil) != welcome {
				s.Errorf("%s writes through %s: %v", who, n.Name, err)
			}
		}
	}
	ended := func(name cke.AuthorityName) {
		s.Helper()
		s.await(fmt.Sprintf("the %s authority to be replaced", name), 2*readyLimit, func(st cke.Status) bool {
			return rig.Ready(st) && len(st.Authorities) == 0
		})
	}
	former := s.authorities()
	s.refused(6, []string{"not being replaced"}, "ca", "finish", "server", "--yes")
	s.do("ca", "rotate", "server")
	s.await("it to wait for a person", seenLimit, func(st cke.Status) bool { return len(st.Authorities) == 1 && st.Authorities[0].Person })
	writes("old", old, true)
	both := s.clientTLS()
	writes("both", both, true)
	if pem := s.do("ca", "get", "server"); strings.Count(pem, "BEGIN CERTIFICATE") != 2 {
		t.Errorf("clients are to trust\n%s", pem)
	}
	s.do("ca", "finish", "server", "--yes")
	ended(cke.ServerAuthority)
	s.replaced(cke.ServerAuthority, 1, former)
	writes("both", both, true)
	writes("old", old, false)

	former = s.authorities()
	s.do("ca", "rotate", "client")
	s.await("it to wait for a person", seenLimit, func(st cke.Status) bool { return len(st.Authorities) == 1 && st.Authorities[0].Person })
	fresh := s.clientTLS()
	writes("both", both, true)
	writes("fresh", fresh, true)
	s.do("ca", "finish", "client", "--yes")
	ended(cke.ClientAuthority)
	s.replaced(cke.ClientAuthority, 1, former)
	writes("fresh", fresh, true)
	writes("both", both, false)
	s.stillMembers(before)
	s.oneCluster()
}
