package server_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/op"
	"cke/server"
)

// partial lets no member have been waited for.
func (s *scene) partial() *scene {
	for i := range s.Seen.Etcd.Endpoints {
		s.quiet(i + 1)
	}
	s.lost()
	s.Seen.Partial = true
	return s
}

func TestDecide_WithoutWaitingForMembersOnlyStartsThoseThatStopped(t *testing.T) {
	d := server.Decide(formed(3).stopped(1).partial().Input)
	if o, ok := d.Operation.(op.StartMembers); !ok || len(o.Joins) != 1 {
		t.Errorf("%+v", d)
	}
	for name, s := range map[string]*scene{
		"nothing to start":        formed(3).partial(),
		"its data is gone":        formed(3).emptied(1).partial(),
		"a node is undeclared":    formed(4).undeclared(4).partial(),
		"the member that answers": formed(4).undeclared(4).partial().with(func(s *scene) { s.Seen.Etcd.Quorate = true }),
	} {
		if d := server.Decide(s.Input); d.Operation != nil || d.Again <= 0 || d.Again > 100*time.Millisecond || d.Blockers != nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

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

// What stops all members is decided on a full look: the last backup and the order of stopping depend on what members say.
func TestDecide_StopsAllOnlyAfterAFullLook(t *testing.T) {
	for name, s := range map[string]*scene{"hibernation": formed(3).hibernated().partial(), "restore": formed(3).restored().partial()} {
		if d := server.Decide(s.Input); d.Operation != nil || d.Again == 0 {
			t.Errorf("%s: %T %s", name, d.Operation, d.Reason)
		}
	}
}
