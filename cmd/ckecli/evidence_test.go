package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/internal/words"
)

// findings puts a freeze on record, as a leader does.
func (l *leader) freeze(h *house, id cke.Identity) cke.Freeze {
	h.t.Helper()
	f := cke.NewFreeze(cke.FreezeUnequalData, "unequal-data a b", cke.Problem{Code: cke.CodeUnequalData, Message: "the members hold different data at revision 7"},
		cke.EtcdStatus{Endpoints: []cke.EndpointStatus{{Join: id.Joins[0].ID, MemberID: "a1", ClusterID: "c1", Revision: 9}, {Join: id.Joins[1].ID, MemberID: "b2", ClusterID: "c1", Revision: 8}}})
	f.At, f.Leader = time.Now(), cke.Leader{Host: "boot-1", Term: 3}
	f.Compared = &cke.Comparison{At: time.Now(), Revision: 7, Hashes: []cke.MemberHash{{Join: id.Joins[0].ID, Node: "cp1", Hash: 0xaaaa}, {Join: id.Joins[1].ID, Node: "cp2", Hash: 0xbbbb}}}
	if err := l.term.PutFreeze(h.ctx(), f); err != nil {
		h.t.Fatal(err)
	}
	return f
}

func TestEvidence_ShowsWhatFrozeTheCluster(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	id := h.form(l)
	stdout, _ := h.run(exitDone, "cluster", "evidence")
	contains(t, stdout, "prod was never frozen.")
	_, stderr := h.run(exitRefused, "cluster", "unfreeze", "prod", "--reason", "it is known", "--confirm", "prod")
	contains(t, stderr, "error[CKE111]: cluster prod is not frozen", "Nothing was changed.")

	f := l.freeze(h, id)
	stdout, _ = h.run(exitDone, "cluster", "evidence", "prod")
	contains(t, stdout, "State", "frozen", "Found", "different data at revision 7 [CKE306]", "by boot-1, term 3", "Lift it", "ckecli cluster unfreeze prod",
		"MEMBER", "MEMBER ID", "HASH", "cp1", "a1", "0000aaaa", "cp2", "b2", "0000bbbb")
	stdout, _ = h.run(exitDone, "cluster", "evidence", "-o", "json")
	var e evidence
	if err := json.Unmarshal([]byte(stdout), &e); err != nil || !e.Frozen || e.Freeze.ID != f.ID || len(e.Freeze.Etcd.Endpoints) != 2 {
		t.Errorf("%v %+v", err, e)
	}
	_, stderr = h.run(exitUsage, "cluster", "unfreeze", "prod")
	contains(t, stderr, "--reason is missing")
	_, stderr = h.run(exitRefused, "cluster", "unfreeze", "prod", "--reason", "it is known")
	contains(t, stderr, "0000aaaa", "error[CKE107]: lifting the freeze of prod was not confirmed")

	f.LiftedAt, f.LiftedBy, f.LiftReason = time.Now(), "eve@host", "it is known"
	if err := l.term.PutFreeze(h.ctx(), f); err != nil {
		t.Fatal(err)
	}
	stdout, _ = h.run(exitDone, "cluster", "evidence")
	contains(t, stdout, "lifted by eve@host at ", ": it is known")
}

func TestUnfreeze_AsksTheLeader(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	l.status(ready(1))
	f := l.freeze(h, h.form(l))
	h.run(exitDone, "cluster", "unfreeze", "prod", "--reason", "it is known", "--confirm", "prod", "--no-wait")
	r, err := h.store.RequestsOf(h.ctx(), "prod")
	if err != nil || len(r.Tasks) != 1 {
		t.Fatalf("%v %+v", err, r)
	}
	if task := r.Tasks[0]; task.Kind != cke.TaskUnfreeze || task.Subject != f.ID || task.Reason != "it is known" || !strings.Contains(task.By, "@") {
		t.Errorf("%+v", task)
	}
}

// Who is wrong is named, by nodes that have members.
func TestUnfreeze_NamesWhoIsWrong(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	l.status(ready(1))
	l.freeze(h, h.form(l))
	_, stderr := h.run(exitRefused, "cluster", "unfreeze", "prod", "--reason", "it is known", "--wrong", "cp9", "--confirm", "prod")
	contains(t, stderr, "error[CKE111]: node cp9 has no member", "members are on cp1, cp2, cp3", "Nothing was changed.")
	_, stderr = h.run(exitRefused, "cluster", "unfreeze", "prod", "--reason", "it is known", "--wrong", "cp3")
	contains(t, stderr, "lifting the freeze of prod and putting the members of cp3 aside was not confirmed", "--wrong cp3")
	h.run(exitDone, "cluster", "unfreeze", "prod", "--reason", "it is known", "--wrong", "cp3", "--confirm", "prod", "--no-wait")
	r, err := h.store.RequestsOf(h.ctx(), "prod")
	if err != nil || len(r.Tasks) != 1 || len(r.Tasks[0].Wrong) != 1 || r.Tasks[0].Wrong[0] != "cp3" {
		t.Fatalf("%v %+v", err, r)
	}
}

