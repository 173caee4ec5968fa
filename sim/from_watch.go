package sim

import (
	"maps"
	"slices"
)

// Watch calls look with the tolerance after everything that happens: how many more voters may fail before quorum is lost, -1
// without one or without a cluster. An election is no loss of quorum. look is called with the world's lock held.
func (w *World) Watch(look func(tolerance int)) { w.watch = look }

// tolerance counts voters that run, and of them those that answer.
func (w *World) tolerance() int {
	all := w.processes()
	best := -1
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if w.formed != nil && id != w.history() {
			continue
		}
		running := all[id]
		furthest := slices.MaxFunc(running, func(a, b process) int {
			if a.newer(b.member) {
				return 1
			}
			return -1
		})
		voters, run, answer := furthest.voters(), 0, 0
		for _, p := range running {
			if !slices.Contains(voters, p.id) || !w.hasQuorum(p, running) {
				continue
			}
			run++
			if _, problem := w.serving(Management, p.c.spec.Join.ClientURL()); problem == "" {
				answer++
			}
		}
		if need := majority(len(voters)); run >= need {
			best = max(best, max(0, answer-need))
		}
	}
	return best
}
