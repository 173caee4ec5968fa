package strategy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// rule is one row of a table: what Decide must say of a scene.
type row struct {
	name  string
	scene *scene
	// want is the operation; nil: none.
	want op.Operation
	// reason must stand in the reason.
	reason string
	// blockers are "CODE node" of each, in order.
	blockers []string
}

func check(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			d := strategy.Decide(r.scene.Input)
			if diff := cmp.Diff(keeping(r.want, d.Operation, r.scene.Spec.Policies.Volumes), d.Operation); diff != "" {
				t.Errorf("operation (-want +got):\n%s", diff)
			}
			if !strings.Contains(d.Reason, r.reason) || d.Reason == "" {
				t.Errorf("reason %q, want %q in it", d.Reason, r.reason)
			}
			var got []string
			for _, b := range d.Blockers {
				got = append(got, strings.TrimSpace(string(b.Code)+" "+b.Node))
				if b.Message == "" {
					t.Errorf("a blocker without message: %+v", b)
				}
			}
			if diff := cmp.Diff(r.blockers, got); diff != "" {
				t.Errorf("blockers (-want +got):\n%s", diff)
			}
		})
	}
}

// keeping is an operation with the policy for volumes that ends a membership, which all rules set alike, and with the nodes for which
// the removal of a member waits: TestDecide_TellsARemovalForWhichNodesItWaits compares those.
func keeping(o, got op.Operation, p cke.VolumePolicies) op.Operation {
	switch o := o.(type) {
	case op.RemoveMember:
		o.Volumes = p
		if r, is := got.(op.RemoveMember); is {
			o.Declared = r.Declared
		}
		return o
	case op.EndMembership:
		o.Volumes = p
		return o
	}
	return o
}

func TestDecide_DoesNothingWhereAllIsAsDeclared(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		d := strategy.Decide(formed(n).Input)
		if d.Operation != nil || !d.Converged || d.Reason != "nothing to do" || d.Blockers != nil || d.Again != 0 {
			t.Errorf("%d members: %+v", n, d)
		}
	}
}

