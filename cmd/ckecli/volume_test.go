package main

import (
	"testing"
	"time"

	"cke"
)

// Whoever looks for old data is not told that it is kept where somebody has removed it.
func TestVolumes_ArchivedAndGone(t *testing.T) {
	node := cke.Node{Address: "10.0.0.11", Hostname: "cp1"}
	old := cke.Join{ID: "old", Node: node, Volume: "etcd-cke.old", KeepUntil: time.Now().Add(time.Hour)}
	there := []cke.Volume{{Name: old.Volume, Cluster: "prod", Join: old.ID}}
	begun := old
	begun.PurgedAt = time.Now()
	for _, c := range []struct {
		name    string
		join    cke.Join
		volumes []cke.Volume
		problem *cke.Problem
		want    string
	}{
		{"there", old, there, nil, volumeArchived},
		{"gone", old, nil, nil, volumeMissing},
		{"nobody knows", old, nil, &cke.Problem{Message: "no answer"}, volumeArchived},
		{"being removed", begun, nil, nil, volumeRemoving},
	} {
		st := cke.Status{Nodes: []cke.NodeStatus{{Node: node, Volumes: c.volumes, Problem: c.problem}}}
		if all := listVolumes("prod", cke.Identity{Ended: []cke.Join{c.join}}, st); all[0].State != c.want {
			t.Errorf("%s: %s, want %s", c.name, all[0].State, c.want)
		}
	}
}
