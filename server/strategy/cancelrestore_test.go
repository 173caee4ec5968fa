package strategy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// calledOff is a restore of a cluster that was declared to be restored, with all members before stopped. It is canceled.
func calledOff() *scene {
	s := formed(3).stopped(1, 2, 3)
	s.Identity = s.Identity.Awaiting(noon)
	s.begun()
	s.Requests.Tasks = []cke.Task{{ID: "t2", Kind: cke.TaskCancelRestore, By: "ann@boot-1", At: noon}}
	return s
}

// A cancellation starts the members again that the restore stopped, of the incarnation that continues and of none that is over.
func TestCancelRestore_StartsAgainWhatContinues(t *testing.T) {
	over := func(s *scene) { s.node(3).Over = []string{formed(3).Identity.Incarnation.ID} }
	removed := func(s *scene) {
		for i := range s.Seen.Nodes {
			s.Seen.Nodes[i].Containers = nil
		}
	}
	runs := func(i int) func(*scene) {
		return func(s *scene) { s.node(i).Containers[0].State = cke.ContainerRunning }
	}
	for name, c := range map[string]struct {
		change []func(*scene)
		starts int
		says   string // by the refusal or the reason
	}{
		"all were stopped":         {nil, 3, "continues as it was"},
		"all were removed":         {[]func(*scene){removed}, 3, "continues as it was"},
		"one runs":                 {[]func(*scene){runs(2)}, 3, "continues as it was"},
		"none was stopped":         {[]func(*scene){runs(1), runs(2), runs(3)}, 0, "continues as it was"},
		"they are over":            {[]func(*scene){over, removed}, 0, "continues as it was"},
		"they may be over":         {[]func(*scene){over}, -1, "a mark on a node names its incarnation as over"},
		"another restore is below": {[]func(*scene){replaces}, 0, "the one whose place it took continues"},
		"a later incarnation runs": {[]func(*scene){removed, func(s *scene) {
			s.Identity.Incarnation.Replaced = append(s.Identity.Incarnation.Replaced, "later")
			s.leaves("later", cke.ContainerRunning)
			s.serves("later")
		}}, 0, "continues as it was"},
		"a later incarnation, and a mark": {[]func(*scene){removed, over, func(s *scene) { s.leaves("later", cke.ContainerRunning) }}, 0, "continues as it was"},
		"another one may be later":        {[]func(*scene){func(s *scene) { s.leaves("other", cke.ContainerRunning) }}, -1, "incarnation other, which only nodes have, may be newer than life"},
		"another one, and were removed":   {[]func(*scene){removed, func(s *scene) { s.leaves("other", cke.ContainerRunning) }}, -1, "incarnation other, which only nodes have, may be newer than life"},
		"another one, on a silent node":   {[]func(*scene){func(s *scene) { s.leaves("other", cke.ContainerRunning); s.silent(4) }}, -1, "may be newer than life"},
		"both serve, and one is stopped":  {[]func(*scene){func(s *scene) { s.leaves("other", cke.ContainerRunning); s.serves("other") }}, -1, "incarnation other serves"},
		"two nodes have a member": {[]func(*scene){func(s *scene) {
			s.found("life", cke.ContainerExited)
			s.container(4).Join, s.node(4).Volumes[0].Join = "join1", "join1"
		}}, -1, "container etcd-cke.old is on n1 and on n4: remove the one that is not needed"},
		"two nodes have a member, and it runs": {[]func(*scene){runs(1), runs(2), runs(3), func(s *scene) {
			s.found("life", cke.ContainerExited)
			s.container(4).Join, s.node(4).Volumes[0].Join = "join1", "join1"
		}}, 0, "continues as it was"},
		"one may be later, on a machine that is gone for good": {[]func(*scene){func(s *scene) {
			inc := s.Identity.Incarnation
			inc.Replaced, inc.Restore.Order.Destroyed = append(inc.Replaced, "other"), []string{"n3"}
			s.silent(3)
		}}, 2, "continues as it was"},
		"it was tried before": {[]func(*scene){runs(1), runs(2), runs(3), func(s *scene) { s.Identity.Incarnation.Restore.Canceling = true }}, 3, "continues as it was"},
		"a stop was cut off":  {[]func(*scene){runs(1), runs(2), runs(3), func(s *scene) { s.container(3).KeptDown = true }}, 3, "continues as it was"},
	} {
		t.Run(name, func(t *testing.T) {
			s := calledOff()
			for _, change := range c.change {
				change(s)
			}
			d := strategy.Decide(s.Input)
			starts, says := -1, d.Reason
			switch o := d.Operation.(type) {
			case op.CancelRestore:
				starts = len(o.Revive)
			case op.Refuse:
				says = o.Why.Error()
			}
			if starts != c.starts || !strings.Contains(says, c.says) {
				t.Errorf("%T starts %d: %s", d.Operation, starts, says)
			}
		})
	}
}