// Requirement D7: deletion is orderly; a member that goes on running would be a cluster that nobody knows of.
func TestDecide_Deletes(t *testing.T) {
	deleting := func(s *scene) *scene { s.Deleting = true; return s }
	// deletes is the deletion of memberships where the others of n nodes answer.
	deletes := func(joins []cke.Join, n int, silent ...int) op.Operation {
		d := op.DeleteCluster{Joins: joins}
		for i, node := range spec(n).Nodes {
			if !slices.Contains(silent, i+1) {
				d.Nodes = append(d.Nodes, node)
			}
		}
		return d
	}
	sealed := func(o op.Operation) op.Operation {
		d := o.(op.DeleteCluster)
		d.Sealed = true
		return d
	}
	down := func(o op.Operation, ids ...string) op.Operation {
		d := o.(op.DeleteCluster)
		d.Down = ids
		return d
	}
	deletesBeside := func(gone cke.Join, o op.Operation) op.Operation {
		d := o.(op.DeleteCluster)
		d.Gone = []cke.Join{gone}
		return d
	}
	check(t, []row{
		{"all answer", deleting(formed(3)), deletes(formed(3).Identity.Joins, 3), "deletion was requested", nil},
		{"one is silent", deleting(formed(3).silent(2)), nil, "deletion waits: n2: no answer", []string{"CKE201 n2"}},
		{"its machine is destroyed", deleting(formed(3).silent(2).with(func(s *scene) { s.Destroyed = []string{"n2"} })), deletesBeside(formed(3).join(2), deletes([]cke.Join{formed(3).join(1), formed(3).join(3)}, 3, 2)), "deletion was requested", nil},
		{"destroyed, and most of its members answer", deleting(formed(3).silentNode(2).silentNode(3).with(func(s *scene) { s.Destroyed = []string{"n2", "n3"} })), nil, "deletion waits: n2: it was named as destroyed, and its member answers at https://10.0.0.2:2379", []string{"CKE313 n2", "CKE313 n3"}},
		{"destroyed, and one of three answers", deleting(formed(3).silentNode(2).with(func(s *scene) { s.Destroyed = []string{"n2"} })), deletesBeside(formed(3).join(2), deletes([]cke.Join{formed(3).join(1), formed(3).join(3)}, 3, 2)), "deletion was requested", nil},
		{"destroyed, all answer, and the deletion is sealed", deleting(formed(3).silentNode(1).silentNode(2).silentNode(3).with(func(s *scene) {
			s.Destroyed, s.Sealed = []string{"n1", "n2", "n3"}, true
		})), op.DeleteCluster{Gone: formed(3).Identity.Joins, CouldServe: true, Sealed: true}, "deletion was requested", nil},
		{"another one is destroyed", deleting(formed(3).silent(2, 3).with(func(s *scene) { s.Destroyed = []string{"n2"} })), nil, "deletion waits: n3: no answer", []string{"CKE201 n3"}},
		{"one that was taken for destroyed answers", deleting(formed(3).with(func(s *scene) { s.Destroyed = []string{"n2"} })), deletes(formed(3).Identity.Joins, 3), "deletion was requested", nil},
		{"never founded", deleting(blank(3).silent(1)), deletes(nil, 3, 1), "deletion was requested", nil},
		{"forming", deleting(forming(3, true)), deletes(forming(3, true).Identity.Joins, 3), "deletion was requested", nil},
		{"frozen", deleting(formed(3).with(func(s *scene) { s.endpoint(2).ClusterID = "c2" })), deletes(formed(3).Identity.Joins, 3), "deletion was requested", nil},
		{"without quorum", deleting(formed(3).stopped(1, 2).lost()), deletes(formed(3).Identity.Joins, 3), "deletion was requested", nil},
		{"the container of a member that was just removed is left", deleting(formed(4).with(func(s *scene) {
			s.Identity.Ended, s.Identity.Joins = s.Identity.Joins[3:], s.Identity.Joins[:3]
		})), down(deletes(append(formed(3).Identity.Joins, cke.Join{ID: "join4", Incarnation: "life", Node: spec(4).Nodes[3], Volume: "etcd-cke.join4"}), 4), "m4"), "deletion was requested", nil},
		{"its container may be left where its node does not answer", deleting(formed(4).silent(4).with(func(s *scene) {
			s.Identity.Ended, s.Identity.Joins = s.Identity.Joins[3:], s.Identity.Joins[:3]
		})), nil, "deletion waits: n4: no answer", []string{"CKE201 n4"}},
		{"an address that was given up is not waited for", deleting(formed(4).silent(4).with(func(s *scene) {
			s.Identity.Ended, s.Identity.Joins = s.Identity.Joins[3:], s.Identity.Joins[:3]
			s.Spec.Nodes = slices.Clone(s.Spec.Nodes)
			s.Spec.Nodes[3].Address = "10.0.9.4"
		})), deletes(formed(3).Identity.Joins, 4, 4), "deletion was requested", nil},
		{"its volume is gone, so nothing of it is left", deleting(formed(4).silent(4).with(func(s *scene) {
			s.Identity.Ended, s.Identity.Joins = slices.Clone(s.Identity.Joins[3:]), s.Identity.Joins[:3]
			s.Identity.Ended[0].RemovedAt = noon
		})), deletes(formed(3).Identity.Joins, 4, 4), "deletion was requested", nil},
		{"an abandoned life needs no silent node", deleting(abandoned(3).silent(3)), deletes(abandoned(3).Identity.Joins[:2], 3, 3), "deletion was requested", nil},
		{"one that was declared to be restored leaves nodes as they are", deleting(formed(3).with(func(s *scene) { s.Identity = s.Identity.Awaiting(noon) })), op.DeleteCluster{}, "stays as it is", nil},
		{"a sealed one goes on though nodes are marked", deleting(formed(3).with(func(s *scene) { s.Sealed, s.node(1).Over = true, []string{"life"} })), sealed(deletes(formed(3).Identity.Joins, 3)), "deletion was requested", nil},
	})
}

