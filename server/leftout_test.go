package server_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server"
)

// restored lets a person have ordered a restore a while ago that leaves nodes out.
func (s *scene) restored(without ...string) *scene {
	s.Requests.Tasks = []cke.Task{{ID: "t1", Kind: cke.TaskRestore, By: "ann@boot-1", At: noon.Add(-time.Hour),
		Restore: &cke.RestoreOrder{Target: "file:///backups", Source: "demo", Without: without}}}
	return s
}

// destroyed lets the person have said that the nodes left out are gone for good.
func (s *scene) destroyed() *scene {
	o := s.Requests.Tasks[0].Restore
	o.Destroyed, o.Without = o.Without, nil
	return s
}

// awaiting is a declared cluster of which only the backups are known: the management host is new.
func awaiting(n int) *scene {
	s := blank(n)
	inc := cke.NewAwaiting(noon)
	s.Identity.Incarnation = &inc
	return s
}

// stranger lets voters be in the list that no membership names.
func (s *scene) stranger(names ...string) *scene {
	for _, name := range names {
		s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, cke.Member{ID: "id-" + name, Name: name, PeerURLs: []string{"https://10.9.9.9:2380"}})
	}
	return s
}

// Requirement A1: what a restore does not stop for certain must have no quorum, or two clusters of one name serve.
func TestRestore_WhatIsLeftOutHasNoQuorum(t *testing.T) {
	for name, c := range map[string]struct {
		scene *scene
		begun bool
	}{
		"one of three":                                        {formed(3).silent(3).restored("n3"), true},
		"two of three":                                        {formed(3).silent(2, 3).restored("n2", "n3"), false},
		"two of three, destroyed":                             {formed(3).silent(2, 3).restored("n2", "n3").destroyed(), true},
		"two of three that still answer":                      {formed(3).restored("n2", "n3"), false},
		"two of three voters, a learner counts not":           {formed(4).learner(4, true).silent(2, 3).restored("n2", "n3"), false},
		"two of four voters":                                  {formed(4).silent(3, 4).restored("n3", "n4"), true},
		"two of four, and nobody says who votes":              {formed(4).lost().with(func(s *scene) { s.Seen.Etcd = cke.EtcdStatus{} }).silent(2, 3).restored("n2", "n3"), false},
		"one of three that was never started":                 {formed(3).with(func(s *scene) { s.Identity.Joins[2].StartedAt = time.Time{} }).silent(3).restored("n3"), true},
		"two of three, of one the store lacks the start":      {formed(3).unrecorded(3).silent(2, 3).restored("n2", "n3"), false},
		"two of three, of one it lacks the member id as well": {formed(3).unrecorded(3).unidentified(3).silent(2, 3).restored("n2", "n3"), false},
		"strangers with a quorum":                             {formed(1).stranger("x", "y").restored(), false},
		"strangers without one":                               {formed(3).stranger("x").restored(), true},
		"a stranger and a silent node have a quorum":          {formed(2).stranger("x").silent(2).restored("n2"), false},
		"a new management host, one silent":                   {awaiting(3).silent(3).restored("n3"), true},
		"a new management host, two silent":                   {awaiting(3).silent(2, 3).restored("n2", "n3"), false},
		"never founded by this store, two silent":             {blank(3).silent(2, 3).restored("n2", "n3"), false},
		"a new management host, two destroyed":                {awaiting(3).silent(2, 3).restored("n2", "n3").destroyed(), true},
	} {
		d := server.Decide(c.scene.Input)
		_, begun := d.Operation.(op.BeginRestore)
		if begun != c.begun || !begun && !refusal(cke.CodeFence, "could go on serving")(d) {
			t.Errorf("%s: %T %s", name, d.Operation, d.Reason)
		}
	}
	d := server.Decide(formed(1).stranger("x", "y").restored().Input)
	if r, is := d.Operation.(op.Refuse); !is || !slices.ContainsFunc(r.Why.Facts, func(f string) bool { return strings.Contains(f, "x, y") }) {
		t.Errorf("the strangers are not named: %#v", d.Operation)
	}
}