// A restore whose cancellation failed does not continue: it is canceled as soon as that is possible.
func TestRestore_DoesNotContinueOnceItIsCanceled(t *testing.T) {
	s := calledOff()
	s.Requests.Tasks, s.Identity.Incarnation.Restore.Canceling = nil, true
	d := strategy.Decide(s.Input)
	if _, cancels := d.Operation.(op.CancelRestore); !cancels {
		t.Errorf("%T: %s", d.Operation, d.Reason)
	}
	d = strategy.Decide(s.silent(2, 3).Input)
	if d.Operation != nil || !strings.Contains(d.Blockers[len(d.Blockers)-1].Remedy, "once that is possible") {
		t.Errorf("%T: %s, %+v", d.Operation, d.Reason, d.Blockers)
	}
}

// leaves lets n4 have a container of an incarnation that no record names, which the restore put on record as replaced.
func (s *scene) leaves(life string, state cke.ContainerState) {
	s.found(life, state)
	inc := *s.Identity.Incarnation
	inc.Replaced = append(slices.Clone(inc.Replaced), life)
	s.Identity.Incarnation = &inc
}

// found lets n4 have a container of an incarnation that no record names.
func (s *scene) found(life string, state cke.ContainerState) {
	n := cke.NodeStatus{Node: cke.Node{Hostname: "n4", Address: "10.0.0.4"}, SeenAt: noon, Clock: noon}
	n.Containers = []cke.Container{{Name: "etcd-cke.old", State: state, StartedAt: noon.AddDate(-1, 0, 0), Cluster: "demo", Incarnation: life, Join: "old", Place: "https://10.0.0.4:2379 https://10.0.0.4:2380"}}
	n.Volumes = []cke.Volume{{Name: "etcd-cke.old", Cluster: "demo", Incarnation: life, Join: "old"}}
	s.Seen.Nodes = append(s.Seen.Nodes, n)
}

// serves lets the member on n4 serve by a list of its own.
func (s *scene) serves(life string) {
	c := s.node(4).Containers[0]
	s.Seen.Etcd.Elsewhere = []cke.Elsewhere{{Place: c.Place, EndpointStatus: cke.EndpointStatus{Join: c.Join, URL: "https://10.0.0.4:2379", Linearizable: true, Serializable: true, MemberID: "m9"},
		Source: cke.MembersLinearizable, Members: []cke.Member{{ID: "m9", Name: "n4"}}}}
}

// A cluster was deleted and declared again, and a node that was off comes back with a member of the deleted one. On a new host a restore stops
// the members that serve, and is canceled: it starts them again, whether it has stopped that one or not. It cannot if what serves is not what
// is on record.
func TestCancelRestore_ALeftoverOfADeletedClusterIsNotWhatContinues(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*scene)
		starts int
	}{
		"the members on record serve":    {func(*scene) {}, 3},
		"a quorum of them runs":          {func(s *scene) { s.stopped(3) }, 3},
		"only its volume is left":        {func(s *scene) { s.node(4).Containers = nil }, 3},
		"they do not":                    {func(s *scene) { s.stopped(2, 3) }, -1},
		"it serves":                      {func(s *scene) { s.serves("deleted") }, -1},
		"a mark says that they are over": {func(s *scene) { s.node(1).Over = []string{s.Identity.Incarnation.Replaced[0]} }, -1},
	} {
		for _, state := range []cke.ContainerState{cke.ContainerRunning, cke.ContainerExited} {
			s := formed(3)
			s.Identity = s.Identity.Awaiting(noon)
			s.found("deleted", cke.ContainerRunning)
			c.before(s)
			s.restored()
			s.Requests.Tasks[0].Restore.Lineage = "named"
			b, is := strategy.Decide(s.Input).Operation.(op.BeginRestore)
			if !is {
				t.Fatalf("%s: %+v", name, strategy.Decide(s.Input))
			}
			inc := cke.NewRestoration(s.Spec, s.Identity, cke.Restoration{ID: "t0", Order: cke.RestoreOrder{Target: "file:///b"}}, noon)
			inc.Replaced = slices.Concat(b.Precede, inc.Replaced, b.Replaces)
			next, err := s.Identity.Restoring(inc)
			if err != nil {
				t.Fatal(err)
			}
			s.Identity, s.Seen.Etcd = next, cke.EtcdStatus{}
			for i := range 3 {
				*s.container(i + 1) = *formed(3).stopped(1, 2, 3).container(i + 1)
				s.container(i + 1).KeptDown = true
			}
			if s.node(4).Containers != nil {
				s.container(4).State = state
			}
			s.Requests.Tasks = []cke.Task{{ID: "t2", Kind: cke.TaskCancelRestore, By: "ann@boot-1", At: noon}}
			d := strategy.Decide(s.Input)
			starts := -1
			if o, is := d.Operation.(op.CancelRestore); is {
				starts = len(o.Revive)
			}
			if starts != c.starts {
				t.Errorf("%s, it is %s: starts %d: %+v", name, state, starts, d.Operation)
			}
		}
	}
}

