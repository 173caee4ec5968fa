package strategy_test

import (
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// A store is found to be older than the cluster while something else freezes that: both are reported, and once the later freeze is
// lifted the earlier one is active again.
func TestDecide_ReturnsToTheFormerFreeze(t *testing.T) {
	s := formed(3).elsewhere(2)
	corrupt := cke.Freeze{ID: "f0", Kind: cke.FreezeCorrupt, Finding: "corrupt-alarm m3", Problem: cke.Problem{Code: cke.CodeUnequalData, Message: "corrupt"}, At: noon}
	s.Identity.Freeze = &corrupt
	f, found := strategy.Decide(s.Input).Operation.(op.Freeze)
	if !found || f.Kind != cke.FreezeOlderStore {
		t.Fatalf("%+v", f)
	}
	s.Identity.Freeze = &cke.Freeze{ID: "f1", Kind: f.Kind, Finding: f.Finding, Problem: f.Problem, At: noon, Former: &corrupt}
	if d := strategy.Decide(s.Input); d.Operation != nil || len(d.Blockers) != 2 || d.Blockers[0].Code != cke.CodeOlderStore || d.Blockers[1].Code != cke.CodeUnequalData {
		t.Errorf("%+v", d)
	}
	s.Identity.Freeze.LiftedAt = noon
	if f, again := strategy.Decide(s.Input).Operation.(op.Freeze); !again || f.Returns == nil || f.Returns.ID != "f0" || !f.Returns.Tolerates(s.Identity.Freeze.Finding) {
		t.Errorf("%+v", f)
	}
	s.Identity.Freeze = s.Identity.Freeze.Returns()
	if d := strategy.Decide(s.Input); d.Operation != nil || d.Frozen == nil || d.Frozen.Code != cke.CodeUnequalData {
		t.Errorf("%+v", d)
	}
}
