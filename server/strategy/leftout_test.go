package strategy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
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
	if s.Seen.Etcd.Members == nil {
		s.Seen.Etcd.Members = slices.Clone(formed(len(s.Identity.Joins)).Seen.Etcd.Members)
	}
	for _, name := range names {
		s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, cke.Member{ID: "id-" + name, Name: name, PeerURLs: []string{"https://10.9.9.9:2380"}})
	}
	return s
}

// local lets only a member say who the members are, without some of the nodes.
func (s *scene) local(without ...int) *scene {
	s.lost()
	s.Seen.Etcd.MembersSource = cke.MembersLocal
	for i, m := range formed(len(s.Identity.Joins)).Seen.Etcd.Members {
		if !slices.Contains(without, i+1) {
			s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, m)
		}
	}
	return s
}

// slow lets no linearizable read be answered in time, though all know the leader.
func (s *scene) slow() *scene {
	s.Seen.Etcd.Quorate, s.Seen.Etcd.MembersSource = false, cke.MembersLocal
	for i := range s.Seen.Etcd.Endpoints {
		s.Seen.Etcd.Endpoints[i].Linearizable = false
	}
	return s
}

// begun lets a restore have begun, and another one be ordered.
func (s *scene) begun(without ...string) *scene {
	s.begunAt(noon.Add(-2*time.Hour), cke.RestoreOrder{})
	return s.restored(without...)
}

// begunAt lets the restore of an order have begun at a time.
func (s *scene) begunAt(at time.Time, o cke.RestoreOrder) {
	inc := cke.NewRestoration(s.Spec, s.Identity, cke.Restoration{ID: "t0", Order: o, Members: s.Seen.Etcd.Members}, at)
	next, err := s.Identity.Restoring(inc)
	if err != nil {
		panic(err)
	}
	s.Identity, s.Seen.Etcd = next, cke.EtcdStatus{}
}

// aside is a cluster of three without a quorum whose third member is put aside, which a mark says, too.
func aside(silent ...int) *scene {
	return formed(3).with(func(s *scene) { s.Identity.Joins[2].Apart = true }).stopped(3).marked(3).lost().remembered().silent(silent...)
}

// recovers lets a person have ordered a recovery from a member's data, without n1.
func recovers(node string) func(*scene) {
	return func(s *scene) {
		s.restored("n1")
		o := s.Requests.Tasks[0].Restore
		o.Target, o.Source, o.Survivor, o.Named = "", "", node, true
	}
}

