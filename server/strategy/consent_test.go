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

// grown is a formed cluster of three whose file names a fourth node.
func grown(change func(*scene)) *scene {
	return formed(3).with(func(s *scene) {
		node := cke.Node{Hostname: "n4", Address: "10.0.0.4", ControlPlane: true, User: "root", SSH: cke.SSH{Port: 22}}
		s.Spec.Nodes = append(s.Spec.Nodes, node)
		s.Seen.Nodes = append(s.Seen.Nodes, cke.NodeStatus{Node: node, SeenAt: noon, ClientPort: cke.PortClosed, PeerPort: cke.PortClosed})
		s.Generation = 7
		change(s)
	})
}

// Requirement D6: applied when told, in a window, or at once.
func TestDecide_ChangesAsThePolicyAllows(t *testing.T) {
	window := cke.Window{Schedule: "30 11 * * *", Duration: cke.Duration(time.Hour), TimeZone: "UTC"}
	for name, row := range map[string]struct {
		change func(*scene)
		acts   bool
		reason string
	}{
		"auto":                        {func(s *scene) {}, true, "n4 is a control-plane node"},
		"manual":                      {func(s *scene) { s.Spec.Policies.Reconcile = cke.ReconcileManual }, false, "ckecli cluster apply"},
		"manual, another one applied": {func(s *scene) { s.Spec.Policies.Reconcile = cke.ReconcileManual; s.Requests.Applied = 6 }, false, "revision 7"},
		"manual, applied":             {func(s *scene) { s.Spec.Policies.Reconcile = cke.ReconcileManual; s.Requests.Applied = 7 }, true, "n4"},
		"in the window":               {func(s *scene) { s.Spec.Policies.Reconcile = cke.ReconcileWindow; s.Spec.Policies.Window = window }, true, "n4"},
		"before the window": {func(s *scene) {
			s.Spec.Policies.Reconcile, s.Spec.Policies.Window = cke.ReconcileWindow, window
			s.at(-31 * time.Minute)
		}, false, "starts at 2026-05-01T11:30:00Z"},
		"after the window": {func(s *scene) {
			s.Spec.Policies.Reconcile, s.Spec.Policies.Window = cke.ReconcileWindow, window
			s.at(31 * time.Minute)
		}, false, "starts at 2026-05-02T11:30:00Z"},
		"a window elsewhere": {func(s *scene) {
			s.Spec.Policies.Reconcile, s.Spec.Policies.Window = cke.ReconcileWindow, window
			s.Spec.Policies.Window.TimeZone = "Asia/Tokyo"
		}, false, "starts at 2026-05-02T11:30:00+09:00"},
		"no such zone": {func(s *scene) {
			s.Spec.Policies.Reconcile, s.Spec.Policies.Window = cke.ReconcileWindow, window
			s.Spec.Policies.Window.TimeZone = "Mars/Base"
		}, false, "is invalid"},
		"paused":      {func(s *scene) { s.Requests.Hold = &cke.Hold{Reason: "disk swap", By: "ann@boot-1"} }, false, "paused by ann@boot-1: disk swap"},
		"pause ended": {func(s *scene) { s.Requests.Hold = &cke.Hold{Reason: "x", Until: noon.Add(-time.Second)} }, true, "n4"},
	} {
		d := strategy.Decide(grown(row.change).Input)
		if (d.Operation != nil) != row.acts || !strings.Contains(d.Reason, row.reason) || d.Converged {
			t.Errorf("%s: %v, %q, converged %v", name, d.Operation, d.Reason, d.Converged)
		}
	}
}

// Repairs are not gated: a member that stopped is started whatever the policy says, unless a person paused the cluster.
func TestDecide_StartsStoppedMembersWhateverThePolicy(t *testing.T) {
	s := formed(3).stopped(2).with(func(s *scene) { s.Spec.Policies.Reconcile = cke.ReconcileManual })
	if d := strategy.Decide(s.Input); d.Operation == nil || d.Operation.Name() != (op.StartMembers{}).Name() {
		t.Errorf("%v %s", d.Operation, d.Reason)
	}
	s.Requests.Hold = &cke.Hold{Reason: "hands off"}
	if d := strategy.Decide(s.Input); d.Operation != nil {
		t.Errorf("paused, and yet %v", d.Operation)
	}
}

