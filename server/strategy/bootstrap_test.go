package strategy_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// Requirement C2: bootstrap only when no control-plane node has an etcd volume; moreover no life is on record and every
// declared node has answered.
func TestDecide_BootstrapsOnlyOnNodesThatProvablyHoldNothing(t *testing.T) {
	volume := func(v cke.Volume) func(*scene) {
		return func(s *scene) { s.node(2).Volumes = append(s.node(2).Volumes, v) }
	}
	container := func(c cke.Container) func(*scene) {
		return func(s *scene) { s.node(2).Containers = append(s.node(2).Containers, c) }
	}
	check(t, []row{
		{"one blank node", blank(1), blank(1).bootstrap(false), "no member has ever been started and every control-plane node is free of data", nil},
		{"three blank nodes", blank(3), blank(3).bootstrap(false), "", nil},
		{"one does not answer", blank(3).silent(2), nil, "bootstrap waits for n2; nothing was changed", []string{"CKE201 n2"}},
		{"two do not answer", blank(3).silent(1, 3), nil, "bootstrap waits for n1, n3", []string{"CKE201 n1", "CKE201 n3"}},
		{"one was not looked at", blank(3).with(func(s *scene) { s.Seen.Nodes = s.Seen.Nodes[:2] }), nil, "waits for n3", []string{"CKE201 n3"}},
		{"its volume by label", blank(3).with(volume(cke.Volume{Name: "x", Cluster: "demo", Incarnation: "unknown"})), nil, "waits for n2", []string{"CKE210 n2"}},
		{"a volume by the name", blank(3).with(volume(cke.Volume{Name: "etcd-cke"})), nil, "waits for n2", []string{"CKE210 n2"}},
		{"a volume by the beginning of the name", blank(3).with(volume(cke.Volume{Name: "etcd-cke.abc"})), nil, "waits for n2", []string{"CKE210 n2"}},
		{"a volume of another cluster", blank(3).with(volume(cke.Volume{Name: "etcd-cke.abc", Cluster: "other"})), blank(3).bootstrap(false), "", nil},
		{"its container that never ran", blank(3).with(container(cke.Container{Name: "x", Cluster: "demo", Incarnation: "unknown", KeptDown: true})), nil, "waits for n2", []string{"CKE210 n2"}},
		{"its container that its engine may start", blank(3).with(container(cke.Container{Name: "x", Cluster: "demo", Incarnation: "unknown"})), nil, "waits for n2", []string{"CKE317 n2"}},
		{"its container that ran", blank(3).with(container(cke.Container{Name: "x", Cluster: "demo", Incarnation: "unknown", KeptDown: true, StartedAt: noon})), nil, "waits for n2", []string{"CKE317 n2"}},
		{"its container that runs", blank(3).with(container(cke.Container{Name: "x", Cluster: "demo", Incarnation: "unknown", State: cke.ContainerRunning})), nil, "waits for n2", []string{"CKE317 n2"}},
		{"a foreign etcd", blank(3).with(container(cke.Container{Name: "etcd", Image: "quay.io/coreos/etcd:v3.5.9", State: cke.ContainerRunning})), nil, "waits for n2", []string{"CKE209 n2"}},
		{"a container of another cluster", blank(3).with(container(cke.Container{Name: "x", Cluster: "other"})), blank(3).bootstrap(false), "", nil},
		{"the client port is taken", blank(3).with(func(s *scene) { s.node(1).ClientPort = cke.PortOpen }), nil, "waits for n1", []string{"CKE208 n1"}},
		{"the peer port is taken", blank(3).with(func(s *scene) { s.node(1).PeerPort = cke.PortOpen }), nil, "waits for n1", []string{"CKE208 n1"}},
		{"by the member of another cluster", blank(3).with(container(cke.Container{Name: "x", Cluster: "other", State: cke.ContainerRunning, Place: "https://10.0.0.2:2379 https://10.0.0.2:2380"})).with(func(s *scene) {
			s.node(2).ClientPort = cke.PortOpen
		}), nil, "waits for n2", []string{"CKE208 n2"}},
		{"the client port is filtered", blank(3).with(func(s *scene) { s.node(1).ClientPort = cke.PortUnknown }), nil, "waits for n1", []string{"CKE215 n1"}},
		// Peers need the peer port, the management host does not.
		{"the peer port is filtered", blank(3).with(func(s *scene) { s.node(1).PeerPort = cke.PortUnknown }), blank(3).bootstrap(false), "", nil},
		{"a node without control plane needs no free ports", blank(3).with(func(s *scene) { s.Spec.Nodes[2].ControlPlane, s.node(3).ClientPort = false, cke.PortOpen }),
			op.Bootstrap{Spec: nonControl(3, 2), Founders: spec(3).Nodes[:2]}, "", nil},
		{"one that is silent may carry a member", blank(3).silent(3).with(func(s *scene) { s.Spec.Nodes[2].ControlPlane = false }), nil, "waits for n3", []string{"CKE201 n3"}},
		{"one carries a member that the store does not have", blank(3).with(container(cke.Container{Name: "etcd-cke.x", Cluster: "demo", Incarnation: "later", Join: "x", State: cke.ContainerRunning})).with(func(s *scene) {
			s.Spec.Nodes[1].ControlPlane = false
		}), nil, "waits for n2", []string{"CKE317 n2"}},
		{"after an abandoned life", blank(3).with(func(s *scene) { s.Identity = abandoned(3).Identity }), blank(3).bootstrap(false), "", nil},
		{"after one whose founder is no control plane any more and does not answer", retired(3, 3).silent(3), nil, "waits for n3", []string{"CKE201 n3"}},
		{"where that one alone is a quorum", retired(1, 3).silent(1), nil, "bootstrap waits for n1", []string{"CKE201 n1"}},
		{"where that one still has what was made for it", retired(1, 3).with(func(s *scene) {
			j := s.Identity.Incarnation.Founders[0]
			s.node(1).Volumes = []cke.Volume{{Name: j.Volume, Cluster: "demo", Incarnation: j.Incarnation, Join: j.ID}}
		}).failed(op.CleanUp{Left: []cke.Join{{Node: spec(1).Nodes[0]}}}, 1, 0), nil, "bootstrap waits for n1", []string{"CKE207 n1", "CKE210 n1"}},
		{"where that one was taken out of the file", retired(1, 3).silent(1).with(func(s *scene) { s.Spec.Nodes = s.Spec.Nodes[1:] }), op.Bootstrap{Spec: without(3, 0), Founders: spec(3).Nodes[1:]}, "", nil},
		{"no control-plane node", blank(1).with(func(s *scene) { s.Spec.Nodes[0].ControlPlane = false }), nil, "no control-plane node is declared", []string{"CKE101"}},
	})
}