// Requirement A1: what a restore does not stop for certain must have no quorum, or two clusters of one name serve.
func TestRestore_WhatIsLeftOutHasNoQuorum(t *testing.T) {
	for name, c := range map[string]struct {
		scene *scene
		begun bool
	}{
		"one of three":                                        {formed(3).silent(3).restored("n3"), true},
		"two of three":                                        {formed(3).silent(2, 3).restored("n2", "n3"), false},
		"two of three, destroyed":                             {formed(3).silent(2, 3).lost().restored("n2", "n3").destroyed(), true},
		"two of three that still answer":                      {formed(3).restored("n2", "n3"), false},
		"two of three that still answer, destroyed":           {formed(3).running().restored("n2", "n3").destroyed(), false},
		"one of three that still answers, destroyed":          {formed(3).running().restored("n3").destroyed(), true},
		"two of three that answer and were wiped, destroyed":  {formed(3).lost().with(func(s *scene) { s.Seen.Nodes[1].Containers, s.Seen.Nodes[2].Containers = nil, nil }).restored("n2", "n3").destroyed(), true},
		"two of three voters, a learner counts not":           {formed(4).learner(4, true).silent(2, 3).restored("n2", "n3"), false},
		"two of four voters":                                  {formed(4).silent(3, 4).restored("n3", "n4"), true},
		"two of four, and nobody says who votes":              {formed(4).lost().with(func(s *scene) { s.Seen.Etcd = cke.EtcdStatus{} }).silent(2, 3).restored("n2", "n3"), false},
		"one of three that was never started":                 {formed(3).with(func(s *scene) { s.Identity.Joins[2].StartedAt = time.Time{} }).silent(3).restored("n3"), true},
		"two of three, of one the store lacks the start":      {formed(3).unrecorded(3).silent(2, 3).restored("n2", "n3"), false},
		"two of three, of one it lacks the member id as well": {formed(3).unrecorded(3).unidentified(3).silent(2, 3).restored("n2", "n3"), false},
		"two of four, and nobody says if one left meanwhile":  {formed(4).local().silent(3, 4).restored("n3", "n4"), false},
		"two of three, and the record has a fourth":           {formed(4).local(4).silent(2, 3).restored("n2", "n3"), false},
		"two of three, and the record has five":               {formed(5).local(4, 5).silent(2, 3).restored("n2", "n3"), false},
		"one of three, and the record has four":               {formed(4).local(4).silent(3).restored("n3"), true},
		"a voter of two and one that was a learner":           {formed(3).local().with(func(s *scene) { s.Seen.Etcd.Members[2].Learner = true }).silent(2, 3).restored("n2", "n3"), false},
		"one of three voters and a learner":                   {formed(4).local().with(func(s *scene) { s.Seen.Etcd.Members[3].Learner = true }).silent(3, 4).restored("n3", "n4"), true},
		"again, two strangers and one of three":               {formed(3).stranger("x", "y").silent(3).begun("n3"), false},
		"again, two strangers and three":                      {formed(3).stranger("x", "y").begun(), true},
		"again, two of three where the record had five":       {formed(5).local(4, 5).silent(2, 3).begun("n2", "n3"), false},
		"again, one of three":                                 {formed(3).silent(3).begun("n3"), true},
		"again, a restored member lost its volume": {formed(1).begun().with(func(s *scene) {
			j := &s.Identity.Joins[0]
			j.StartedAt = noon.Add(-time.Hour)
			s.Before = cke.Status{Incarnation: j.Incarnation, Etcd: cke.EtcdStatus{Members: []cke.Member{{ID: "it", Name: "n1", PeerURLs: []string{j.PeerURL()}}}}}
		}), true},
		"one of three, where another one is put aside":           {aside(1).restored("n1"), true},
		"one of three, recovered where another one is put aside": {aside(1).with(recovers("n2")), true},
		"two of three, where the other one is put aside":         {aside(1, 2).restored("n1", "n2"), false},
		"strangers with a quorum":                                {formed(1).stranger("x", "y").restored(), false},
		"strangers without one":                                  {formed(3).stranger("x").restored(), true},
		"a stranger and a silent node have a quorum":             {formed(2).stranger("x").silent(2).restored("n2"), false},
		"a new management host, one silent":                      {awaiting(3).silent(3).restored("n3"), true},
		"a new management host, two silent":                      {awaiting(3).silent(2, 3).restored("n2", "n3"), false},
		"never founded by this store, two silent":                {blank(3).silent(2, 3).restored("n2", "n3"), false},
		"a new management host, two destroyed":                   {awaiting(3).silent(2, 3).restored("n2", "n3").destroyed(), true},
	} {
		d := strategy.Decide(c.scene.Input)
		_, begun := d.Operation.(op.BeginRestore)
		if begun != c.begun || !begun && !refusal(cke.CodeFence, "could still form a quorum")(d) {
			t.Errorf("%s: %T %s", name, d.Operation, d.Reason)
		}
	}
	d := strategy.Decide(formed(1).stranger("x", "y").restored().Input)
	if r, is := d.Operation.(op.Refuse); !is || !slices.ContainsFunc(r.Why.Facts, func(f string) bool {
		return strings.Contains(f, "x and y may still run, and could be 2 of 3 members; 2 are a quorum")
	}) {
		t.Errorf("the strangers are not named: %#v", d.Operation)
	}
}

