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

// startedRestore is a restore whose start is on record, with all restored members serving.
func startedRestore() *scene {
	s := cutOffRestore()
	s.Seen.Etcd.Alarms = nil
	r := s.Identity.Incarnation.Restore
	r.Stopping = false
	for i := range s.Identity.Joins {
		j := &s.Identity.Joins[i]
		j.StartedAt = noon.Add(-2 * time.Hour)
		n := s.node(i + 1)
		n.Containers = []cke.Container{
			{Name: j.Volume, Image: j.Etcd.Image, State: cke.ContainerRunning, StartedAt: noon.Add(-time.Hour), Cluster: "demo", Incarnation: j.Incarnation, Join: j.ID, Data: cke.DataUnknown},
		}
		n.Volumes = []cke.Volume{{Name: j.Volume, Cluster: "demo", Incarnation: j.Incarnation, Join: j.ID}}
		s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Endpoints, cke.EndpointStatus{Join: j.ID, URL: j.ClientURL(), Serializable: true, Linearizable: true, ClusterID: "c2", MemberID: "x" + string(j.ID), LeaderID: "x" + string(s.Identity.Joins[0].ID)})
	}
	return s
}

// A restored quorum does not wait for a member that cannot be started as the file declares now.
func TestRestore_ContinuesWithoutOneThatCannotTakeTheDeclaredImage(t *testing.T) {
	s := startedRestore()
	s.container(3).State, s.container(3).Data = cke.ContainerRestarting, cke.DataPresent
	j3 := s.join(3)
	s.Seen.Etcd.Endpoints[2] = cke.EndpointStatus{Join: j3.ID, URL: j3.ClientURL(), Problem: "connection refused"}
	s.failed(op.Restore{Founders: s.Identity.Joins, Started: true}, 3, time.Hour/2)
	s.Spec.Options.Etcd.Image = "registry.example/etcd:typo"
	d := strategy.Decide(s.Input)
	changed, ok := d.Operation.(op.StartChanged)
	if !ok {
		t.Fatalf("%T, %s", d.Operation, d.Reason)
	}
	for _, count := range []int{1, 5, 50} {
		s.failed(changed, count, 0)
		d = strategy.Decide(s.Input)
		if _, ok := d.Operation.(op.Restore); !ok {
			t.Errorf("the restore waits for a node that it could leave out")
		}
	}
}

// The members before the restore run again, and those that it restored were never started: the fence comes first.
func TestRestore_StartsNobodyBesideWhatIsNotFenced(t *testing.T) {
	s := startedRestore()
	for i := range s.Identity.Joins {
		o := s.Identity.Ended[i]
		n := s.node(i + 1)
		n.Containers[0].State, n.Containers[0].StartedAt, n.Containers[0].Data = cke.ContainerExited, noon.Add(-time.Hour), cke.DataPresent
		n.Containers = append(n.Containers, cke.Container{Name: o.Volume, Image: o.Etcd.Image, State: cke.ContainerRunning, StartedAt: noon, Cluster: "demo", Incarnation: o.Incarnation, Join: o.ID, Data: cke.DataUnknown})
	}
	s.Seen.Etcd.Endpoints = nil
	s.failed(op.Restore{Founders: s.Identity.Joins, Started: true}, 3, time.Hour/2)
	s.Spec.Options.Etcd.ExtraArgs = []string{"--x"}
	if c, ok := strategy.Decide(s.Input).Operation.(op.StartChanged); ok {
		t.Errorf("starts %s while three members of the life before run", c.Join.Node.Name())
	}
}

// Where only a copy of its record was known, what a cluster had may be removed only after the start is on record: its nodes are waited for
// until a restored member was started.
func TestRestore_WaitsForNodesWhoseFormerContainersMayBeLeft(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scene)
		waits  bool
	}{
		"its record is a copy":         {func(*scene) {}, true},
		"it is known":                  {func(s *scene) { s.Identity.Incarnation.Restore.Before.State = cke.Formed }, false},
		"a restored member ran":        {func(s *scene) { s.container(1).StartedAt = noon }, false},
		"the node was left out":        {func(s *scene) { s.Identity.Incarnation.Restore.Order.Without = []string{"n3"} }, false},
		"one took another's place":     {replaces, true},
		"the machine is gone for good": {func(s *scene) { s.Identity.Incarnation.Restore.Order.Destroyed = []string{"n3"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := startedRestore().silent(3)
			s.Identity.Incarnation.Restore.Before.State = cke.Awaiting
			for i := range 2 {
				s.container(i+1).State, s.container(i+1).StartedAt = cke.ContainerCreated, time.Time{}
			}
			s.Seen.Etcd = cke.EtcdStatus{}
			c.change(s)
			d := strategy.Decide(s.Input)
			if _, restores := d.Operation.(op.Restore); restores == c.waits || c.waits && (len(d.Blockers) == 0 || d.Blockers[0].Node != "n3") {
				t.Errorf("%T: %s, %+v", d.Operation, d.Reason, d.Blockers)
			}
		})
	}
}