// retired is a cluster of n nodes after the abandoned life of the first few founders, the last of which is no control plane
// any more.
func retired(founders, n int) *scene {
	return blank(n).with(func(s *scene) {
		s.Identity = abandoned(founders).Identity
		s.Spec.Nodes[founders-1].ControlPlane = false
	})
}

func without(n, i int) cke.Cluster {
	c := spec(n)
	c.Nodes = append(c.Nodes[:i:i], c.Nodes[i+1:]...)
	return c
}

func nonControl(n, i int) cke.Cluster {
	c := spec(n)
	c.Nodes[i].ControlPlane = false
	return c
}

func TestDecide_FoundersAreSortedByPeerURL(t *testing.T) {
	s := blank(3)
	s.Spec.Nodes[0], s.Spec.Nodes[2] = s.Spec.Nodes[2], s.Spec.Nodes[0]
	o, ok := strategy.Decide(s.Input).Operation.(op.Bootstrap)
	if !ok || o.Founders[0].Name() != "n1" || o.Founders[2].Name() != "n3" {
		t.Errorf("%+v", o.Founders)
	}
}

func TestDecide_BlockersSayWhatToDo(t *testing.T) {
	for _, s := range []*scene{
		blank(3).silent(2),
		blank(3).with(func(s *scene) { s.node(2).Volumes = []cke.Volume{{Name: "etcd-cke"}} }),
		blank(3).with(func(s *scene) { s.node(2).Containers = []cke.Container{{Name: "etcd"}} }),
		blank(3).with(func(s *scene) { s.node(2).ClientPort = cke.PortOpen }),
		blank(3).with(func(s *scene) { s.node(2).ClientPort = cke.PortUnknown }),
	} {
		for _, b := range strategy.Decide(s.Input).Blockers {
			if b.Remedy == "" || b.Node != "n2" {
				t.Errorf("%+v", b)
			}
		}
	}
}

