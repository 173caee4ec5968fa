package strategy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// Requirements I1, I3, I4, I10, D13: what carries each member, with image, arguments and limits, and where it is reached.
func TestReport_TellsWhatCarriesEachMember(t *testing.T) {
	s := formed(3).running().with(func(s *scene) {
		c := s.container(2)
		c.ImageID, c.Description, c.CPUs, c.Memory = "sha256:0123", "4567", 1.5, 8<<30
		limits := cke.Resources{CPUs: 1.5, Memory: 8 << 30}
		s.Spec.Options.Etcd.Resources, s.Identity.Joins[1].Etcd.Resources = limits, limits
		e := s.endpoint(2)
		e.Revision, e.DBSize, e.DBSizeInUse = 41, 2000, 1000
	}).silent(3).report()
	want := cke.MemberStatus{
		Name: "n2", Address: "10.0.0.2", ClientURL: "https://10.0.0.2:2379", PeerURL: "https://10.0.0.2:2380", ID: "m2", Join: "join2",
		Role: "follower", State: "healthy", Since: noon, Ready: true, Version: "3.6.16", Revision: 41, DBSize: 2000, DBSizeInUse: 1000,
		CannotStopBecause: s.Members[1].CannotStopBecause,
		Container: &cke.MemberContainer{Name: "etcd-cke.join2", State: cke.ContainerRunning, Image: spec(3).Options.Etcd.Image,
			ImageID: "sha256:0123", Description: "4567", CPUs: 1.5, Memory: 8 << 30},
	}
	if diff := cmp.Diff(want, s.Members[1]); diff != "" {
		t.Errorf("member (-want +got):\n%s", diff)
	}
	// What was last seen of a node that is silent now.
	if m := s.Members[2]; m.Container == nil || m.PeerURL != "https://10.0.0.3:2380" || m.Ready || m.Version != "" {
		t.Errorf("a silent member: %+v", m)
	}
	s = formed(3).wiped(3).report()
	if m := s.Members[2]; m.Container != nil || m.State != "missing" {
		t.Errorf("a member whose container is gone: %+v", m)
	}
	s = blank(1).report()
	if m := s.Members[0]; m.ClientURL != "" || m.PeerURL != "" || m.Container != nil {
		t.Errorf("no member yet: %+v", m)
	}
	s = formed(1).running().joinedBy(true).report()
	if m := s.Members[1]; m.ClientURL != "https://10.9.9.9:2379" || m.PeerURL != "https://10.9.9.9:2380" {
		t.Errorf("a stranger: %+v", m)
	}
}

// Requirements A18, A19, I5, I8, I18: storage that is there is never moved, resized or replaced for another wish of the
// file; that it is elsewhere is told. What is missing beside it is made anew.
func TestDecide_NeverCorrectsStorageThatIsThere(t *testing.T) {
	other := func(change func(*cke.EtcdOptions)) *scene {
		return formed(3).running().with(func(s *scene) { change(&s.Spec.Options.Etcd) })
	}
	check(t, []row{
		{"another base name", other(func(o *cke.EtcdOptions) { o.VolumeName = "data" }), nil, "nothing to do", nil},
		{"another disk", other(func(o *cke.EtcdOptions) { o.VolumeRoot = "/mnt/nvme" }), nil, "nothing to do", nil},
		{"the container is gone, the volume is there", formed(3).running().with(func(s *scene) { s.node(2).Containers = nil; s.quiet(2) }),
			op.StartMembers{Joins: formed(3).Identity.Joins[1:2], AwaitServing: true}, "n2 stopped; the volume is there", nil},
	})
	for _, change := range []func(*cke.EtcdOptions){
		func(o *cke.EtcdOptions) { o.VolumeName = "data" },
		func(o *cke.EtcdOptions) { o.VolumeRoot = "/mnt/nvme" },
	} {
		c, _ := other(change).report().Condition(cke.CondDataVolumesReady)
		if c.Status != cke.True || c.Reason != "KeptElsewhere" || !strings.Contains(c.Message, "n1, n2 and n3 are where the file had them before") {
			t.Errorf("%+v", c)
		}
	}
}

