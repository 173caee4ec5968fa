package strategy_test

import (
	"slices"
	"strings"
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// replacing lets an authority of a formed cluster of three be replaced and have come to a phase, with members that have all
// that the phase asks for.
func replacing(name cke.AuthorityName, phase cke.AuthorityPhase) *scene {
	s := formed(3).running()
	var all cke.Authorities
	for _, n := range cke.AuthorityNames() {
		all = all.With(n, cke.AuthorityRecord{Current: cke.CA{Fingerprint: "old " + string(n)}})
	}
	if r := all.Of(name); phase != cke.AuthoritySteady {
		r.Next, r.Phase, r.Task = &cke.CA{Generation: 1, Fingerprint: "new " + string(name)}, phase, "t1"
		all = all.With(name, r)
	}
	s.Identity.Authorities = all
	for i := range s.Identity.Joins {
		s.Identity.Joins[i].Bundle = all.Bundle()
		s.container(i + 1).Certificates = filesAt(all)
	}
	return s
}

// filesAt are certificate files that are as a record wants them.
func filesAt(all cke.Authorities) *cke.CertificateFiles {
	f := &cke.CertificateFiles{NotBefore: noon.AddDate(0, -1, 0), NotAfter: noon.AddDate(0, 11, 0), PeerSigner: all.Peer.Signs().Fingerprint, ServerSigner: all.Server.Signs().Fingerprint}
	for _, c := range all.Peer.Trusted() {
		f.PeerCAs = append(f.PeerCAs, c.Fingerprint)
	}
	for _, c := range slices.Concat(all.Client.Trusted(), all.Server.Trusted()) {
		f.ClientCAs = append(f.ClientCAs, c.Fingerprint)
	}
	return f
}

// startedBefore lets members run with what they were started with before the phase began.
func (s *scene) startedBefore(nodes ...int) *scene {
	for _, i := range nodes {
		s.Identity.Joins[i-1].Bundle = ""
	}
	return s
}

// signedBefore lets members have certificates of the peer authority that is replaced.
func (s *scene) signedBefore(nodes ...int) *scene {
	for _, i := range nodes {
		s.container(i).Certificates.PeerSigner = "old peer"
	}
	return s
}

// Requirement N15: an authority is replaced without anybody distrusting anybody: the next phase begins once every member
// has what it needs for it, and members are restarted as for any change of how they run.
func TestDecide_ReplacesAnAuthorityPhaseByPhase(t *testing.T) {
	introduce := func() *scene { return replacing(cke.PeerAuthority, cke.AuthorityIntroduced) }
	issue := func() *scene { return replacing(cke.PeerAuthority, cke.AuthorityIssues) }
	withdraw := func() *scene { return replacing(cke.PeerAuthority, cke.AuthorityWithdrawn) }
	restart := func(s *scene, i int) op.RestartMember {
		return op.RestartMember{Join: s.join(i), Etcd: s.Spec.Options.Etcd, Bundle: s.Identity.Authorities.Bundle()}
	}
	advance := func(s *scene, name cke.AuthorityName) op.AdvanceAuthority {
		return op.AdvanceAuthority{Authority: name, From: s.Identity.Authorities.Of(name).Phase, Joins: s.Identity.Joins}
	}
	all := introduce().startedBefore(1, 2, 3)
	files := introduce().with(func(s *scene) { s.container(2).Certificates.PeerCAs = []string{"old peer"} })
	check(t, []row{
		{"none is replaced", replacing(cke.PeerAuthority, cke.AuthoritySteady), nil, "nothing to do", nil},
		{"introduced: followers first", all, restart(all, 2), "n2 trusts other certificate authorities than it should", nil},
		{"the next follower", introduce().startedBefore(1, 3), restart(introduce().startedBefore(1, 3), 3), "n3 trusts other certificate authorities", nil},
		{"the leader last", introduce().startedBefore(1), restart(introduce().startedBefore(1), 1), "n1 trusts other certificate authorities", nil},
		{"its files are not what it was started with", files, restart(files, 2), "n2 trusts other certificate authorities", nil},
		{"none while one is away", introduce().startedBefore(1, 2, 3).silent(3), nil, "restarting it waits: 2 of 3 voters are healthy", []string{"CKE104 n2", "CKE201 n3"}},
		{"with consent only", introduce().startedBefore(1, 2, 3).with(func(s *scene) { s.Spec.Policies.Reconcile = cke.ReconcileManual }), nil, "restart-member waits", nil},
		{"every member trusts both", introduce(), advance(introduce(), cke.PeerAuthority), "every member trusts the next one, too", nil},
		{"a member that is away keeps it waiting", introduce().silent(3), nil, "waiting for n3", []string{"CKE201 n3"}},
		{"so does one that is drained", introduce().leased(3), nil, "", []string{"CKE112 n3"}},
		{"and one whose files nobody saw", introduce().with(func(s *scene) { s.container(3).Certificates = nil }), nil, "nothing to do", nil},
		{"and a stranger", introduce().with(func(s *scene) {
			s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, cke.Member{ID: "s1", Name: "hand", PeerURLs: []string{"https://10.0.0.9:2380"}})
		}), nil, "", nil},
		{"issues: certificates of the one before are replaced", issue().signedBefore(1, 2, 3), op.RenewCertificates{Join: issue().join(2)}, "n2 has a certificate of the peer authority that is being replaced", nil},
		{"the leader last, too", issue().signedBefore(1), op.RenewCertificates{Join: issue().join(1)}, "n1 has a certificate", nil},
		{"that of one that is away is waited for", issue().signedBefore(3).silent(3), nil, "waiting for n3", []string{"CKE201 n3"}},
		{"it is tried again soon", issue().signedBefore(2).failed(op.RenewCertificates{Join: issue().join(2)}, 1, 30e9), op.RenewCertificates{Join: issue().join(2)}, "n2 has", nil},
		{"every certificate is issued by the next one", issue(), advance(issue(), cke.PeerAuthority), "every certificate is issued by the next one", nil},
		{"withdrawn: restarted once more", withdraw().startedBefore(2), restart(withdraw().startedBefore(2), 2), "n2 trusts other certificate authorities than it should", nil},
		{"no member trusts the former one", withdraw(), advance(withdraw(), cke.PeerAuthority), "no member trusts the former one any more", nil},
		{"clients are to trust the next server authority first", replacing(cke.ServerAuthority, cke.AuthorityIntroduced), nil, "nothing to do", nil},
		{"they do", replacing(cke.ServerAuthority, cke.AuthorityIssues), advance(replacing(cke.ServerAuthority, cke.AuthorityIssues), cke.ServerAuthority), "server authority", nil},
		{"that members trust the next client authority needs no person", replacing(cke.ClientAuthority, cke.AuthorityIntroduced), advance(replacing(cke.ClientAuthority, cke.AuthorityIntroduced), cke.ClientAuthority), "client authority", nil},
		{"clients are to have new certificates before the former one goes", replacing(cke.ClientAuthority, cke.AuthorityIssues), nil, "nothing to do", nil},
	})
}

