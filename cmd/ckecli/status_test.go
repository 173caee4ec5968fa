package main

import (
	"bytes"
	"testing"
	"time"

	"cke"
	"cke/internal/golden"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// renderer is an app that only renders, at noon.
func renderer() *app {
	return newApp(nil, nil, nil, func(string) string { return "" }, func() time.Time { return noon }, nil)
}

// degraded is the status of three members, the third of which is unreachable.
func degraded() cke.Status {
	expiry := noon.Add(312*24*time.Hour + time.Hour)
	member := func(name, address, role string, lag int64) cke.MemberStatus {
		return cke.MemberStatus{Name: name, Address: address, ID: "8e9e05c52164694d", Join: "0123456789ab", Role: role, State: "healthy", Ready: true, Lag: lag,
			DBSize: 84_000_000, Version: "3.6.16", CertNotAfter: expiry, Since: noon.Add(-6 * 24 * time.Hour),
			ClientURL: "https://" + address + ":2379", PeerURL: "https://" + address + ":2380",
			Container: &cke.MemberContainer{Name: "etcd-cke.0123456789ab", State: cke.ContainerRunning, Image: "gcr.io/etcd-development/etcd:v3.6.16",
				ImageID: "sha256:5c7f2e0a9d41b6388e1f", Description: "00112233445566778899aabbccddeeff", CPUs: 1.5}}
	}
	dead := cke.MemberStatus{Name: "cp3", Address: "10.0.0.13", Join: "ba9876543210", Role: "-", State: "unreachable", Reason: "its node does not answer",
		Lag: -1, CertNotAfter: expiry, Since: noon.Add(-4 * time.Minute), ClientURL: "https://10.0.0.13:2379", PeerURL: "https://10.0.0.13:2380"}
	return cke.Status{
		Cluster: "prod", Generation: 41, ObservedGeneration: 41, ObservedAt: noon.Add(-3 * time.Second), Health: cke.HealthDegraded,
		Summary: "quorum held, can lose 0 more members", Declared: 3, Ready: 2,
		ClusterID: "cdf818194e3a8c32", Incarnation: "aaaabbbbcccc",
		Members: []cke.MemberStatus{member("cp1", "10.0.0.11", "leader", 0), member("cp2", "10.0.0.12", "follower", 2), dead},
		Conditions: []cke.Condition{
			{Type: cke.CondReady, Status: cke.False, Reason: "Degraded", Message: "waiting for cp3: its data may be intact", Since: noon.Add(-4 * time.Minute)},
			{Type: cke.CondQuorate, Status: cke.True, Reason: "LinearizableRead", Message: "a linearizable read succeeded", Since: noon.Add(-6 * 24 * time.Hour)}},
		Problems: []cke.Problem{{Code: cke.CodeUnreachable, Node: "cp3", Message: "ssh 10.0.0.13:22: no route to host",
			Remedy: "Check power, network and sshd of the node; cke continues by itself once it answers.", Since: noon.Add(-4 * time.Minute)}},
		Reason:        "cp3 has 10m before replacement is considered, its data may be intact",
		LastOperation: &cke.OperationStatus{ID: 7, Type: "start-members", State: cke.RecordCompleted, Time: noon.Add(-2 * time.Hour)},
		Leader:        cke.Leader{Host: "boot-1", Term: 12, Since: noon.Add(-6 * 24 * time.Hour)},
	}
}

// Requirements D8, D9, D10: a status that is old says how old it is, and none of it is left out.
func TestStatus_Renders(t *testing.T) {
	working := degraded()
	working.Operation = &cke.OperationStatus{ID: 8, Type: "bootstrap", State: cke.RecordRunning, Time: noon.Add(-2 * time.Second)}
	working.Reason, working.Problems, working.Members, working.Health, working.Summary = "no member has data", nil, nil, cke.HealthForming, "bootstrap is under way"
	working.ObservedGeneration = 40
	failed := degraded()
	failed.LastOperation = &cke.OperationStatus{ID: 9, Type: "bootstrap", State: cke.RecordFailed, Description: "cp3: start: exit code 1\x1b[2J", Time: noon.Add(-time.Minute)}
	failed.LastErrors = []cke.LastError{{Code: cke.CodeEtcdExited, Description: "cp3: start: exit code 1", ObservedAt: noon.Add(-time.Minute)}}
	refused := degraded()
	refused.LastOperation = &cke.OperationStatus{ID: 9, Type: "replace", State: cke.RecordFailed, Refused: true, Code: cke.CodeQuorum,
		Description: "cp2 cannot be replaced; 2 of 3 voters are healthy", Time: noon.Add(-time.Minute)}
	old := degraded()
	old.ObservedAt = noon.Add(-25 * time.Minute)
	expiring := degraded()
	expiring.Members[0].CertNotAfter, expiring.Members[1].CertNotAfter = noon.Add(5*24*time.Hour), noon.Add(-time.Second)
	spread := degraded()
	spread.Spread = zonesOf("rack1", "rack2", "rack2")
	spread.Spread.Advice = "rack2 has 2 of 3 voters, and at most 1 may be in one zone: a node in a third zone is missing"
	hold := func(left time.Duration) *cke.Hold {
		h := &cke.Hold{Reason: "new switch\x1b[2J in rack 2", By: "ann@boot-1", Since: noon.Add(-time.Hour)}
		if left != 0 {
			h.Until = noon.Add(left)
		}
		return h
	}
	for _, tc := range []struct {
		name   string
		screen screen
		colour bool
		wide   bool
	}{
		{"degraded", screen{degraded(), 41, true, nil}, false, false},
		{"degraded-wide", screen{degraded(), 41, true, nil}, false, true},
		{"degraded-colour", screen{degraded(), 41, true, nil}, true, false},
		{"bootstrapping", screen{working, 41, true, nil}, false, false},
		{"failed", screen{failed, 42, true, nil}, false, false},
		{"refused", screen{refused, 41, true, nil}, false, false},
		{"silent-leader", screen{old, 41, true, nil}, false, false},
		{"no-leader", screen{old, 41, false, nil}, false, false},
		{"paused", screen{degraded(), 41, true, hold(time.Hour)}, false, false},
		{"paused-colour", screen{degraded(), 41, true, hold(0)}, true, false},
		{"degraded", screen{degraded(), 41, true, hold(-time.Second)}, false, false},
		{"zones", screen{spread, 41, true, nil}, false, false},
		{"expiring", screen{expiring, 41, true, nil}, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := renderer().renderStatus(&b, tc.screen, tc.colour, tc.wide); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "testdata/status/"+tc.name+".txt", b.String())
		})
	}
}

