package strategy_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// worth lets the files of members be worth something: days that are left, of a year, or damage.
func (s *scene) worth(i int, daysLeft int, damage string) *scene {
	end := noon.AddDate(0, 0, daysLeft)
	s.container(i).Certificates = &cke.CertificateFiles{NotBefore: end.AddDate(-1, 0, 0), NotAfter: end}
	if damage != "" {
		s.container(i).Certificates = &cke.CertificateFiles{Damage: damage}
	}
	return s
}

func (s *scene) allCertified(daysLeft int) *scene {
	for i := range s.Seen.Nodes {
		s.worth(i+1, daysLeft, "")
	}
	return s
}

// quietMembers lets members run and answer nobody.
func (s *scene) quietMembers(nodes ...int) *scene {
	for _, i := range nodes {
		s.quiet(i)
	}
	return s
}

// drained lets a node be leased for maintenance, with its member stopped.
func (s *scene) leased(i int) *scene {
	n := s.node(i).Node
	s.Requests.Drains = []cke.Drain{{Node: n.Name(), Since: noon, Until: noon.Add(time.Hour)}}
	return s.stopped(i)
}

// Requirement N15: certificates that have ended, or are damaged, are renewed whether or not anybody answers.
func TestDecide_RenewsCertificatesThatDoNotHold(t *testing.T) {
	renew := func(i int) op.RenewCertificates { return op.RenewCertificates{Join: formed(3).join(i)} }
	allEnded := func() *scene { return formed(3).quietMembers(1, 2, 3).lost().allCertified(-1) }
	check(t, []row{
		{"all have ended, and there is no quorum", allEnded(), renew(1), "n1: its certificates expired at", nil},
		{"one after the other", allEnded().worth(1, 300, ""), renew(2), "n2: its certificates expired at", nil},
		{"although another node is silent", allEnded().silent(1), renew(2), "n2: its certificates expired", nil},
		{"although it fails for another member", allEnded().failed(renew(1), 1, 0), renew(2), "n2: its certificates expired", nil},
		{"while all fail, the rest goes on", allEnded().failed(renew(1), 9, 0).failed(renew(2), 9, 0).failed(renew(3), 9, 0).stopped(1),
			op.StartMembers{Joins: []cke.Join{formed(3).join(1)}, AwaitServing: true}, "", nil},
		{"three that hang one after the other do not keep the rest waiting", allEnded().failed(renew(1), 9, 2*time.Minute).failed(renew(2), 9, time.Minute).failed(renew(3), 9, 0).stopped(1),
			op.StartMembers{Joins: []cke.Join{formed(3).join(1)}, AwaitServing: true}, "", nil},
		{"who waited longest comes first", allEnded().failed(renew(1), 9, 2*time.Minute).failed(renew(2), 9, 3*time.Minute).failed(renew(3), 9, time.Minute).stopped(1),
			renew(2), "n2: its certificates expired", nil},
		{"before a member is started", formed(3).allCertified(300).stopped(2).worth(2, -1, ""), renew(2), "n2: its certificates expired", nil},
		{"of a member that serves over old connections", formed(3).allCertified(300).worth(2, -1, ""), renew(2), "n2: its certificates expired", nil},
		{"of a member that its engine starts again and again", formed(3).allCertified(300).stopped(2).worth(2, 0, "pki/peer.key contains no key").with(func(s *scene) { s.container(2).State = cke.ContainerRestarting }),
			renew(2), "n2: pki/peer.key contains no key", nil},
		{"half written, though all serve", formed(3).allCertified(300).worth(3, 0, "pki/server.crt is missing"), renew(3), "n3: pki/server.crt is missing", nil},
		{"from a clock that was ahead", formed(3).allCertified(300).worth(2, 400, ""), renew(2), "n2: its certificates are not valid before", nil},
		{"not of one whose node is drained", formed(3).allCertified(300).leased(2).worth(2, -1, ""), nil, "", []string{"CKE112 n2"}},
		{"not while it is founded", forming(3, true).allCertified(-1), op.AbandonBootstrap{Reachable: forming(3, true).Identity.Joins, Founders: 3}, "a bootstrap member cannot prove its identity", nil},
		{"not while a person has paused it", allEnded().with(func(s *scene) { s.Requests.Hold = &cke.Hold{Reason: "no"} }), nil, "paused", nil},
		{"unknown is not broken", formed(3).quietMembers(1, 2, 3).lost(), nil, "the cluster cannot be seen from here", []string{"CKE215 n1", "CKE215 n2", "CKE215 n3"}},
		{"soon, of a member that answers nobody", formed(3).allCertified(300).worth(2, 100, "").quietMembers(2), renew(2), "the certificate of n2 expires at", nil},
	})
}

// trusts lets the files of a member hold an authority that ends after some days.
func (s *scene) trusts(i int, name cke.AuthorityName, days int) *scene {
	worth := *s.container(i).Certificates
	worth.AuthorityEnds = map[cke.AuthorityName]time.Time{name: noon.AddDate(0, 0, days)}
	s.container(i).Certificates = &worth
	return s
}

// Members' certificates are renewed by cke; what is to be done before an authority ends takes people months.
func TestReport_NamesAnAuthorityThatEndsSoon(t *testing.T) {
	status := formed(3).allCertified(300).trusts(2, cke.ClientAuthority, 150).report()
	if status.Health != cke.HealthReady || len(status.Problems) != 1 {
		t.Fatalf("%s, %+v", status.Health, status.Problems)
	}
	if p := status.Problems[0]; p.Code != cke.CodeAuthority || !strings.Contains(p.Message, "the client authority expires at 2026-09-28") || p.Remedy != "ckecli ca rotate client" {
		t.Errorf("%+v", p)
	}
}

func TestReport_TellsOfCertificatesThatDoNotHold(t *testing.T) {
	for _, row := range []struct {
		name   string
		scene  *scene
		status cke.Truth
		reason string
		told   string
	}{
		{"all hold", formed(3).allCertified(300), cke.True, "Valid", ""},
		{"one ends soon", formed(3).allCertified(300).worth(2, 10, ""), cke.False, "Expiring", ""},
		{"one has ended", formed(3).allCertified(300).worth(2, -1, ""), cke.False, "Ended", "CKE216 n2 its certificates expired at 2026-04-30"},
		{"one begins later", formed(3).allCertified(300).worth(2, 400, ""), cke.False, "NotYet", "CKE216 n2 its certificates are not valid before"},
		{"one is damaged", formed(3).allCertified(300).worth(2, 0, "pki/peer.crt is missing"), cke.False, "Damaged", "CKE216 n2 pki/peer.crt is missing"},
		{"one that answers nobody for it", formed(3).allCertified(300).worth(2, -1, "").quietMembers(2), cke.False, "Ended", "CKE216 n2 its certificates expired"},
	} {
		st := row.scene.report()
		c, _ := st.Condition(cke.CondCertificatesValid)
		if c.Status != row.status || c.Reason != row.reason {
			t.Errorf("%s: %+v", row.name, c)
		}
		told := ""
		for _, p := range st.Problems {
			told += string(p.Code) + " " + p.Node + " " + p.Message + "\n"
		}
		if row.told != "" && !strings.Contains(told, row.told) || row.told == "" && told != "" || strings.Count(told, "\n") > 1 {
			t.Errorf("%s: told\n%s", row.name, told)
		}
		if want := row.told == ""; (st.Health == cke.HealthReady) != want {
			t.Errorf("%s: %s", row.name, st.Health)
		}
	}
}
