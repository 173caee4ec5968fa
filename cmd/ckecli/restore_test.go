package main

import (
	"path/filepath"
	"testing"
	"time"

	"cke"
)

func TestRestore_IsRefusedBeforeAnythingIsAsked(t *testing.T) {
	h := declared(t)
	target := "file://" + filepath.Join(h.dir, "none")
	for _, c := range []struct {
		exit int
		says string
		args []string
	}{
		{exitRefused, "CKE405", []string{"restore"}}, // no target in the cluster file
		{exitUsage, "exclude each other", []string{"restore", "--from", target, "--revision", "3", "--time", "10m"}},
		{exitUsage, "cancel", []string{"restore", "--cancel", "--plan"}},
		{exitDamaged, "CKE404", []string{"restore", "--from", target, "--confirm", "prod"}},
		{exitRefused, "is in the store already", []string{"restore", "--from", target, "--file", h.write("again.yml", clusterFile)}},
		{exitNoStatus, "CKE108", []string{"restore", "--cancel"}},
	} {
		if _, stderr := h.run(c.exit, c.args...); c.says != "" {
			contains(t, stderr, c.says)
		}
	}
	asked, err := h.store.RequestsOf(h.ctx(), "prod")
	if err != nil || len(asked.Tasks) != 0 {
		t.Errorf("%+v, %v", asked.Tasks, err)
	}
}

func TestRecover_TakesTheMemberThatHasAppliedMost(t *testing.T) {
	st := cke.Status{Members: []cke.MemberStatus{
		{Name: "cp1", Join: "a", State: "unhealthy"}, {Name: "cp2", Join: "b", State: "unhealthy"}, {Name: "cp3", Join: "c", State: "missing"},
	}, Etcd: cke.EtcdStatus{Endpoints: []cke.EndpointStatus{
		{Join: "a", RaftTerm: 7, RaftApplied: 40, Revision: 30}, {Join: "b", RaftTerm: 6, RaftApplied: 42, Revision: 31}, {Join: "c", Problem: "refused"},
	}}}
	if v := choose(survivors(st), ""); v == nil || v.Node != "cp2" {
		t.Errorf("%+v", v)
	}
	if v := choose(survivors(st), "cp1"); v == nil || v.Node != "cp1" {
		t.Errorf("%+v", v)
	}
	if v := choose(survivors(st), "cp3"); v != nil {
		t.Errorf("a member without data is taken: %+v", v)
	}
	contains(t, lossOf(survivors(st)[0], st), "every quorum had one of them")
	contains(t, lossOf(survivors(st)[1], st), "are lost") // a member that has more is passed over
	st.Etcd.Endpoints[0] = cke.EndpointStatus{Join: "a", Problem: "no answer in 1s"}
	contains(t, lossOf(survivors(st)[0], st), "are lost") // who knows what that one has
	st.Etcd.Endpoints[0] = cke.EndpointStatus{Join: "a", RaftTerm: 7, RaftApplied: 40, Revision: 30}
	st.Members[0].State = "unreachable"
	contains(t, lossOf(survivors(st)[0], st), "are lost")
}

// A restore moves revisions on by a thousand million, which nobody has written.
func TestRestore_TellsHowMuchIsLost(t *testing.T) {
	for _, c := range []struct {
		present, restored int64
		want              string
	}{
		{30, 25, "5 revisions after it are lost"},
		{30, 30, "nothing that is known of is lost"},
		{1_000_000_031, 1_000_000_030, "1 revision after it is lost"},
		{1_000_000_032, 25, "what was written after it is lost; the cluster was restored since, so revisions do not tell how much that is"},
	} {
		if got := lostText(c.present, c.restored, time.Time{}); got != c.want {
			t.Errorf("%d of %d: %s", c.restored, c.present, got)
		}
	}
}