func TestStatus_CheckTellsTheHealthByTheExitCode(t *testing.T) {
	with := func(change func(*screen)) screen {
		sc := screen{degraded(), 41, true, nil}
		change(&sc)
		return sc
	}
	for name, tc := range map[string]struct {
		screen screen
		want   error
	}{
		"ready":             {with(func(s *screen) { s.status.Health = cke.HealthReady }), nil},
		"ready of older":    {with(func(s *screen) { s.status.Health = cke.HealthReady; s.revision = 42 }), exitError(3)},
		"degraded":          {with(func(*screen) {}), exitError(3)},
		"forming":           {with(func(s *screen) { s.status.Health = cke.HealthForming; s.status.Tolerance = -1 }), exitError(3)},
		"lost":              {with(func(s *screen) { s.status.Health = cke.HealthLost }), exitError(5)},
		"not seen":          {with(func(s *screen) { s.status.Health = cke.HealthUnknown }), exitError(4)},
		"frozen, not seen":  {with(func(s *screen) { s.status.Health = cke.HealthFrozen; s.status.Conditions[1].Status = cke.Unknown }), exitError(4)},
		"frozen, quorate":   {with(func(s *screen) { s.status.Health = cke.HealthFrozen }), exitError(3)},
		"frozen, no quorum": {with(func(s *screen) { s.status.Health = cke.HealthFrozen; s.status.Conditions[1].Status = cke.False }), exitError(5)},
		"no leader":         {with(func(s *screen) { s.led = false }), exitError(4)},
		"stale":             {with(func(s *screen) { s.status.ObservedAt = noon.Add(-time.Hour) }), exitError(4)},
	} {
		if got := renderer().check(tc.screen); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
