package strategy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// imported is a cluster of three old members and n of cke, one on each declared node, that all vote. An old one leads.
func imported(n int) *scene {
	s := formed(n)
	old := &cke.Import{}
	for i := 1; i <= 3; i++ {
		id, url := fmt.Sprintf("o%d", i), fmt.Sprintf("http://10.9.9.%d:2379", i)
		old.Members = append(old.Members, cke.OldMember{ID: id, Name: "old" + id[1:], URL: url})
		s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, cke.Member{ID: id, Name: "old" + id[1:], PeerURLs: []string{fmt.Sprintf("http://10.9.9.%d:2380", i)}, ClientURLs: []string{url}})
		s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Endpoints, cke.EndpointStatus{URL: url, Serializable: true, Linearizable: true, ClusterID: "c1", MemberID: id})
	}
	for i := range s.Seen.Etcd.Endpoints {
		s.Seen.Etcd.Endpoints[i].LeaderID = "o1"
	}
	s.Identity.Incarnation.Founders = nil
	s.Identity.Incarnation.Import = old
	return s.running()
}

// mute lets members of the old cluster not answer.
func (s *scene) mute(old ...int) *scene {
	for _, i := range old {
		for k := range s.Seen.Etcd.Endpoints {
			if e := &s.Seen.Etcd.Endpoints[k]; strings.HasPrefix(e.URL, fmt.Sprintf("http://10.9.9.%d:", i)) {
				*e = cke.EndpointStatus{URL: e.URL, Problem: "connection refused"}
			}
		}
	}
	return s
}

// left lets members of the old cluster have left the list.
func (s *scene) left(old ...int) *scene {
	for _, i := range old {
		s.Seen.Etcd.Members = slices.DeleteFunc(s.Seen.Etcd.Members, func(m cke.Member) bool { return m.ID == fmt.Sprintf("o%d", i) })
	}
	for i := range s.Seen.Etcd.Endpoints {
		s.Seen.Etcd.Endpoints[i].LeaderID = s.Seen.Etcd.Members[len(s.Seen.Etcd.Members)-1].ID
	}
	return s.mute(old...)
}

func (s *scene) reverting() *scene {
	s.Identity.Incarnation.Import.Reverting = true
	s.Spec = s.Identity.Incarnation.Import.Wants(s.Spec)
	return s
}

func (s *scene) kept() *scene {
	s.Identity.Incarnation.Import.KeepOld = true
	return s
}

// importEnded lets the import be over, with members of cke that still have no TLS between peers.
func (s *scene) importEnded() *scene {
	s.left(1, 2, 3)
	s.Identity.Incarnation.Import.EndedAt = noon
	for i := range s.Identity.Joins {
		j := &s.Identity.Joins[i]
		j.PlainPeers = true
		s.Seen.Etcd.Members[i].PeerURLs = []string{j.PeerURL()}
	}
	return s
}

// What would stop members that the old cluster needs, or make a second cluster beside it, is refused.
func TestDecide_RefusesWhatWouldLeaveAnOldClusterBehind(t *testing.T) {
	for _, order := range []cke.RestoreOrder{{Target: "file:///b"}, {Survivor: "n1"}} {
		s := imported(3)
		s.Requests.Tasks = []cke.Task{{ID: "t", Kind: cke.TaskRestore, Restore: &order}}
		d := strategy.Decide(s.Input)
		r, refused := d.Operation.(op.Refuse)
		if !refused || r.Why.Code != cke.CodeOldCluster {
			t.Errorf("%+v: %v: %s", order, d.Operation, d.Reason)
		}
	}
}

