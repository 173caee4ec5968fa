package strategy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// A membership that ended long ago was forgotten, since so many ended after it, and what is left of it appears. That is reported, and shows
// nothing about the store. What was made later than the oldest of those on record was never forgotten.
func TestDecide_ReportsWhatIsLeftOfAForgottenMembership(t *testing.T) {
	long, late := noon.Add(-365*24*time.Hour), noon.Add(-time.Hour)
	const id = "forgotten"
	volume := func(at time.Time) func(*scene) {
		return func(s *scene) {
			s.node(3).Volumes = append(s.node(3).Volumes, cke.Volume{Name: "etcd-cke." + id, Cluster: "demo", Incarnation: "life", Join: id, CreatedAt: at})
		}
	}
	container := func(at time.Time) func(*scene) {
		return func(s *scene) {
			s.node(3).Containers = append(s.node(3).Containers, cke.Container{Name: "etcd-cke." + id, State: cke.ContainerExited, Cluster: "demo", Incarnation: "life", Join: id, StartedAt: at})
		}
	}
	for name, row := range map[string]struct {
		tombstones int
		left       []func(*scene)
		older      bool
	}{
		"its volume":                           {cke.KeptTombstones, []func(*scene){volume(long)}, false},
		"its volume, of an engine without age": {cke.KeptTombstones, []func(*scene){volume(time.Time{})}, false},
		"its container":                        {cke.KeptTombstones, []func(*scene){container(long)}, false},
		"its container, which runs again":      {cke.KeptTombstones, []func(*scene){volume(long), container(late)}, false},
		"a volume that was made later":         {cke.KeptTombstones, []func(*scene){volume(late)}, true},
		"a container that was started later":   {cke.KeptTombstones, []func(*scene){container(late)}, true},
		"fewer are on record than are kept":    {cke.KeptTombstones - 1, []func(*scene){volume(long)}, true},
	} {
		s := formed(3).running()
		for i := range row.tombstones {
			at := noon.Add(-24 * time.Hour).Add(time.Duration(i) * time.Minute)
			s.Identity.Ended = append(s.Identity.Ended, cke.Join{ID: cke.JoinID(fmt.Sprint("gone", i)), Incarnation: "life", EndedAt: at, RemovedAt: at})
		}
		for _, left := range row.left {
			left(s)
		}
		d := strategy.Decide(s.Input)
		if _, older := d.Operation.(op.Freeze); older != row.older {
			t.Errorf("%s: %+v", name, d)
		}
		st := strategy.Report(s.Input, d, cke.Status{})
		if reported := slices.ContainsFunc(st.Problems, func(p cke.Problem) bool { return p.Code == cke.CodeNotOnRecord }); reported == row.older {
			t.Errorf("%s: %+v", name, st.Problems)
		}
	}
}