func TestDecide_ResumesOrAbandonsAFounding(t *testing.T) {
	abandon := func(s *scene, nodes ...int) op.AbandonBootstrap {
		o := op.AbandonBootstrap{Founders: len(s.Identity.Joins)}
		for _, i := range nodes {
			o.Reachable = append(o.Reachable, s.join(i))
		}
		return o
	}
	edited := func(s *scene) { s.Spec.Options.Etcd.ExtraArgs = []string{"--quota-backend-bytes=1"} }
	before, begun := forming(3, false), forming(3, true)
	check(t, []row{
		{"nothing started", forming(3, false), abandon(before, 1, 2, 3), "nothing was started yet and the bootstrap was interrupted", nil},
		{"nothing made yet", forming(3, false).wiped(1, 2, 3), abandon(before, 1, 2, 3), "nothing was started yet and the bootstrap was interrupted", nil},
		{"all started", forming(3, true), begun.bootstrap(true), "resumed", nil},
		{"one ended with its data", forming(3, true).stopped(2), begun.bootstrap(true), "resumed", nil},
		{"one never ran", forming(3, true).with(func(s *scene) {
			*s.container(2) = forming(3, false).Seen.Nodes[1].Containers[0]
			s.container(2).Data = cke.DataPresent
		}), begun.bootstrap(true), "resumed", nil},
		{"one never ran and has no log", forming(3, true).with(func(s *scene) {
			*s.container(2) = forming(3, false).Seen.Nodes[1].Containers[0]
		}), abandon(begun, 1, 2, 3), "a bootstrap member cannot be started again: n2: it never ran, and holds no log", nil},
		{"one is paused", forming(3, true).with(func(s *scene) { s.container(2).State = cke.ContainerPaused }), begun.bootstrap(true), "resumed", nil},
		{"data is not known", forming(3, true).stopped(2).with(func(s *scene) { s.container(2).Data = cke.DataUnknown }), begun.bootstrap(true), "resumed", nil},

		{"nothing started, a node falls silent", forming(3, false).silent(2), abandon(before, 1, 3), "nothing was started yet and the node of a bootstrap member does not answer: n2: no answer", nil},
		{"nothing started, most nodes fall silent", forming(3, false).silent(1, 2), nil, "2 of 3 bootstrap members do not answer and could have a quorum", []string{"CKE201 n1", "CKE201 n2"}},
		{"no start on record, and one was started", forming(3, false).with(func(s *scene) { s.node(2).Containers = forming(3, true).stopped(2).Seen.Nodes[1].Containers }), nil, "was started, but no start is on record", []string{"CKE317 n2"}},
		{"other options, and engines start them", forming(3, true).with(edited).stopped(1, 2).with(func(s *scene) { s.container(2).KeptDown = false }), nil, "is started by its engine", []string{"CKE317 n2"}},
		{"the same, and the member has nothing", forming(3, true).with(edited).with(func(s *scene) {
			s.container(2).KeptDown = false
			s.Seen.Etcd.Endpoints = []cke.EndpointStatus{{Join: "join2", MemberID: "m2", Revision: cke.FirstRevision}}
		}), abandon(begun, 1, 2, 3), "no longer matches", nil},
		{"nothing started, and it failed", forming(3, false).failed(before.bootstrap(false), 1, 0), abandon(before, 1, 2, 3), "nothing was started yet and the bootstrap failed", nil},
		{"nothing started, and resuming failed", forming(3, false).failed(before.bootstrap(true), 1, time.Hour), abandon(before, 1, 2, 3), "the bootstrap failed", nil},
		{"started, a node falls silent", forming(3, true).silent(2), nil, "the bootstrap resumes when all its nodes answer, or starts over once those that do not are removed from the cluster file: n2: no answer", []string{"CKE201 n2"}},

		{"certificates hold", forming(3, true).allCertified(300), begun.bootstrap(true), "resumed", nil},
		{"one was issued by a clock far ahead", forming(3, true).allCertified(300).worth(2, 900, ""), abandon(begun, 1, 2, 3), "a bootstrap member cannot prove its identity: n2: its certificates are not valid before", nil},
		{"one has ended", forming(3, true).allCertified(300).worth(2, -1, ""), abandon(begun, 1, 2, 3), "a bootstrap member cannot prove its identity: n2: its certificates expired at", nil},
		{"by a clock that is wrong they have", forming(3, true).allCertified(-1).with(func(s *scene) { s.clocks(-60, -60, -60) }), begun.bootstrap(true), "resumed", nil},

		{"volume gone", forming(3, true).wiped(2), abandon(begun, 1, 2, 3), "a bootstrap member cannot be started again: n2: its volume is gone; no client was served", nil},
		{"container gone", forming(3, true).with(func(s *scene) { s.node(2).Containers = nil }), abandon(begun, 1, 2, 3), "n2: its container is gone", nil},
		{"data gone", forming(3, true).emptied(2), abandon(begun, 1, 2, 3), "n2: etcd exited and left no data: killed", nil},
		{"data gone, the engine restarts it", forming(3, true).emptied(2).with(func(s *scene) { s.container(2).State = cke.ContainerRestarting }), abandon(begun, 1, 2, 3), "left no data", nil},
		{"volume gone and one silent", forming(3, true).wiped(2).silent(3), abandon(begun, 1, 2), "its volume is gone", nil},
		{"volume gone and two silent", forming(3, true).wiped(2).silent(1, 3), nil, "but 2 of 3 bootstrap members do not answer and could have a quorum", []string{"CKE201 n1", "CKE201 n3"}},

		{"other options", forming(3, true).with(edited), abandon(begun, 1, 2, 3), "the cluster file no longer matches the bootstrap under way", nil},
		{"other options, one silent", forming(3, true).with(edited).silent(1), abandon(begun, 2, 3), "no longer matches", nil},
		{"other options, two silent", forming(3, true).with(edited).silent(1, 2), nil, "could have a quorum", []string{"CKE201 n1", "CKE201 n2"}},
		{"other options, two silent, nothing started", forming(3, false).with(edited).silent(1, 2), nil, "could have a quorum", []string{"CKE201 n1", "CKE201 n2"}},
		{"a founder left the file", forming(3, true).with(func(s *scene) { s.Spec.Nodes = s.Spec.Nodes[:2] }), abandon(begun, 1, 2, 3), "no longer matches", nil},
		{"a node more in the file", forming(3, true).with(func(s *scene) { s.Spec = spec(4) }), abandon(begun, 1, 2, 3), "no longer matches", nil},
		{"the only founder is silent", forming(1, true).silent(1).with(edited), nil, "1 of 1 bootstrap members do not answer", []string{"CKE201 n1"}},
	})
}