// An import turns around once, and not after the last old member has left.
func TestDecide_TurnsAnImportAround(t *testing.T) {
	for _, c := range []struct {
		scene   *scene
		subject string
		want    string
	}{
		{imported(3), cke.ImportRevert, "revert-import"},
		{imported(3), cke.ImportContinue, "settled"},
		{imported(3).reverting(), cke.ImportContinue, "continue-import"},
		{imported(3).kept(), cke.ImportContinue, "continue-import"},
		{imported(3).kept(), cke.ImportRevert, "revert-import"},
		{imported(3).reverting(), cke.ImportRevert, "settled"},
		{imported(3).left(1, 2, 3), cke.ImportRevert, "refused"},
		{imported(3).importEnded(), cke.ImportRevert, "refused"},
		{formed(3), cke.ImportRevert, "refused"},
		{imported(3), "sideways", "refused"},
		{imported(3).kept().with(func(s *scene) { s.Identity.Incarnation.Import.Turned = "t" }), cke.ImportContinue, "settled"}, // it reverted no more, and its record was cut off
	} {
		c.scene.Requests.Tasks = []cke.Task{{ID: "t", Kind: cke.TaskImport, Subject: c.subject}}
		d, got := strategy.Decide(c.scene.Input), ""
		switch o := d.Operation.(type) {
		case op.Settled:
			got = "settled"
		case op.Refuse:
			got = "refused"
		case op.TurnImport:
			got = o.Name()
		}
		if got != c.want {
			t.Errorf("%s: %v: %s, want %s", c.subject, d.Operation, d.Reason, c.want)
		}
	}
}

// The peer authority of the old cluster is replaced once nobody but cke needs it.
func TestDecide_ReplacesTheAuthorityOfAnOldCluster(t *testing.T) {
	s := imported(3)
	s.Identity.Incarnation.Import.PeerAuthority = true
	if d := strategy.Decide(s.Input); d.Rule != "members of the old cluster leave" {
		t.Errorf("%s: %s", d.Rule, d.Reason)
	}
	s = imported(3).left(1, 2, 3)
	s.Identity.Incarnation.Import.PeerAuthority, s.Identity.Incarnation.Import.EndedAt = true, noon
	d := strategy.Decide(s.Input)
	if r, is := d.Operation.(op.RotateAuthority); !is || r.Authority != cke.PeerAuthority {
		t.Errorf("%v: %s", d.Operation, d.Reason)
	}
	s.Identity.Authorities.Peer.Current.Generation = 1
	if d := strategy.Decide(s.Input); d.Rule == "replace the authority of the old cluster" {
		t.Errorf("again: %s", d.Reason)
	}
}

// etcd takes each name once: no member is added on a node that has the name of a foreign member, until that has left.
func TestDecide_AddsNoMemberWithTheNameOfAnother(t *testing.T) {
	named := func(s *scene) *scene {
		s.unjoined(3)
		s.Spec.Nodes[2].Hostname, s.Seen.Nodes[2].Node.Hostname = "old2", "old2"
		return s
	}
	d := strategy.Decide(named(imported(3)).Input)
	if len(d.Blockers) == 0 || d.Operation != nil || !strings.Contains(d.Blockers[0].Message, "has the name of") {
		t.Errorf("%v: %s", d.Operation, d.Reason)
	}
	d = strategy.Decide(named(imported(3).left(2)).Input)
	if _, adds := d.Operation.(op.AddMember); !adds {
		t.Errorf("%v: %s", d.Operation, d.Reason)
	}
}

// It is replaced, too, if the cluster was restored since, again and on another management host.
func TestDecide_ReplacesTheAuthorityOfAnOldClusterAfterARestore(t *testing.T) {
	s := imported(3)
	s.Identity.Incarnation.Import.PeerAuthority = true
	restored := func(id cke.Identity) *cke.Incarnation {
		inc := cke.NewRestoration(s.Spec, id, cke.Restoration{}, noon)
		inc.State = cke.Formed
		return &inc
	}
	once := cke.NewIdentity(restored(s.Identity), nil)
	twice := cke.NewIdentity(restored(once), nil)
	for what, inc := range map[string]*cke.Incarnation{"once": once.Incarnation, "twice": twice.Incarnation, "elsewhere": restored(once.Awaiting(noon))} {
		after := formed(3)
		after.Identity.Incarnation.Import = inc.Import
		d := strategy.Decide(after.Input)
		if r, is := d.Operation.(op.RotateAuthority); !is || r.Authority != cke.PeerAuthority || inc.Importing() != nil {
			t.Errorf("%s: %v: %s", what, d.Operation, d.Reason)
		}
	}
	if s.Identity.Incarnation.Importing() == nil {
		t.Error("the import is over though the restore may be canceled")
	}
}

