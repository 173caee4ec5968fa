package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// An import leaves an exited container of an earlier cluster of this name beside a restored member. A moment without that member's own
// container, as while it is made, made again or removed manually, shows nothing.
func TestDecide_FreezesNothingForWhatWasLeftBeforeAMember(t *testing.T) {
	for name, c := range map[string]struct {
		started time.Time
		state   cke.ContainerState
		frozen  bool
	}{
		"left before":                            {noon.Add(-time.Hour), cke.ContainerExited, false},
		"never ran":                              {time.Time{}, cke.ContainerCreated, false},
		"left before, and started by its engine": {noon.Add(-time.Hour), cke.ContainerRunning, true},
		"a restore put it there since":           {noon.Add(time.Hour), cke.ContainerExited, true},
	} {
		for _, state := range []cke.IncarnationState{cke.Formed, cke.Restoring} {
			s := formed(3).with(func(s *scene) {
				left := *s.container(2)
				left.Name, left.Incarnation, left.Join, left.State, left.StartedAt, left.KeptDown = "etcd-cke.left", "other", "left", c.state, c.started, true
				s.node(2).Containers = []cke.Container{left}
				s.node(2).Volumes[0].CreatedAt = noon
				s.Identity.Incarnation.State = state
				if state == cke.Restoring {
					s.Identity.Incarnation.Restore = &cke.Restoration{ID: "t1"}
					for i := range s.Identity.Joins {
						s.Identity.Joins[i].StartedAt = time.Time{}
					}
				}
			})
			d := strategy.Decide(s.Input)
			if f, frozen := d.Operation.(op.Freeze); frozen != c.frozen {
				t.Errorf("%s, %s: %#v %+v", name, state, d.Operation, f.Problem)
			}
		}
	}
}