// Requirement C6: an unhealthy member on a declared node is never removed for being unhealthy, however long that lasts.
func TestDecide_KeepsUnhealthyMembersOfDeclaredNodes(t *testing.T) {
	for _, n := range []int{3, 5, 7} {
		for name, fault := range map[string]func(*scene){
			"silent":                  func(s *scene) { s.silent(2) },
			"stopped":                 func(s *scene) { s.stopped(2) },
			"runs and does not serve": func(s *scene) { s.quiet(2) },
			"its engine hangs": func(s *scene) {
				s.node(2).Problem = &cke.Problem{Code: cke.CodeEngine, Node: "n2", Message: "the engine hangs"}
				s.quiet(2)
			},
			"reports an error": func(s *scene) { s.endpoint(2).Errors = []string{"etcdserver: no space"} },
		} {
			s := formed(n).running().with(fault)
			s.Before = s.report()
			for _, wait := range []time.Duration{0, time.Hour, 365 * 24 * time.Hour} {
				d := strategy.Decide(s.later(wait).Input)
				switch d.Operation.(type) {
				case op.RemoveMember, op.EndMembership, op.AddMember:
					t.Errorf("%d members, %s for %s: %s", n, name, wait, d.Reason)
				}
				if m, _ := s.report().Condition(cke.CondAllMembersReady); m.Status == cke.True {
					t.Errorf("%d members, %s: %+v", n, name, m)
				}
			}
		}
	}
}

// Requirements A10, A11: a container whose membership ended, or whose incarnation a restore replaced, is stopped, and its
// data is kept; while its node is silent nothing is known of it. What is not on record stays as it is.
func TestDecide_StopsContainersThatCarryNoMember(t *testing.T) {
	stray := func(state cke.ContainerState, cluster string) func(*scene) {
		return func(s *scene) {
			n := s.node(2)
			n.Containers = append(n.Containers, cke.Container{Name: "etcd-cke.former", State: state, Cluster: cluster, Incarnation: "before", Join: "former"})
			n.Volumes = append(n.Volumes, cke.Volume{Name: "etcd-cke.former", Cluster: cluster, Incarnation: "before", Join: "former"})
			s.Identity.Incarnation.Replaced = []string{"before"}
		}
	}
	empty := func(s *scene) { s.node(2).Containers[len(s.node(2).Containers)-1].Data = cke.DataMissing }
	known := func(s *scene) {
		s.Identity.Ended = append(s.Identity.Ended, cke.Join{ID: "former", Incarnation: "before", Node: s.node(2).Node, Volume: "etcd-cke.former", EndedAt: s.Seen.ObservedAt})
	}
	unknown := func(s *scene) { s.Identity.Incarnation.Replaced = nil }
	f := formed(3)
	stop := op.StopStray{Join: cke.Join{ID: "former", Incarnation: "before", Node: f.node(2).Node, Volume: "etcd-cke.former"}}
	check(t, []row{
		{"it runs", formed(3).running().with(stray(cke.ContainerRunning, "demo")), stop, "container etcd-cke.former on n2 belongs to no present membership", nil},
		{"it is restarted again and again", formed(3).running().with(stray(cke.ContainerRestarting, "demo")), stop, "belongs to no present membership", nil},
		{"it ended", formed(3).running().with(stray(cke.ContainerExited, "demo")), nil, "nothing to do", nil},
		{"it ended and holds nothing", formed(3).running().with(stray(cke.ContainerExited, "demo")).with(empty), stop, "belongs to no present membership", nil},
		{"it ended with its membership", formed(3).running().with(stray(cke.ContainerExited, "demo")).with(known), stop, "belongs to no present membership", nil},
		{"held back, no member is added beside it", formed(4).unjoined(2).running().with(stray(cke.ContainerExited, "demo")).with(known).failed(stop, 3, 0), nil,
			"n2 cannot take a member: n2: container etcd-cke.former is of a membership that ended, and is not removed yet", []string{"CKE207 n1", "CKE210 n2"}},
		{"of another cluster", formed(3).running().with(stray(cke.ContainerRunning, "other")), nil, "nothing to do", nil},
		{"its node is silent", formed(3).running().with(stray(cke.ContainerRunning, "demo")).silent(2), nil, "waiting for n2", []string{"CKE201 n2"}},
		{"not on record, on a node that carries a member", formed(4).unjoined(2).running().with(stray(cke.ContainerRunning, "demo")).with(unknown), nil,
			"n2 cannot take a member: n2: container etcd-cke.former (running) carries this cluster's name and is not on record", []string{"CKE318 n2"}},
		{"what serves goes first", formed(3).running().with(stray(cke.ContainerRunning, "demo")).stopped(1), op.StartMembers{Joins: f.Identity.Joins[:1], AwaitServing: true}, "n1 stopped", nil},
	})
}