// The status counts as the refusal does: what could be a quorum is not proved to have none.
func TestReport_TheQuorumMayBeElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		scene *scene
		want  cke.Health
	}{
		"two of three, and the record has a fourth": {formed(4).local(4).silent(2, 3), cke.HealthUnknown},
		"two of four, of whom one may have left":    {formed(4).local().silent(3, 4), cke.HealthUnknown},
		"all answer, and reads take long":           {formed(3).running().slow(), cke.HealthUnknown},
		"all answer, and know no leader":            {formed(3).running().lost(), cke.HealthLost},
		"one of four":                               {formed(4).local().silent(4), cke.HealthLost},
	} {
		if s := c.scene.report(); s.Health != c.want {
			t.Errorf("%s: %s %s", name, s.Health, s.Summary)
		}
	}
}

// A recovery goes on from one member, so nobody may be served by the others, whether this host can ask them or not.
func TestRecover_NotWhileMembersThatRunCouldServe(t *testing.T) {
	recovered := func(s *scene, destroyed ...string) *scene {
		s.restored()
		*s.Requests.Tasks[0].Restore = cke.RestoreOrder{Survivor: "n1", Destroyed: destroyed}
		return s
	}
	for name, c := range map[string]struct {
		scene *scene
		code  cke.Code // "": it begins
	}{
		"all run and none answers":                    {recovered(formed(3).running().quietMembers(1, 2, 3).lost()), cke.CodeFence},
		"two run and do not answer":                   {recovered(formed(3).running().quietMembers(2, 3).lost()), cke.CodeFence},
		"one runs, the other's machine is destroyed":  {recovered(formed(3).running().quietMembers(2).silent(3).lost(), "n3"), ""},
		"a person's word for one that is seen to run": {recovered(formed(3).running().quietMembers(2, 3).lost(), "n3"), cke.CodeFence},
		"a person's word for one that is stopped":     {recovered(formed(3).running().quietMembers(2).stopped(3).lost(), "n3"), ""},
		"two are stopped":                             {recovered(formed(3).running().stopped(2, 3).lost()), ""},
		"all answer and know no leader":               {recovered(formed(3).running().lost()), ""},
		"all answer and are slow":                     {recovered(formed(3).running().slow()), cke.CodeFence},
		"hibernated":                                  {recovered(formed(3).stopped(1, 2, 3).lost().hibernated()), cke.CodeCannot},
	} {
		d := strategy.Decide(c.scene.Input)
		switch o := d.Operation.(type) {
		case op.Refuse:
			if o.Why.Code != c.code {
				t.Errorf("%s: %v", name, o.Why)
			}
		case op.BeginRestore:
			if c.code != "" || o.Fence[len(o.Fence)-1].Node.Name() != "n1" {
				t.Errorf("%s: stops %v", name, o.Fence)
			}
		default:
			t.Errorf("%s: %T %s", name, d.Operation, d.Reason)
		}
	}
}

// A voter at the peer URL of a membership whose member id is not on record, and of which nothing is left, is a stranger also for a restore.
func TestDecide_CountsAStrangerAtAPeerURLOfOurs(t *testing.T) {
	stands := func(s *scene) *scene { return s.unrecorded(3).unidentified(3).wiped(3).undeclared(3) }
	restore := stands(formed(3)).silent(2).restored("n2")
	recover := stands(formed(3).running().local()).silent(2).restored()
	*recover.Requests.Tasks[0].Restore = cke.RestoreOrder{Survivor: "n1", Without: []string{"n2"}}
	for name, s := range map[string]*scene{"restore": restore, "recover": recover} {
		if d := strategy.Decide(s.Input); !refusal(cke.CodeFence, "")(d) {
			t.Errorf("%s: %T %s", name, d.Operation, d.Reason)
		}
	}
	if st := stands(formed(3).running().local()).silent(2).report(); st.Health != cke.HealthUnknown {
		t.Errorf("%s %s", st.Health, st.Summary)
	}
}