func TestDecide_TellsTheWayOutOfAFoundingThatWaits(t *testing.T) {
	d := strategy.Decide(forming(3, true).silent(2).Input)
	if !strings.Contains(d.Reason, "removed from the cluster file") {
		t.Error(d.Reason)
	}
	if d := strategy.Decide(forming(3, true).silent(1, 2).Input); strings.Contains(d.Reason, "cluster file") {
		t.Errorf("no way out where the silent could have a quorum: %s", d.Reason)
	}
}

// Another SSH port or user is no other founder, and is used at once.
func TestDecide_ReachesNodesAsTheyAreDeclaredNow(t *testing.T) {
	moved := func(s *scene) *scene {
		s.Spec.Nodes[1].SSH.Port, s.node(2).Node.SSH.Port = 2222, 2222
		return s
	}
	nodes := map[string]cke.Node{}
	if o, ok := strategy.Decide(moved(forming(3, true)).Input).Operation.(op.Bootstrap); ok {
		nodes["resume"] = o.Founders[1]
	}
	if o, ok := strategy.Decide(moved(forming(3, true).emptied(3)).Input).Operation.(op.AbandonBootstrap); ok {
		nodes["abandon"] = o.Reachable[1].Node
	}
	if o, ok := strategy.Decide(moved(formed(3).stopped(2)).Input).Operation.(op.StartMembers); ok {
		nodes["start"] = o.Joins[0].Node
	}
	deleting := moved(formed(3))
	deleting.Deleting = true
	if o, ok := strategy.Decide(deleting.Input).Operation.(op.DeleteCluster); ok {
		nodes["delete"] = o.Joins[1].Node
	}
	for _, name := range []string{"resume", "abandon", "start", "delete"} {
		if nodes[name].SSH.Port != 2222 {
			t.Errorf("%s reaches %+v", name, nodes[name])
		}
	}
}
