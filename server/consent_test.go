package server_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server"
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
		}, false, "begins at 2026-05-01T11:30:00Z"},
		"after the window": {func(s *scene) {
			s.Spec.Policies.Reconcile, s.Spec.Policies.Window = cke.ReconcileWindow, window
			s.at(31 * time.Minute)
		}, false, "begins at 2026-05-02T11:30:00Z"},
		"a window elsewhere": {func(s *scene) {
			s.Spec.Policies.Reconcile, s.Spec.Policies.Window = cke.ReconcileWindow, window
			s.Spec.Policies.Window.TimeZone = "Asia/Tokyo"
		}, false, "begins at 2026-05-02T11:30:00+09:00"},
		"no such zone": {func(s *scene) {
			s.Spec.Policies.Reconcile, s.Spec.Policies.Window = cke.ReconcileWindow, window
			s.Spec.Policies.Window.TimeZone = "Mars/Base"
		}, false, "not understood"},
		"paused":      {func(s *scene) { s.Requests.Hold = &cke.Hold{Reason: "disk swap", By: "ann@boot-1"} }, false, "paused by ann@boot-1: disk swap"},
		"pause ended": {func(s *scene) { s.Requests.Hold = &cke.Hold{Reason: "x", Until: noon.Add(-time.Second)} }, true, "n4"},
	} {
		d := server.Decide(grown(row.change).Input)
		if (d.Operation != nil) != row.acts || !strings.Contains(d.Reason, row.reason) || d.Converged {
			t.Errorf("%s: %v, %q, converged %v", name, d.Operation, d.Reason, d.Converged)
		}
	}
}

// Repairs are not gated: a member that stopped is started whatever the policy says, unless a person paused the cluster.
func TestDecide_StartsStoppedMembersWhateverThePolicy(t *testing.T) {
	s := formed(3).stopped(2).with(func(s *scene) { s.Spec.Policies.Reconcile = cke.ReconcileManual })
	if d := server.Decide(s.Input); d.Operation == nil || d.Operation.Name() != (op.StartMembers{}).Name() {
		t.Errorf("%v %s", d.Operation, d.Reason)
	}
	s.Requests.Hold = &cke.Hold{Reason: "hands off"}
	if d := server.Decide(s.Input); d.Operation != nil {
		t.Errorf("paused, and yet %v", d.Operation)
	}
}
