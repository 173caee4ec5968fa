package balance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"cke"
)

// overlapping is a fleet whose clusters prefer two or three neighboring hosts each, or none.
func overlapping(r *rand.Rand) cke.Fleet {
	f := random(r, 2+r.IntN(6), 60, false)
	for i := range f.Clusters {
		first := r.IntN(len(f.Daemons) + 1)
		for k := range r.IntN(4) {
			f.Clusters[i].Prefer = append(f.Clusters[i].Prefer, fmt.Sprintf("h%d", (first+k)%(len(f.Daemons)+1)))
		}
	}
	return f
}

// Clusters prefer hosts of which some are the same, each daemon knows alone which of its clusters are busy, and acts on a view that may be
// some moves old: no cluster goes to and fro, and all comes to rest, also while the busy ones stay busy.
func TestSteps_ComeToRestWhereEachDaemonKnowsSomethingElse(t *testing.T) {
	most := 0.0
	for seed := range uint64(240) {
		r := rand.New(rand.NewPCG(seed, 3))
		f := overlapping(r)
		views, old, busy := []cke.Fleet{f}, r.IntN(6), map[string]bool{}
		for _, c := range f.Clusters {
			busy[c.Cluster] = r.IntN(1+int(seed%4)) > 0
		}
		step := func() (moves int) {
			view := views[max(0, len(views)-1-r.IntN(1+old))]
			me := f.Daemons[r.IntN(len(f.Daemons))].ID
			mine := func(cluster string) int {
				return slices.IndexFunc(f.Clusters, func(l cke.Led) bool { return l.Cluster == cluster && l.By == me })
			}
			steps := Steps(view, me, Options{Pinned: func(c string) bool { return busy[c] && mine(c) >= 0 }})
			for _, m := range steps[:min(len(steps), 1+r.IntN(8))] {
				if mine(m.Cluster) >= 0 {
					do(t, &f, m)
					moves++
				}
			}
			views = append(views, f)
			f.Clusters = slices.Clone(f.Clusters)
			return moves
		}
		rest := func(when string) {
			for quiet, moves := 0, 0; quiet < 60; quiet++ {
				n := step()
				if n > 0 {
					quiet = 0
				}
				if moves += n; moves > 2*len(f.Clusters) {
					t.Fatalf("seed %d: it does not come to rest %s: %v", seed, when, Loads(f, nil))
				}
				most = max(most, float64(moves)/float64(max(1, len(f.Clusters))))
			}
		}
		rest("while some are busy")
		clear(busy)
		rest("once none is busy")
		if left := Plan(f, Options{}); len(left) > 0 {
			t.Fatalf("seed %d: left: %s", seed, text(left))
		}
	}
	t.Logf("at most %.2f moves for each cluster", most)
}