// Requirement D6: founding, deleting and safety stops are asked for by nobody's window, and observation goes on in a
// pause; every other change waits for consent.
func TestDecide_FoundingDeletingAndSafetyAreNotGated(t *testing.T) {
	closed := func(s *scene) {
		s.Spec.Policies.Reconcile = cke.ReconcileWindow
		s.Spec.Policies.Window = cke.Window{Schedule: "0 2 * * 6", Duration: cke.Duration(time.Hour), TimeZone: "UTC"}
	}
	manual := func(s *scene) { s.Spec.Policies.Reconcile = cke.ReconcileManual }
	for policy, set := range map[string]func(*scene){"window": closed, "manual": manual} {
		founded := blank(3).with(set)
		deleted := formed(3).with(set).with(func(s *scene) { s.Deleting = true })
		split := formed(3).with(set).with(func(s *scene) { s.endpoint(2).ClusterID = "c2" })
		for scene, name := range map[*scene]string{founded: "bootstrap", deleted: "delete-cluster", split: "freeze"} {
			if d := strategy.Decide(scene.Input); d.Operation == nil || d.Operation.Name() != name {
				t.Errorf("%s: %s is gated: %s", policy, name, d.Reason)
			}
		}
		edited := formed(3).running().with(set).with(func(s *scene) { s.Spec.Options.Etcd.ExtraArgs = []string{"--x=1"} })
		if d := strategy.Decide(edited.Input); d.Operation != nil || d.Converged {
			t.Errorf("%s: %s is not gated", policy, d.Operation.Name())
		}
	}
	s := formed(3).held().silent(2).report()
	if m := s.Members[1]; m.State != "unreachable" || !s.ObservedAt.Equal(noon) || s.Health != cke.HealthDegraded {
		t.Errorf("observation stands still in a pause: %+v", s)
	}
	split := formed(3).held().with(func(s *scene) { s.endpoint(2).ClusterID = "c2" })
	if d := strategy.Decide(split.Input); d.Frozen == nil {
		t.Errorf("a pause hides a split brain: %s", d.Reason)
	}
}

// Requirements D9, D12, A21: how many are wanted and serve, whoever else does; what was done last, and the conditions
// from before the first quorum on.
func TestReport_IsWholeFromTheBeginning(t *testing.T) {
	prev := cke.Status{LastOperation: &cke.OperationStatus{ID: 7, Type: "bootstrap", State: cke.RecordFailed, Description: "no room", Time: noon}}
	for name, tt := range map[string]struct {
		scene  *scene
		ready  int
		quorum string
	}{
		"never founded":   {blank(3), 0, "False NotFounded"},
		"before a quorum": {forming(3, true), 0, "False NotFounded"},
		"all serve":       {formed(3), 3, "True LinearizableRead"},
		"nobody was seen": {formed(3).with(func(s *scene) { s.Seen.Nodes, s.Seen.Etcd = nil, cke.EtcdStatus{} }), 0, "Unknown NotSeen"},
		"being restored": {formed(3).stopped(1, 2, 3).lost().with(func(s *scene) {
			s.Identity.Incarnation.State, s.Identity.Incarnation.Restore = cke.Restoring, &cke.Restoration{}
		}), 0, "False Restoring"},
		"a stranger is none": {formed(3).running().silent(1).joinedBy(true), 2, "True LinearizableRead"},
	} {
		s := tt.scene.reportAfter(prev)
		q, _ := s.Condition(cke.CondQuorate)
		if s.Declared != 3 || s.Ready != tt.ready || string(q.Status)+" "+q.Reason != tt.quorum {
			t.Errorf("%s: %d of %d, %+v", name, s.Ready, s.Declared, q)
		}
		if diff := cmp.Diff(prev.LastOperation, s.LastOperation); diff != "" {
			t.Errorf("%s: last operation (-want +got):\n%s", name, diff)
		}
		if len(s.Conditions) != 13 {
			t.Errorf("%s: %d conditions", name, len(s.Conditions))
		}
	}
}