// A cluster that was never imported is decided on as before: no rule of imports speaks.
func TestDecide_RulesOfImportsAreSilentElsewhere(t *testing.T) {
	for _, s := range []*scene{blank(3), formed(3), forming(3, true), abandoned(3), awaiting(3), formed(3).stranger("x"), formed(3).lost()} {
		_, lines := strategy.Asked(s.Input)
		for _, line := range lines {
			for _, rule := range []string{"import is over", "members of the old cluster leave", "import is reverted", "replace the authority of the old cluster"} {
				if strings.HasPrefix(line, rule) {
					t.Error(line)
				}
			}
		}
	}
}

// That the machine of an old member is gone is not believed while it answers: no restore stops it.
func TestRestore_BelievesNoWordAboutAMemberThatAnswers(t *testing.T) {
	answers := func(i int, change func(*cke.EndpointStatus)) func(*scene) {
		return func(s *scene) {
			for k := range s.Seen.Etcd.Endpoints {
				if e := &s.Seen.Etcd.Endpoints[k]; e.URL == fmt.Sprintf("http://10.9.9.%d:2379", i) {
					*e = cke.EndpointStatus{URL: e.URL, ClusterID: "c1", MemberID: fmt.Sprintf("o%d", i), Serializable: true}
					change(e)
				}
			}
		}
	}
	lost := func() *scene { return imported(3).mute(1, 2, 3).lost() }
	for name, c := range map[string]struct {
		scene *scene
		names []string // that the way out has to name; nil: it is believed
	}{
		"it is named as on record":    {scene: imported(3).mute(1, 2, 3).slow().with(func(s *scene) { s.Seen.Etcd.Members[3].Name = "renamed" })},
		"it is named as the list has": {scene: imported(3).mute(1, 2, 3).slow().with(func(s *scene) { s.Identity.Incarnation.Import.Members[0].Name = "former" })},
		"all serve":                   {imported(3), []string{"old1", "old2", "old3"}},
		"none answers":                {scene: lost()},
		"one answers by itself":       {lost().with(answers(2, func(*cke.EndpointStatus) {})), []string{"old2"}},
		"another cluster answers":     {scene: lost().with(answers(2, func(e *cke.EndpointStatus) { e.MemberID, e.ClusterID = "x", "c2" }))},
		"it has left the list":        {scene: imported(3).left(2).mute(1, 3).slow().with(answers(2, func(*cke.EndpointStatus) {}))},
	} {
		t.Run(name, func(t *testing.T) {
			o := cke.RestoreOrder{Target: "file:///b", Source: "demo", Destroyed: []string{"old1", "old2", "old3"}}
			why := strategy.RestoreRefusal(c.scene.Input, o)
			if c.names == nil {
				if why != nil {
					t.Error(why)
				}
				return
			}
			if why == nil || why.Code != cke.CodeOldCluster {
				t.Fatal(why)
			}
			for _, old := range []string{"old1", "old2", "old3"} {
				if text := strings.Join(why.Facts, "\n"); strings.Contains(text, old+" answers at http://10.9.9.") != slices.Contains(c.names, old) {
					t.Errorf("%s: %s", old, text)
				}
			}
		})
	}
	another := lost().with(answers(2, func(e *cke.EndpointStatus) { e.MemberID = "x" }))
	if why := strategy.RestoreRefusal(another.Input, cke.RestoreOrder{Target: "file:///b", Source: "demo", Destroyed: []string{"old1", "old2", "old3"}}); why == nil || why.Code != cke.CodeFence {
		t.Errorf("another member of the old cluster answers there: %v", why)
	}
	foreign := formed(3).stranger("x", "y", "z", "w").lost()
	foreign.Seen.Etcd.Members = formed(3).stranger("x", "y", "z", "w").Seen.Etcd.Members
	o := cke.RestoreOrder{Target: "file:///b", Source: "demo", Destroyed: []string{"x", "y", "z", "w"}}
	if why := strategy.RestoreRefusal(foreign.Input, o); why != nil {
		t.Error(why)
	}
	for _, id := range []string{"id-x", "id-y", "id-z", "id-w"} {
		foreign.Seen.Etcd.Endpoints = append(foreign.Seen.Etcd.Endpoints, cke.EndpointStatus{URL: "https://10.9.9.9:2379", ClusterID: "c1", MemberID: id, Serializable: true})
	}
	if why := strategy.RestoreRefusal(foreign.Input, o); why == nil || why.Code != cke.CodeFence {
		t.Errorf("foreign members that answer: %v", why)
	}
}

