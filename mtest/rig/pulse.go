package rig

import (
	"slices"
	"sync"
	"time"
)

// Pulse notes when writes are acknowledged, and for how long none was. Its methods may be called concurrently. Make it with StartPulse.
type Pulse struct {
	mu   sync.Mutex
	gap  time.Duration // the longest time without an acknowledged write
	last time.Time
	// silences are the times without an acknowledged write from SilenceLeast on, oldest first.
	silences []silence
}

type silence struct{ from, to time.Time }

// SilenceLeast is the shortest time without an acknowledged write that is remembered.
const SilenceLeast = 100 * time.Millisecond

// StartPulse returns a pulse that waits for the first write from now on.
func StartPulse() *Pulse { return &Pulse{last: time.Now()} }

// Beat notes that a write was acknowledged now.
func (p *Pulse) Beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.last) >= SilenceLeast {
		p.silences = append(p.silences, silence{p.last, now})
	}
	p.gap, p.last = max(p.gap, now.Sub(p.last)), now
}

// TakeGap returns the longest time without an acknowledged write since the last call, the present one included.
func (p *Pulse) TakeGap() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	gap := max(p.gap, time.Since(p.last))
	p.gap = 0
	return gap
}

// Silence returns the longest time without an acknowledged write between two times, of those that took SilenceLeast or
// more.
func (p *Pulse) Silence(from, to time.Time) (longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range append(slices.Clip(p.silences), silence{p.last, time.Now()}) {
		if s.from.Before(from) {
			s.from = from
		}
		if s.to.After(to) {
			s.to = to
		}
		longest = max(longest, s.to.Sub(s.from))
	}
	return longest
}

// Silences calls f with each time without an acknowledged write that took SilenceLeast or more, the oldest first.
func (p *Pulse) Silences(f func(from, to time.Time)) {
	p.mu.Lock()
	all := slices.Clone(p.silences)
	p.mu.Unlock()
	for _, s := range all {
		f(s.from, s.to)
	}
}