// exchanged lets each machine have the address of the one after it, and its container be moved there.
func (s *scene) exchanged() *scene {
	nodes := slices.Clone(s.Seen.Nodes)
	for i := range nodes {
		to := &s.Seen.Nodes[(i+1)%len(nodes)]
		to.Containers, to.Volumes = slices.Clone(nodes[i].Containers), nodes[i].Volumes
		for k := range to.Containers {
			to.Containers[k].Place = fmt.Sprintf("https://%[1]s:2379 https://%[1]s:2380", to.Node.Address)
		}
	}
	return s
}

// A new management host knows members from before their machines got the addresses of each other. A restore onto other machines stops them where
// they run, not where they are on record.
func TestDecide_ARestoreStopsMembersWhoseMachinesExchangedAddresses(t *testing.T) {
	s := formed(3).exchanged()
	s.Identity.Joins[1].Apart = true
	s.Identity = s.Identity.Awaiting(noon)
	for i := range 3 {
		n := cke.Node{Hostname: fmt.Sprint("n", i+4), Address: fmt.Sprint("10.0.0.", i+4), ControlPlane: true}
		s.Seen.Nodes = append(s.Seen.Nodes, cke.NodeStatus{Node: n, SeenAt: noon, Clock: noon, ClientPort: cke.PortClosed, PeerPort: cke.PortClosed})
		s.Spec.Nodes = append(slices.Clone(s.Spec.Nodes), n)
	}
	s.undeclared(1, 2, 3)
	s.begunAt(noon, cke.RestoreOrder{Target: "file:///b"})
	r, is := strategy.Decide(s.Input).Operation.(op.Restore)
	if !is {
		t.Fatalf("%+v", strategy.Decide(s.Input))
	}
	for _, n := range s.Seen.Nodes[:3] {
		id := n.Containers[0].Join
		if !slices.ContainsFunc(r.Fence, func(j cke.Join) bool { return j.ID == id && j.Node.Address == n.Node.Address }) {
			t.Errorf("%s runs on %s and is not stopped", id, n.Node.Address)
		}
	}
	if len(r.Fence) != 3 || !slices.ContainsFunc(r.Fence, func(j cke.Join) bool { return j.ID == "join2" && j.Apart }) {
		t.Errorf("each once, as it is on record: %+v", r.Fence)
	}
}

// A copy of a member's disk on another machine is stopped, too, and what is read of the member is read where it is on record.
func TestDecide_ARestoreAlsoStopsACopyOfAMember(t *testing.T) {
	s := formed(4)
	s.node(4).Containers[0].Join, s.node(4).Volumes[0].Join = "join1", "join1"
	s.begunAt(noon, cke.RestoreOrder{Target: "file:///b"})
	r, is := strategy.Decide(s.Input).Operation.(op.Restore)
	if !is {
		t.Fatalf("%+v", strategy.Decide(s.Input))
	}
	var on []string
	for _, j := range r.Fence {
		if j.ID == "join1" {
			on = append(on, j.Node.Name())
		}
	}
	if !slices.Equal(on, []string{"n1", "n4"}) {
		t.Errorf("join1 is stopped on %v", on)
	}
}

// A task that cannot be decoded may be to cancel a restore: one that has started no member is held, and one that has continues.
func TestRestore_IsHeldByATaskThatCannotBeDecoded(t *testing.T) {
	s := cutOffRestore()
	s.Seen.Etcd.Alarms, s.Identity.Incarnation.Restore.Stopping = nil, false
	running := strategy.Decide(s.Input).Operation
	s.Requests.Unread = []string{"t1"}
	s.Unclosed = &cke.Problem{Code: cke.CodeRecord, Message: "KEY cannot be decoded", Remedy: "ckecli task cancel t1"}
	d := strategy.Decide(s.Input)
	if d.Operation != nil || len(d.Blockers) != 1 || d.Blockers[0].Code != cke.CodeRecord || !strings.Contains(d.Reason, "may be to cancel the restore") || !strings.Contains(d.Reason, "KEY") || d.Blockers[0].Remedy != "ckecli task cancel t1" {
		t.Errorf("%T %s: %+v", d.Operation, d.Reason, d.Blockers)
	}
	if strategy.Outrun(running, &s.Input) == nil || strategy.Outrun(op.BeginRestore{}, &s.Input) == nil {
		t.Error("a restore continues beside it")
	}
	started := startedRestore()
	started.Requests.Unread = []string{"t1"}
	d = strategy.Decide(started.Input)
	if _, is := d.Operation.(op.Restore); !is || strategy.Outrun(d.Operation, &started.Input) != nil {
		t.Errorf("%T %s", d.Operation, d.Reason)
	}
}