// An order that takes the place of a restore has to name the old members again: the first one may not have been true.
func TestRestore_AnotherOrderNamesTheOldMembersAgain(t *testing.T) {
	s := imported(3).mute(1, 2, 3).lost()
	s.begunAt(noon.Add(-2*time.Hour), cke.RestoreOrder{Destroyed: []string{"old1", "old2", "old3"}})
	o := cke.RestoreOrder{Target: "file:///b", Source: "demo"}
	if why := strategy.RestoreRefusal(s.Input, o); why == nil || why.Code != cke.CodeOldCluster {
		t.Errorf("%v", why)
	}
	o.Destroyed = []string{"old1", "old2", "old3"}
	if why := strategy.RestoreRefusal(s.Input, o); why != nil {
		t.Error(why)
	}
}

// The old machines are gone for good while the members of cke leave their cluster: these have the data, and nodes that the file declares.
func TestRestore_OfAnImportThatIsReverted(t *testing.T) {
	order := cke.RestoreOrder{Survivor: "n1", Destroyed: []string{"old1", "old2", "old3"}}
	declared := formed(3).Spec
	s := imported(3).reverting().mute(1, 2, 3).lost()
	s.Requests.Tasks = []cke.Task{{ID: "t", At: s.Seen.ObservedAt, Kind: cke.TaskRestore, Restore: &order}}
	in := strategy.NewInput(cke.Spec{Cluster: declared, Generation: s.Generation}, s.Identity, s.Requests, s.Seen, nil, s.Before)
	d := strategy.Decide(in)
	if b, is := d.Operation.(op.BeginRestore); !is || len(b.Founders) != 3 || len(b.Spec.ControlPlane()) != 3 {
		t.Errorf("%+v: %s", d.Operation, d.Reason)
	}
	if why := strategy.RestoreRefusal(in, order); why != nil {
		t.Error(why)
	}
}

// A node at the address of an old member that has not left, and fewer nodes than old members: the remedy is one that can be carried out.
func TestImport_SaysWhatLetsTheFirstOldMemberLeave(t *testing.T) {
	at := imported(3)
	at.Spec.Nodes = append(slices.Clone(at.Spec.Nodes), cke.Node{Hostname: "n4", Address: "10.9.9.1", ControlPlane: true})
	few := imported(1)
	for _, row := range []struct {
		scene *scene
		want  string
	}{{at, "take n4 out of the cluster file until old member old1"}, {few, "declare at least 2 control-plane nodes"}} {
		report := strategy.Report(row.scene.Input, strategy.Decide(row.scene.Input), cke.Status{})
		found := false
		for _, p := range report.Problems {
			found = found || strings.Contains(p.Remedy, row.want)
			if strings.Contains(p.Remedy, "etcd adopt") {
				t.Errorf("remedy: %s", p.Remedy)
			}
		}
		if !found {
			t.Errorf("%q is missing in %+v", row.want, report.Problems)
		}
	}
}
