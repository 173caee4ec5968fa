package server_test

import (
	"testing"
	"time"
)

// whole returns how many observations asked for everything, and how many needed not.
func (g *stage) whole() (whole, glances int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.looks) - g.glances, g.glances
}

// A loop that has nothing to do only glances at its cluster every 5 s. When something happens, it asks for everything.
func TestLoop_GlancesWhileNothingHappens(t *testing.T) {
	onStage(t, formed(3), func(g *stage) {
		p := g.perform()
		g.pass(time.Minute)
		if whole, glances := g.whole(); whole != 1 || glances != 12 {
			t.Errorf("in a quiet minute: %d observations of everything, %d glances", whole, glances)
		}
		for name, happens := range map[string]func(){
			"an event on a node":    p.nodes.wake,
			"a change in the store": p.term.wake,
		} {
			before, glances := g.whole()
			happens()
			g.pass(time.Millisecond)
			if whole, now := g.whole(); whole != before+1 || now != glances {
				t.Errorf("%s: %d observations of everything, %d glances more", name, whole-before, now-glances)
			}
		}
		p.over()
	})
}

// What a glance did not ask for may have changed: no operation follows from it, only an observation of everything, at once.
func TestLoop_DecidesNoOperationFromAGlance(t *testing.T) {
	t.Run("that is out of date", func(t *testing.T) {
		onStage(t, formed(3), func(g *stage) {
			p := g.perform()
			stale := formed(3).stopped(1).Seen
			g.change(func() { g.quiet = &stale })
			g.pass(5 * time.Second)
			if whole, glances := g.whole(); whole != 2 || glances != 1 {
				t.Errorf("%d observations of everything, %d glances", whole, glances)
			}
			if told, called := g.told(), g.called(); len(told) > 0 || len(called) > 0 {
				t.Errorf("history %v, calls %v", told, called)
			}
			p.over()
		})
	})
	t.Run("that is right", func(t *testing.T) {
		onStage(t, formed(3), func(g *stage) {
			p := g.perform()
			seen := formed(3).stopped(1)
			g.change(func() { g.scene.Seen, g.quiet = seen.Seen, &seen.Seen })
			g.pass(5 * time.Second)
			if called := g.called(); len(called) != 1 || called[0] != "start n1" {
				t.Errorf("calls %v", called)
			}
			p.over()
		})
	})
}
