package strategy_test

import (
	"testing"

	"cke"
	"cke/server/strategy"
)

// What was just seen contradicts an operator who says that a machine is gone for good: a restore would be a second cluster beside its member.
func TestRestore_WhatAnswersIsNotDestroyed(t *testing.T) {
	foreign := func() *scene { return formed(1).stranger("x", "y") }
	for name, c := range map[string]struct {
		scene     *scene
		destroyed []string
		refused   bool
	}{
		"ssh is silent on two, and their members answer": {formed(3).silentNode(2).silentNode(3), []string{"n2", "n3"}, true},
		"ssh is silent on one, and its member answers":   {formed(3).silentNode(3), []string{"n3"}, true},
		"one is gone":                           {formed(3).silent(3), []string{"n3"}, false},
		"two are gone":                          {formed(3).silent(2, 3).lost(), []string{"n2", "n3"}, false},
		"foreign members, and a quorum answers": {foreign(), []string{"x", "y"}, true},
	} {
		why := strategy.RestoreRefusal(c.scene.Input, cke.RestoreOrder{Target: "file:///b", Source: "demo", Destroyed: c.destroyed})
		if (why != nil) != c.refused || why != nil && why.Code != cke.CodeFence {
			t.Errorf("%s: %v", name, why)
		}
	}
}
