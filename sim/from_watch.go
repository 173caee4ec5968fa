package sim

import (
	"maps"
	"slices"
)

// Voter is a voter of a cluster that is watched.
type Voter struct {
	PeerURL string
	// Serves: it runs as one of a quorum, and answers.
	Serves bool
}

// Watch calls look with the voters after everything that happens; nil: there is no quorum, or no cluster. An election is
// no loss of quorum. look is called with the world's lock held.
func (w *World) Watch(look func([]Voter)) { w.watch = look }

// watched are the voters of the cluster that can lose most of them.
func (w *World) watched() (best []Voter) {
	all, most := w.processes(), -1
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
		var voters []Voter
		run, answer := 0, 0
		for _, l := range furthest.present() {
			if l.learner {
				continue
			}
			v := Voter{PeerURL: l.peer}
			if i := slices.IndexFunc(running, func(p process) bool { return p.id == l.id }); i >= 0 && w.hasQuorum(running[i], running) {
				run++
				if _, problem := w.serving(Management, running[i].c.spec.Join.ClientURL()); problem == "" {
					v.Serves = true
					answer++
				}
			}
			voters = append(voters, v)
		}
		if need := majority(len(voters)); run >= need && max(0, answer-need) > most {
			best, most = voters, max(0, answer-need)
		}
	}
	return best
}
