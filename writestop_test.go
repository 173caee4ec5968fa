package cke_test

import (
	"strings"
	"testing"
	"time"

	"cke"
)

// A member that does not answer may serve clients and raise NOSPACE, which ends a stop of writes with etcd 3.5.
func TestNoWriteStop_SilenceIsNoFact(t *testing.T) {
	old, now := "gcr.io/etcd-development/etcd:v3.5.35", "gcr.io/etcd-development/etcd:v3.6.16"
	unnamed := "registry.example.com/etcd@sha256:0000"
	for name, row := range map[string]struct {
		image, silent string // of the members that answer, and of the one that does not; "": all answer
		change        func(j *cke.Join)
		order         cke.RestoreOrder
		why           string
	}{
		"all answer":                       {image: old},
		"one of 3.5 is silent":             {image: old, silent: old, why: "does not answer: that of n3"},
		"one of 3.6 is silent":             {image: now, silent: now},
		"the one that is still 3.5":        {image: now, silent: old, why: "does not answer: that of n3"},
		"one of a version that is unknown": {image: now, silent: unnamed, why: "does not answer: that of n3"},
		"its node is left out":             {image: old, silent: old, order: cke.RestoreOrder{Without: []string{"n3"}}, why: "does not answer"},
		"its node is destroyed":            {image: old, silent: old, order: cke.RestoreOrder{Destroyed: []string{"n3"}}},
		"it was never started":             {image: old, silent: old, change: func(j *cke.Join) { j.StartedAt = time.Time{} }},
		"it is put aside":                  {image: old, silent: old, change: func(j *cke.Join) { j.Apart = true }},
	} {
		var joins []cke.Join
		for _, n := range []string{"n1", "n2", "n3"} {
			j := cke.Join{Node: cke.Node{Hostname: n}, StartedAt: time.Now(), Etcd: cke.EtcdOptions{Image: row.image}}
			if n == "n3" && row.silent != "" {
				j.Etcd.Image = row.silent
				if row.change != nil {
					row.change(&j)
				}
			}
			joins = append(joins, j)
		}
		why := cke.NoWriteStop(joins, row.order, func(j cke.Join) cke.EndpointStatus {
			if j.Node.Name() == "n3" && row.silent != "" {
				return cke.EndpointStatus{Problem: "no answer"}
			}
			return cke.EndpointStatus{Version: j.Etcd.TaggedVersion(), DBSize: 1 << 20}
		})
		if row.why == "" && why != "" || !strings.Contains(why, row.why) {
			t.Errorf("%s: %q, want %q", name, why, row.why)
		}
	}
}