func TestDecide_ReplacesAnAuthorityThatAPersonNames(t *testing.T) {
	rotate := func(s *scene, name string) *scene { return s.asked(cke.TaskRotate, "", name) }
	other := func(s *scene) *scene { s.Requests.Tasks[0].ID = "t2"; return s }
	finish := func(s *scene, subject string) *scene { return s.asked(cke.TaskFinish, "", subject) }
	for _, row := range []struct {
		name  string
		scene *scene
		want  func(strategy.Decision) bool
	}{
		{"begun", rotate(formed(3).running(), "peer"), does("rotate-authority", true)},
		{"an unknown one", rotate(formed(3).running(), "root"), refusal(cke.CodeCannot, "no authority")},
		{"one that is being replaced", other(rotate(replacing(cke.PeerAuthority, cke.AuthorityIssues), "peer")), func(d strategy.Decision) bool {
			r, is := d.Operation.(op.Refuse)
			return is && strings.Contains(r.Why.What, "already")
		}},
		{"another one beside it", other(rotate(replacing(cke.PeerAuthority, cke.AuthorityIssues), "client")), func(d strategy.Decision) bool { return d.Operation.Name() == "rotate-authority" && d.Part }},
		{"with a stranger", rotate(formed(3).running().with(func(s *scene) {
			s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, cke.Member{ID: "s1", Name: "hand", PeerURLs: []string{"https://10.0.0.9:2380"}})
		}), "peer"), refusal(cke.CodeCannot, "is a foreign member")},
		{"its steps are those of the rules", rotate(replacing(cke.PeerAuthority, cke.AuthorityIntroduced), "peer"), notFor("every member trusts")},
		{"over when it is replaced", rotate(replacing(cke.PeerAuthority, cke.AuthoritySteady).with(func(s *scene) { s.Identity.Authorities.Peer.Task = "t1" }), "peer"), does("rotate-authority", false)},
		{"over when a person has to say more", rotate(replacing(cke.ServerAuthority, cke.AuthorityIntroduced), "server"), does("rotate-authority", false)},
		{"not while members are to be restarted", rotate(replacing(cke.ServerAuthority, cke.AuthorityIntroduced).startedBefore(2), "server"), notFor("n2 trusts other certificate authorities")},
		{"clients trust both", finish(replacing(cke.ServerAuthority, cke.AuthorityIntroduced), "server introduce"), does("advance-authority", false)},
		{"said again", finish(replacing(cke.ServerAuthority, cke.AuthorityIssues), "server introduce"), does("finish-authority", false)},
		{"too early", finish(replacing(cke.ServerAuthority, cke.AuthorityIntroduced).startedBefore(2), "server introduce"), refusal(cke.CodeCannot, "waits for members")},
		{"where nobody is asked", finish(replacing(cke.PeerAuthority, cke.AuthorityIssues), "peer issue"), refusal(cke.CodeCannot, "does not wait for an operator")},
		{"of none that is replaced", finish(replacing(cke.PeerAuthority, cke.AuthoritySteady), "peer "), refusal(cke.CodeCannot, "does not wait for an operator")},
	} {
		if d := strategy.Decide(row.scene.Input); !row.want(d) {
			t.Errorf("%s: %+v", row.name, d)
		}
	}
}

