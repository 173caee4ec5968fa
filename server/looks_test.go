package server_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
)

// The data of one of three members is gone, and the others had no time to answer before it was seen. They serve: nobody
// may read that the cluster is lost.
func TestLoop_DoesNotTellThatMembersAreSilentThatItDidNotWaitFor(t *testing.T) {
	for name, change := range map[string]func(*scene) *scene{
		"to be started":    func(s *scene) *scene { return s.stopped(1) },
		"its data is gone": func(s *scene) *scene { return s.emptied(1) },
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, formed(3), func(g *stage) {
				p := g.perform()
				full := change(formed(3)).Seen
				first := true
				g.change(func() {
					g.scene.Seen = change(formed(3)).partial().Seen
					g.look = func() {
						if !first {
							g.change(func() { g.scene.Seen = full })
						}
						first = false
					}
				})
				g.do = func(ctx context.Context, _, _ string) error { return hang(ctx) }
				p.nodes.wake()
				g.pass(100 * time.Millisecond)
				var healths []cke.Health
				for _, s := range g.statuses {
					healths = append(healths, s.Health)
				}
				if healths = slices.Compact(healths); !cmp.Equal(healths, []cke.Health{cke.HealthReady, cke.HealthDegraded}) {
					t.Errorf("told one after the other: %v", healths)
				}
				if started := len(g.called()) > 0; started != (name == "to be started") {
					t.Errorf("called %v", g.called())
				}
				p.over()
			})
		})
	}
}