// abandoned is a founding that was given up, with what it made still there.
func abandoned(n int) *scene {
	s := forming(n, true)
	s.Identity.Incarnation.State = cke.Abandoned
	return s
}

func TestDecide_CleansUpAbandonedLives(t *testing.T) {
	// left puts remains of another life on a node.
	left := func(s *scene, i int, life string) *scene {
		n := s.node(i)
		n.Containers = append(n.Containers, cke.Container{Name: "etcd-cke.old", Cluster: "demo", Incarnation: life, Join: "old", State: cke.ContainerExited, KeptDown: true})
		n.Volumes = append(n.Volumes, cke.Volume{Name: "etcd-cke.old", Cluster: "demo", Incarnation: life, Join: "old"})
		return s
	}
	after := func(s *scene) *scene { s.Identity.Incarnation.Previous = []string{"past"}; return s }
	clean := func(s *scene, nodes ...int) op.CleanUp {
		var o op.CleanUp
		for _, i := range nodes {
			o.Left = append(o.Left, cke.Join{ID: "old", Incarnation: "past", Node: s.node(i).Node, Volume: "etcd-cke.old", Etcd: s.Spec.Options.Etcd})
		}
		return o
	}
	prepared := func(s *scene, i int) *scene { s.node(i).Containers[1].State = cke.ContainerCreated; return s }
	f := blank(3)
	check(t, []row{
		{"of a formed cluster", left(after(formed(3)), 2, "past"), clean(f, 2), "it never served a client", nil},
		{"of two nodes at once", left(left(after(formed(3)), 1, "past"), 3, "past"), clean(f, 1, 3), "it never served a client", nil},
		{"what serves goes before what is tidy", left(after(formed(3).stopped(1)), 2, "past"), op.StartMembers{Joins: formed(3).Identity.Joins[:1], AwaitServing: true}, "n1 stopped", nil},
		{"nothing while the quorum is lost", left(after(formed(3).silent(1, 3).lost()), 2, "past"), nil, "n1 and n3 do not answer", []string{"CKE201 n1", "CKE215 n2", "CKE201 n3"}},
		{"but for what never ran: it may fill the disk of a member", prepared(left(after(formed(3).silent(1, 3).lost()), 2, "past"), 2), clean(f, 2), "it never served a client", nil},
		{"nothing while a founding is under way", left(after(forming(3, true)), 1, "past"), forming(3, true).bootstrap(true), "resumed", nil},
		{"not of a node that does not answer", left(after(formed(3)), 2, "past").silent(2), nil, "waiting for n2", []string{"CKE201 n2"}},
		{"not of a life that nobody knows", left(after(formed(3)), 2, "unknown"), nil, "nothing to do", nil},
		{"not of another cluster", left(after(formed(3)), 2, "past").with(func(s *scene) {
			s.node(2).Containers[1].Cluster, s.node(2).Volumes[1].Cluster = "other", "other"
		}), nil, "nothing to do", nil},
		{"before the next founding", abandoned(1), op.CleanUp{Left: []cke.Join{{ID: "join1", Incarnation: "life", Node: f.node(1).Node, Volume: "etcd-cke.join1", Etcd: f.Spec.Options.Etcd}}}, "it never served a client", nil},
		{"a volume whose engine forgot its labels as it died", abandoned(1).with(func(s *scene) {
			s.node(1).Containers, s.node(1).Volumes = nil, []cke.Volume{{Name: "etcd-cke.join1"}}
		}), op.CleanUp{Left: []cke.Join{{ID: "join1", Incarnation: "life", Node: f.node(1).Node, Volume: "etcd-cke.join1", Etcd: f.Spec.Options.Etcd}}}, "it never served a client", nil},
		// What cannot be cleaned hides nothing else.
		{"held back, what else is wrong is told as well", left(after(formed(3)), 2, "past").silent(3).failed(clean(f, 2), 3, 0), nil, "it broke; waiting for n3", []string{"CKE207 n1", "CKE201 n3"}},
		{"a start that is held back does not keep it from being done", left(after(formed(3).stopped(1)), 2, "past").failed(op.StartMembers{Joins: formed(3).Identity.Joins[:1]}, 3, 0), clean(f, 2), "it never served a client", nil},
		{"held back, it is told", left(after(formed(3)), 2, "past").failed(clean(f, 2), 3, 0), nil, "clean-up failed 3 times in a row", []string{"CKE207 n1"}},
	})
}

