package strategy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/server/strategy"
)

// A node that a queue takes down is shown as such for as long as that may take, and no longer. What its silence does not explain, and
// what it does to the cluster, is shown as of any other node.
func TestProblems_OfANodeThatIsTakenDownOnPurpose(t *testing.T) {
	const rebooting, unreachable = "CKE112 it does not answer while the reboot queue reboots it, since 2026-", "CKE201 "
	shows := func(code cke.Code) func(*scene) {
		return func(s *scene) {
			p := *s.node(2).Problem
			p.Code = code
			s.node(2).Problem = &p
		}
	}
	down := func(ago time.Duration) *scene { return rebootable(3, 4).in(2, cke.EntryRebooting, ago).silent(2) }
	for _, tc := range []struct {
		name string
		s    *scene
		node string
		want string
		down bool
	}{
		{"rebooting", down(time.Minute), "n2", rebooting, true},
		{"its engine does not answer yet", down(time.Minute).with(shows(cke.CodeEngine)), "n2", rebooting, true},
		{"it has another host key", down(time.Minute).with(shows(cke.CodeHostKey)), "n2", "CKE203 ", true},
		{"it refuses the login", down(time.Minute).with(shows(cke.CodeSSHAuth)), "n2", "CKE202 ", true},
		{"late", down(24 * time.Hour), "n2", unreachable, false},
		{"back, and silent again", rebootable(3, 4).in(2, cke.EntryReturning, time.Minute).silent(2), "n2", unreachable, false},
		{"failed", rebootable(3, 4).in(2, cke.EntryFailed, time.Minute).silent(2), "n2", unreachable, false},
		{"queued", rebootable(3, 4).queued(2).silent(2), "n2", unreachable, false},
		{"another one", down(time.Minute).silent(3), "n3", unreachable, false},
		{"without a member", rebootable(3, 4).in(4, cke.EntryRebooting, time.Minute).silent(4), "n4", rebooting, true},
		{"without a member, late", rebootable(3, 4).in(4, cke.EntryRebooting, 24*time.Hour).silent(4), "n4", unreachable, false},
		{"by its agent", down(time.Minute).with(func(s *scene) { s.Spec.Reboot.FleetLock, s.entry(2).Agent = true, "a2" }), "n2", rebooting, true},
		{"repaired", repairable(3, 3).in(2, cke.EntryRebooting, time.Minute).repairs("dead").silent(2), "n2", "CKE112 it does not answer while the repair queue repairs it, since 2026-", true},
		{"repaired by a step that takes nothing down", repairable(3, 3).in(2, cke.EntryRebooting, time.Minute).repairs("lamp").silent(2), "n2", unreachable, false},
		{"drained by an operator", rebootable(3, 4).drained(2).silent(2), "n2", "CKE112 n2 is drained", true},
	} {
		st := strategy.Report(tc.s.Input, strategy.Decide(tc.s.Input), cke.Status{})
		var all []string
		for _, p := range st.Problems {
			if p.Node == tc.node && (p.Code == cke.CodeDrain || strings.HasPrefix(string(p.Code), "CKE20")) {
				all = append(all, string(p.Code)+" "+p.Message)
			}
		}
		if !slices.ContainsFunc(all, func(text string) bool { return strings.HasPrefix(text, tc.want) }) || tc.want == rebooting && len(all) > 1 {
			t.Errorf("%s: %q, want %q", tc.name, all, tc.want)
		}
		i := slices.IndexFunc(tc.s.Spec.Nodes, func(n cke.Node) bool { return n.Name() == tc.node })
		if got := strategy.TakenDown(&tc.s.Input, tc.s.Spec.Nodes[i]); got != tc.down {
			t.Errorf("%s: taken down: %v", tc.name, got)
		}
	}
	s := down(time.Minute)
	st := strategy.Report(s.Input, strategy.Decide(s.Input), cke.Status{})
	if st.Ready != 2 || st.Health == cke.HealthReady || st.Nodes[1].Problem.Code != cke.CodeUnreachable {
		t.Errorf("%d ready, %s, %+v", st.Ready, st.Health, st.Nodes[1].Problem)
	}
}