// A former node that does not answer keeps no restore from being canceled: a quorum has to be started again. Memberships that ended according
// to marks have no part in that.
func TestCancelRestore_DemandsAQuorumOfWhatContinues(t *testing.T) {
	for name, c := range map[string]struct {
		change          func(*scene)
		starts, members int
		silent          []string
	}{
		"all answer":    {func(*scene) {}, 3, 3, nil},
		"one is silent": {func(s *scene) { s.silent(3) }, 2, 3, []string{"n3"}},
		"it is silent, others run": {func(s *scene) {
			s.silent(3)
			s.Seen.Nodes[0].Containers[0].State = cke.ContainerRunning
			s.Seen.Nodes[1].Containers[0].State = cke.ContainerRunning
		}, 2, 3, []string{"n3"}},
		"it is gone for good":       {func(s *scene) { s.silent(3); s.Identity.Incarnation.Restore.Order.Destroyed = []string{"n3"} }, 2, 3, nil},
		"a mark ended a membership": {func(s *scene) { s.node(3).Over = []string{"join3"} }, 2, 2, nil},
		"one lost what it had":      {func(s *scene) { s.wiped(3) }, 2, 3, nil},
	} {
		s := calledOff()
		c.change(s)
		d := strategy.Decide(s.Input)
		o, is := d.Operation.(op.CancelRestore)
		if !is || len(o.Revive) != c.starts || o.Members != c.members || !slices.Equal(o.Silent, c.silent) {
			t.Errorf("%s: %+v", name, d.Operation)
		}
	}
}

// The host was lost while a restore was prepared, and the identity beside the backups is from then. Another restore is canceled, and starts
// the members again that served: no mark names their incarnation, nor keeps the next cancellation from the same.
func TestCancelRestore_WhatItStartsIsNotMarkedAsOver(t *testing.T) {
	s := formed(3).stopped(1, 2, 3)
	s.begun()
	s.Identity = s.Identity.Awaiting(noon)
	for range 2 {
		s.begun()
		s.Requests.Tasks = []cke.Task{{ID: "t9", Kind: cke.TaskCancelRestore, By: "ann@boot-1", At: noon}}
		d := strategy.Decide(s.Input)
		o, is := d.Operation.(op.CancelRestore)
		if !is || len(o.Revive) != 3 {
			t.Fatalf("%+v", d.Operation)
		}
		back, err := s.Identity.RestoreCancelled(*s.Identity.Incarnation)
		if err != nil {
			t.Fatal(err)
		}
		if s.Identity = back; slices.Contains(back.Over(), o.Revive[0].Incarnation) {
			t.Errorf("over: %v", back.Over())
		}
		for i := range s.Seen.Nodes {
			s.node(i + 1).Over = back.Over()
		}
	}
	was := formed(3)
	was.Seen.Nodes[0].Over = s.Identity.Over()
	if f, is := strategy.Decide(was.Input).Operation.(op.Freeze); is {
		t.Errorf("the store of the members: %s", f.Problem.Message)
	}
}

// The same, and the nodes of the restore that was prepared do not answer: its members may have served since.
func TestCancelRestore_WhatWasPreparedMayHaveServed(t *testing.T) {
	for silent, starts := range map[int]int{1: 3, 2: -1} {
		s := formed(3).stopped(1, 2, 3)
		s.begun()
		for i := range silent {
			s.Identity.Joins[i].Node.Address = fmt.Sprintf("10.0.0.%d", 7+i)
		}
		s.Identity = s.Identity.Awaiting(noon)
		s.begun()
		s.Requests.Tasks = []cke.Task{{ID: "t9", Kind: cke.TaskCancelRestore, By: "ann@boot-1", At: noon}}
		d, got := strategy.Decide(s.Input), -1
		if o, is := d.Operation.(op.CancelRestore); is {
			got = len(o.Revive)
		}
		if r, refused := d.Operation.(op.Refuse); got != starts || refused && !strings.Contains(r.Why.Error(), "may have been started since life") {
			t.Errorf("%d silent: starts %d: %+v", silent, got, d.Operation)
		}
	}
}

// Once the start of restored members is on record, a former node that does not answer holds a restore up that cannot be canceled: what is left
// is another one.
func TestRestore_SaysHowToContinueWithoutAFormerNode(t *testing.T) {
	for _, started := range []bool{false, true} {
		s := calledOff()
		s.Requests.Tasks = nil
		former := &s.Identity.Ended[2].Node
		former.Address, former.Hostname = "10.0.0.9", "n9"
		for i := range s.Identity.Joins {
			if started {
				s.Identity.Joins[i].StartedAt = noon
			}
		}
		d := strategy.Decide(s.Input)
		at := slices.IndexFunc(d.Blockers, func(p cke.Problem) bool { return p.Node == "n9" })
		if at < 0 || strings.Contains(d.Blockers[at].Remedy, "ckecli restore --destroyed n9") != started {
			t.Errorf("started %v: %+v %+v", started, d.Operation, d.Blockers)
		}
	}
}