func TestReport_TellsWhatAReplacementWaitsFor(t *testing.T) {
	for _, row := range []struct {
		name   string
		scene  *scene
		waits  string
		person bool
		health cke.Health
	}{
		{"a member that is away", replacing(cke.PeerAuthority, cke.AuthorityIntroduced).silent(3), "n3 does not answer", false, cke.HealthDegraded},
		{"one that is drained", replacing(cke.PeerAuthority, cke.AuthorityIntroduced).leased(3), "n3 is drained", false, cke.HealthDegraded},
		{"restarts", replacing(cke.PeerAuthority, cke.AuthorityWithdrawn).startedBefore(2, 3), "n2 is to be restarted; n3 is to be restarted", false, cke.HealthUpdating},
		{"files", replacing(cke.PeerAuthority, cke.AuthorityIssues).signedBefore(1), "n1 has no certificate of the peer authority that now issues them", false, cke.HealthReady},
		{"a person", replacing(cke.ServerAuthority, cke.AuthorityIntroduced), "make all clients trust both server authorities; then: ckecli ca finish server", true, cke.HealthReady},
		{"another person", replacing(cke.ClientAuthority, cke.AuthorityIssues), "give all clients new certificates; then: ckecli ca finish client", true, cke.HealthReady},
	} {
		st := row.scene.report()
		if len(st.Authorities) != 1 || strings.Join(st.Authorities[0].Waits, "; ") != row.waits || st.Authorities[0].Person != row.person || st.Health != row.health {
			t.Errorf("%s: %+v, %s", row.name, st.Authorities, st.Health)
		}
	}
	if st := formed(3).report(); st.Authorities != nil {
		t.Errorf("%+v", st.Authorities)
	}
}
