package server

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// StallLimit is the longest time from one round of a loop to the next. Each part of a round has a limit of its own, and all
// of them together take less, also while neither the store nor a node answers.
const StallLimit = 2 * time.Minute

// Progress reports which clusters a daemon leads, and whether the loop of each still completes rounds. The zero value
// leads none.
type Progress struct {
	// Leading is called with the names of all clusters that are led after these have changed; nil: it is not. It must not
	// call the Progress.
	Leading func(clusters []string)

	telling sync.Mutex // keeps calls of Leading in order
	mu      sync.Mutex
	rounds  map[string]time.Time // when the loop of each cluster last completed a round, or started
}

// Stalled returns the clusters whose loop has completed no round for longer than StallLimit.
func (p *Progress) Stalled(now time.Time) (clusters []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for cluster, at := range p.rounds {
		if now.Sub(at) > StallLimit {
			clusters = append(clusters, cluster)
		}
	}
	slices.Sort(clusters)
	return clusters
}

// led notes that the loop of a cluster starts.
func (p *Progress) led(cluster string, now time.Time) {
	p.change(func() {
		if p.rounds == nil {
			p.rounds = map[string]time.Time{}
		}
		p.rounds[cluster] = now
	})
}

// left notes that the loop of a cluster has returned.
func (p *Progress) left(cluster string) {
	p.change(func() { delete(p.rounds, cluster) })
}

func (p *Progress) change(do func()) {
	if p == nil {
		return
	}
	p.telling.Lock() // rounds do not wait for who is called
	defer p.telling.Unlock()
	p.mu.Lock()
	do()
	led := slices.Sorted(maps.Keys(p.rounds))
	p.mu.Unlock()
	if p.Leading != nil {
		p.Leading(led)
	}
}

// round notes that the loop of a cluster has completed a round, with success or not.
func (p *Progress) round(cluster string, now time.Time) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rounds[cluster] = now
}