// lostMember lets the ith member have been removed for lost data: its node is blank, and what it had has ended on record.
func (s *scene) lostMember(i int) *scene {
	was := s.join(i)
	s.unjoined(i)
	was.EndedAt, was.Repair = noon.Add(-time.Second), true
	s.end(was)
	return s
}

// Requirement D6: nobody asked for a member fewer, so nobody has to be asked before it is there again.
func TestDecide_PutsBackWhatWasLostWhateverThePolicy(t *testing.T) {
	shut := func(s *scene) {
		s.Spec.Policies.Reconcile = cke.ReconcileWindow
		s.Spec.Policies.Window = cke.Window{Schedule: "0 2 * * 6", Duration: cke.Duration(time.Hour), TimeZone: "UTC"}
	}
	manual := func(s *scene) { s.Spec.Policies.Reconcile = cke.ReconcileManual }
	applied := func(s *scene) { manual(s); s.Requests.Applied = s.Generation }
	edited := func(s *scene) { s.Spec.Options.Etcd.ExtraArgs, s.Spec.Options.Etcd.ClientPort = []string{"--x"}, 12379 }
	// asked lets a person have taken the node out of the file later, and in again.
	asked := func(s *scene) {
		again := s.Identity.Ended[0]
		again.ID, again.EndedAt, again.Repair = "later", noon, false
		s.end(again)
		slices.Reverse(s.Identity.Ended)
	}
	before := func(s *scene) { s.Identity.Ended[0].Incarnation = "before" }
	more := func(s *scene) {
		s.Spec.Nodes = append(s.Spec.Nodes, spec(4).Nodes[3])
		s.Seen.Nodes = append(s.Seen.Nodes, blank(4).Seen.Nodes[3])
	}
	add := func(s *scene) op.AddMember { return op.AddMember{Node: s.Spec.Nodes[2], Etcd: s.Spec.Options.Etcd} }
	f := formed(3)
	for policy, set := range map[string]func(*scene){"window": shut, "manual": manual} {
		check(t, []row{
			{policy, formed(3).running().lostMember(3).with(set), add(f), "n3 is a control-plane node and carries no member", nil},
			{policy + ": as the others run, until the rest is agreed to", formed(3).running().lostMember(3).with(set).with(edited), add(f), "n3 is a control-plane", nil},
			{policy + ": also where all the others are to go", formed(3).running().lostMember(3).with(set).with(edited).with(func(s *scene) {
				s.Spec.Nodes[0].ControlPlane, s.Spec.Nodes[1].ControlPlane = false, false
			}), add(f), "n3 is a control-plane", nil},
			{policy + ": not what a person took away and declares anew", formed(3).running().lostMember(3).with(asked).with(set), nil, "add-member waits", nil},
			{policy + ": nor of a life before", formed(3).running().lostMember(3).with(before).with(set), nil, "add-member waits", nil},
			{policy + ": what was lost goes first, what is new waits", formed(3).running().with(more).lostMember(3).with(set), add(f), "n3 is a control-plane", nil},
			{policy + ": what is new waits", formed(3).running().with(more).with(set), nil, "add-member waits", nil},
		})
	}
	check(t, []row{
		{"applied, as declared", formed(3).running().with(more).lostMember(3).with(applied), add(f), "n3 is a control-plane", nil},
	})
	auto := formed(3).running().lostMember(3).with(func(s *scene) { s.Spec.Options.Etcd.ExtraArgs = []string{"--x"} })
	for i := range auto.Identity.Joins {
		auto.Identity.Joins[i].Etcd = auto.Spec.Options.Etcd
	}
	check(t, []row{{"auto, as declared", auto, add(auto), "n3 is a control-plane", nil}})
}