// Requirement A20: an operation that failed is tried again, after a pause.
func TestDecide_HoldsBackWhatFailedAShortTimeAgo(t *testing.T) {
	again := func(count int, before time.Duration) strategy.Decision {
		s := formed(3).stopped(2)
		return strategy.Decide(s.failed(op.StartMembers{Joins: []cke.Join{s.join(2)}}, count, before).Input)
	}
	d := again(2, time.Second)
	if d.Operation != nil || !strings.HasPrefix(d.Reason, "start-members failed 2 times in a row and is tried again in ") || !strings.Contains(d.Reason, "s: it broke") {
		t.Errorf("%+v", d)
	}
	if len(d.Blockers) == 0 || d.Blockers[0].Code != cke.CodeDiskFull || d.Again <= 0 {
		t.Errorf("%+v", d)
	}
	if d := again(2, time.Minute); d.Operation == nil {
		t.Errorf("after a minute: %+v", d)
	}
	pauses := map[int]time.Duration{}
	for count := 1; count <= 40; count++ {
		pauses[count] = again(count, 0).Again
		base := min(time.Second<<min(count-1, 10), 30*time.Second)
		if p := pauses[count]; p < base*4/5 || p > base*6/5 {
			t.Errorf("pause after %d failures: %v", count, p)
		}
		if again(count, 0).Again != pauses[count] {
			t.Errorf("pause after %d failures is not always the same", count)
		}
	}
	other := formed(3).stopped(2)
	other.Spec.Name = "other"
	if d := strategy.Decide(other.failed(op.StartMembers{Joins: []cke.Join{other.join(2)}}, 6, 0).Input); d.Again == pauses[6] {
		t.Error("two clusters retry at one moment")
	}
}

// A clock that was set back must not hold an operation back for longer than the pause.
func TestDecide_RetriesAlthoughTheClockWasSetBack(t *testing.T) {
	s := formed(3).stopped(2)
	d := strategy.Decide(s.failed(op.StartMembers{Joins: []cke.Join{s.join(2)}}, 1, -time.Hour).Input)
	if d.Operation == nil { // else for the whole hour, a pause at a time
		t.Errorf("held back for %v", d.Again)
	}
}

func TestDecide_HoldsNothingBackThatSucceeded(t *testing.T) {
	s := formed(3).stopped(2, 3)
	if d := strategy.Decide(s.failed(op.StartMembers{Joins: []cke.Join{s.join(2)}}, 9, 0).Input); d.Operation == nil {
		t.Errorf("another set of members is held back: %+v", d)
	}
}

// A restore that was cut off has left memberships of another incarnation on record, and the cluster never had one.
func TestDecide_DeletesWhatNeverLivedAndStopsNobody(t *testing.T) {
	s := formed(3).running().with(func(s *scene) {
		s.Identity.Incarnation = nil
		s.Deleting = true
	})
	d := strategy.Decide(s.Input)
	if o, is := d.Operation.(op.DeleteCluster); is && len(o.Joins) > 0 {
		t.Errorf("stops members of another incarnation: %v", o.Targets())
	}
}