func TestVolumes_AreListedWithWhatTheyBelongTo(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	id := h.form(l)
	keep := time.Now().Add(48 * time.Hour)
	ended := id.Joins[2]
	ended.EndedAt, ended.KeepUntil = time.Now(), keep
	if err := l.term.PutJoins(h.ctx(), id, ended); err != nil {
		t.Fatal(err)
	}
	s := ready(1)
	volume := func(j cke.Join) cke.Volume {
		return cke.Volume{Name: j.Volume, Cluster: "prod", Incarnation: j.Incarnation, Join: j.ID, CreatedAt: time.Now().Add(-time.Hour)}
	}
	s.Members = []cke.MemberStatus{{Name: "cp1", Join: id.Joins[0].ID, DBSize: 84e6, Role: "leader", State: "healthy", Ready: true}}
	s.Nodes = []cke.NodeStatus{
		{Node: id.Joins[0].Node, Volumes: []cke.Volume{volume(id.Joins[0]), {Name: "etcd-cke.x", Cluster: "prod", Join: "x"}, {Name: "etcd-cke", CreatedAt: time.Now()}, {Name: "etcd-cke.o", Cluster: "other", Join: "o"}}},
		{Node: id.Joins[1].Node, Problem: &cke.Problem{Code: cke.CodeUnreachable, Message: "no answer"}, Volumes: []cke.Volume{volume(id.Joins[1])}},
		{Node: id.Joins[2].Node, Volumes: []cke.Volume{volume(id.Joins[2])}},
	}
	l.status(s)
	stdout, _ := h.run(exitDone, "volume", "list")
	contains(t, stdout, "VOLUME", "NODE", "STATE", "KEPT UNTIL", "CREATED", "SIZE",
		id.Joins[0].Volume, "cp1", "in use", "84MB", "etcd-cke.x", "leftover", "etcd-cke", "unknown", "etcd-cke.o", "of another cluster",
		id.Joins[1].Volume, "cp2", "in use", "-", "cp2", "unreachable",
		id.Joins[2].Volume, "cp3", "archived", words.Moment(keep))
	stdout, _ = h.run(exitDone, "volume", "list", "-o", "json")
	var all []listedVolume
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || len(all) != 7 {
		t.Fatalf("%v %d in %s", err, len(all), stdout)
	}
	for _, v := range all {
		if v.Node == "cp2" && v.Seen {
			t.Errorf("seen on a node that does not answer: %+v", v)
		}
	}
	_, stderr := h.run(exitRefused, "volume", "purge", ended.Volume)
	contains(t, stderr, "error[CKE107]: purging "+ended.Volume+" was not confirmed", "Try: ckecli volume purge "+ended.Volume+" --confirm "+ended.Volume)
	h.run(exitDone, "volume", "purge", ended.Volume, "--confirm", ended.Volume, "--no-wait")
	h.run(exitDone, "volume", "undelete", ended.Volume, "--no-wait")
	h.run(exitDone, "etcd", "compare", "--no-wait")
	r, err := h.store.RequestsOf(h.ctx(), "prod")
	if err != nil || len(r.Tasks) != 3 {
		t.Fatalf("%v %+v", err, r)
	}
}

func TestReclaim_ShowsWhatTheStoreLostAndAsksTheLeader(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	id := h.form(l)
	s := ready(1)
	_, stderr := func() (string, string) { l.status(s); return h.run(exitRefused, "cluster", "reclaim", "prod") }()
	contains(t, stderr, "error[CKE317]: cannot reclaim memberships of prod", "no member list could be read")
	old := id.Joins[1]
	lost := old
	lost.ID, lost.Volume = "fresh", "etcd-cke.fresh"
	s.Etcd.MembersSource = cke.MembersLinearizable
	s.Etcd.Members = []cke.Member{{ID: "b2b", Name: "cp2", PeerURLs: []string{old.PeerURL()}, ClientURLs: []string{old.ClientURL()}}}
	s.Nodes = []cke.NodeStatus{{Node: old.Node,
		Containers: []cke.Container{{Name: lost.Volume, State: cke.ContainerRunning, Image: "quay.io/coreos/etcd:v3.6.15", Cluster: "prod", Incarnation: lost.Incarnation, Join: lost.ID, Place: old.Place(), StartedAt: time.Now()}},
		Volumes: []cke.Volume{{Name: lost.Volume, Cluster: "prod", Incarnation: lost.Incarnation, Join: lost.ID},
			{Name: "etcd-cke.gone", Cluster: "prod", Incarnation: lost.Incarnation, Join: "gone"}}}}
	s.Backup = &cke.BackupStatus{Lineage: id.Incarnation.ID, Lacks: []cke.Lacking{{ID: string(id.Joins[2].ID), Ended: true}}}
	l.status(s)
	stdout, _ := h.run(exitDone, "cluster", "reclaim", "prod", "--plan")
	contains(t, stdout, "NODE", "VOLUME", "cp2", "etcd-cke.fresh", "b2b", "member on record", "etcd-cke.gone", "archived volume on record, kept", old.Volume, "membership ends", id.Joins[2].Volume)
	_, stderr = h.run(exitRefused, "cluster", "reclaim", "prod")
	contains(t, stderr, "etcd-cke.fresh", "error[CKE107]: reclaiming memberships of prod was not confirmed", "ckecli cluster reclaim prod --confirm prod")
	h.run(exitDone, "cluster", "reclaim", "prod", "--confirm", "prod", "--no-wait")
	r, err := h.store.RequestsOf(h.ctx(), "prod")
	if err != nil || len(r.Tasks) != 1 || r.Tasks[0].Kind != cke.TaskReclaim || len(r.Tasks[0].Reclaim) != 2 || len(r.Tasks[0].ReclaimChanges) != 2 {
		t.Fatalf("%v %+v", err, r)
	}
	s.Nodes, s.Backup = nil, nil
	l.status(s)
	_, stderr = h.run(exitRefused, "cluster", "reclaim", "prod", "--confirm", "prod")
	contains(t, stderr, "every membership that the nodes of prod carry is on record")
}
