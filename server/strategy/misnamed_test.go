package strategy_test

import (
	"slices"
	"strings"
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// exchanged lets the file give the hostnames of n1 and n2 to each other's machines.
func exchanged() *scene {
	s := formed(3).running()
	for i, name := range []string{"n2", "n1"} {
		s.Spec.Nodes[i].Hostname = name
		s.Seen.Nodes[i].Node.Hostname = name
	}
	return s
}

// A name that a member has and that the file gives to another machine means no machine: nothing is done by it.
func TestDecide_ActsOnNoNameThatMeansAnotherMachine(t *testing.T) {
	swapped := func() *scene { // the machines have exchanged their addresses, and the file says nothing of it
		s := formed(3).running()
		a, b := s.node(1), s.node(2)
		a.Containers, b.Containers = b.Containers, a.Containers
		a.Volumes, b.Volumes = b.Volumes, a.Volumes
		return s
	}
	for name, scene := range map[string]func() *scene{"hostnames": exchanged, "addresses": swapped} {
		for _, kind := range []cke.TaskKind{cke.TaskDrain, cke.TaskReplace, cke.TaskMoveLeader, cke.TaskDefragment} {
			s := scene()
			s.Requests.Tasks = []cke.Task{{ID: "t1", Kind: kind, Node: "n1", Subject: "join1"}}
			if name == "addresses" { // the lower rules start nothing on the wrong machine first
				s.Seen.Etcd.Quorate = true
			}
			d := strategy.Decide(s.Input)
			o, refused := d.Operation.(op.Refuse)
			if name == "hostnames" && (!refused || o.Why.Code != cke.CodeMisnamed) {
				t.Errorf("%s exchanged, %s: %+v", name, kind, d)
			}
			if _, drains := d.Operation.(op.DrainNode); drains {
				t.Errorf("%s exchanged, %s: drained", name, kind)
			}
		}
		s := scene()
		st := strategy.Report(s.Input, strategy.Decide(s.Input), cke.Status{})
		told := 0
		for _, p := range st.Problems {
			if p.Code == cke.CodeMisnamed && p.Remedy != "" {
				told++
			}
		}
		if told != 2 {
			t.Errorf("%s exchanged: %d problems: %+v", name, told, st.Problems)
		}
		for _, m := range st.Members[:2] {
			if m.CanStop {
				t.Errorf("%s exchanged: %s may be stopped", name, m.Name)
			}
		}
		if !st.Members[2].CanStop && name == "hostnames" {
			t.Errorf("%s exchanged: %s may not be stopped: %s", name, st.Members[2].Name, st.Members[2].CannotStopBecause)
		}
	}
	orders := map[string]cke.RestoreOrder{
		"left out":  {Target: "file:///b", Without: []string{"n1"}},
		"destroyed": {Target: "file:///b", Destroyed: []string{"n1"}},
		"survivor":  {Survivor: "n1"},
	}
	for name, o := range orders {
		s := exchanged()
		s.Requests.Tasks = []cke.Task{{ID: "t1", Kind: cke.TaskRestore, Restore: &o}}
		if r, refused := strategy.Decide(s.Input).Operation.(op.Refuse); !refused || r.Why.Code != cke.CodeMisnamed {
			t.Errorf("hostnames exchanged, a restore with n1 %s: %+v", name, strategy.Decide(s.Input))
		}
	}
	lifted := exchanged().frozenBy("two-quorums c1", false)
	lifted.Requests.Tasks = []cke.Task{{ID: "t1", Kind: cke.TaskUnfreeze, Subject: "f1", Wrong: []string{"n1"}}}
	if r, refused := strategy.Decide(lifted.Input).Operation.(op.Refuse); !refused || r.Why.Code != cke.CodeMisnamed {
		t.Errorf("hostnames exchanged, n1 named as wrong: %+v", strategy.Decide(lifted.Input))
	}
	deleted := exchanged().silent(1)
	deleted.Deleting, deleted.Destroyed = true, []string{"n1"}
	if d := strategy.Decide(deleted.Input); d.Operation != nil || d.Blockers == nil {
		t.Errorf("hostnames exchanged, deleted with n1 destroyed: %+v", d)
	}
	moved := formed(3).running()
	moved.Spec.Nodes[1].Address = "10.0.9.2"
	if m := moved.Identity.Misnamed(moved.Spec); m != nil {
		t.Errorf("a machine that moves: %+v", m)
	}
}

// A machine got another address, and is no control-plane node any more: no other one has exchanged anything with it.
func TestReport_SaysThatAMachineMovedWithoutItsMember(t *testing.T) {
	s := formed(3).lost()
	s.node(2).Containers = nil
	there := *s.node(2)
	there.Node.Address, there.Node.ControlPlane = "10.0.9.2", false
	s.Spec.Nodes[1] = there.Node
	s.Seen.Nodes = append(s.Seen.Nodes, there)
	s.node(2).Volumes = nil
	s.silent(2)
	for _, p := range s.report().Problems {
		if p.Code == cke.CodeMisnamed {
			if strings.Contains(p.Message, "exchanged") || !strings.Contains(p.Remedy, "declare it as a control-plane node until its member has moved") {
				t.Errorf("%s: %s", p.Message, p.Remedy)
			}
			return
		}
	}
	t.Errorf("not told: %+v", s.report().Problems)
}

// Two machines exchanged their addresses, and the cluster file does not say so. Neither member is given up: its data is on the other machine.
func TestDecide_KeepsAMemberWhoseVolumeAnotherMachineCarries(t *testing.T) {
	s := formed(5)
	s.Spec.Policies.Replace = cke.ReplacePolicy{Mode: cke.ReplaceAuto}
	a, b := s.node(4), s.node(5)
	a.Containers, b.Containers, a.Volumes, b.Volumes = b.Containers, a.Containers, b.Volumes, a.Volumes
	for _, i := range []int{4, 5} {
		*s.endpoint(i) = cke.EndpointStatus{Join: s.endpoint(i).Join, URL: s.endpoint(i).URL, Problem: "refused"}
	}
	d := strategy.Decide(s.Input)
	if d.Operation != nil {
		t.Errorf("%+v", d)
	}
	for _, p := range strategy.Report(s.Input, d, cke.Status{}).Problems {
		if strings.Contains(p.Message+p.Remedy, "gone") || strings.Contains(p.Remedy, "replace") {
			t.Errorf("%+v", p)
		}
	}
	a.Volumes, b.Volumes = nil, nil
	if d := strategy.Decide(s.Input); d.Operation == nil {
		t.Errorf("%+v", d)
	}
}

// carriedBy lets machines have exchanged their addresses: what the ith node had is on the node that to has at its place.
func (s *scene) carriedBy(to ...int) *scene {
	was := slices.Clone(s.Seen.Nodes)
	for i := range to {
		s.quiet(i + 1)
	}
	for i, at := range to {
		n := s.node(at)
		n.Containers, n.Volumes = was[i].Containers, was[i].Volumes
	}
	return s
}

// Every machine has the address of another one. All volumes are seen, so nothing is lost: no restore and no deletion is offered, and
// a restore, which gives up what backups do not have, is refused until the machines have their addresses back.
func TestDecide_GivesUpNoClusterWhoseVolumesAreAllElsewhere(t *testing.T) {
	for name, machines := range map[string]struct {
		members int
		to      []int
		stopped bool
		health  cke.Health
	}{
		"three in a cycle":         {3, []int{2, 3, 1}, false, cke.HealthUnknown},
		"of which none runs":       {3, []int{2, 3, 1}, true, cke.HealthLost},
		"the only one and a spare": {1, []int{2, 1}, false, cke.HealthUnknown},
	} {
		s := formed(len(machines.to))
		for i := len(machines.to); i > machines.members; i-- {
			s.unjoined(i)
			s.Spec.Nodes[i-1].ControlPlane, s.node(i).Node.ControlPlane = false, false
		}
		for i := range machines.members {
			if machines.stopped {
				s.stopped(i + 1)
			}
		}
		s.carriedBy(machines.to...).lost()
		d := strategy.Decide(s.Input)
		if d.Operation != nil {
			t.Errorf("%s: %+v", name, d)
		}
		st := strategy.Report(s.Input, d, cke.Status{})
		if st.Health != machines.health {
			t.Errorf("%s: %s: %s", name, st.Health, st.Reason)
		}
		elsewhere := 0
		for _, p := range slices.Concat(st.Problems, d.Blockers) {
			if p.Code == cke.CodeBlankNodes || strings.Contains(p.Remedy, "cluster delete") || strings.Contains(p.Remedy, "ckecli restore") {
				t.Errorf("%s: %+v", name, p)
			}
			if p.Code == cke.CodeMisnamed {
				elsewhere++
			}
		}
		if elsewhere != machines.members {
			t.Errorf("%s: %d volumes named of %d: %+v", name, elsewhere, machines.members, st.Problems)
		}
		o := cke.RestoreOrder{Target: "file:///b"}
		if why := strategy.RestoreRefusal(s.Input, o); why == nil || why.Code != cke.CodeMisnamed {
			t.Errorf("%s: a restore: %+v", name, why)
		}
		for i := range s.Seen.Nodes { // gone for good, it is restored
			s.Seen.Nodes[i].Containers, s.Seen.Nodes[i].Volumes = nil, nil
		}
		if why := strategy.RestoreRefusal(s.Input, o); why != nil {
			t.Errorf("%s, and wiped: a restore: %+v", name, why)
		}
	}
}

// A recovery continues from the data of a member whose volume another machine carries: it is read there, after all others were stopped.
// Where only its volume is, nothing can read it, and the recovery is refused before anything is stopped.
func TestDecide_RecoversFromWhereTheDataIs(t *testing.T) {
	lost := func(i, at int) *scene { // what the ith node had is on another one
		s := formed(4).unjoined(4).with(func(s *scene) { s.Spec.Nodes[3].ControlPlane = false })
		a, b := s.node(i), s.node(at)
		a.Containers, b.Containers, a.Volumes, b.Volumes = b.Containers, a.Containers, b.Volumes, a.Volumes
		s.stopped(2).quiet(i)
		s.Requests.Tasks = []cke.Task{{ID: "t1", Kind: cke.TaskRestore, Restore: &cke.RestoreOrder{Survivor: "n1"}}}
		return s.lost()
	}
	s := lost(1, 4)
	b, begins := strategy.Decide(s.Input).Operation.(op.BeginRestore)
	if last := b.Fence; !begins || last[len(last)-1].ID != "join1" || last[len(last)-1].Node.Address != "10.0.0.4" {
		t.Errorf("%+v", strategy.Decide(s.Input))
	}
	s = lost(1, 4)
	s.node(4).Containers = nil
	if r, refused := strategy.Decide(s.Input).Operation.(op.Refuse); !refused || r.Why.Code != cke.CodeMisnamed {
		t.Errorf("%+v", strategy.Decide(s.Input))
	}
}

// A volume that is seen on another machine is there, also while nothing answers at its member's address.
func TestRestore_GivesUpNoVolumeThatIsSeenElsewhere(t *testing.T) {
	s := formed(4)
	s.unjoined(4)
	s.carriedBy(4, 2, 3, 1).silent(1, 2, 3).lost()
	o := cke.RestoreOrder{Target: "file:///b", Destroyed: []string{"n1", "n2", "n3"}}
	if why := strategy.RestoreRefusal(s.Input, o); why == nil || why.Code != cke.CodeMisnamed {
		t.Errorf("%+v", why)
	}
}
