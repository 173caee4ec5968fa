package backup

import (
	"sync"
	"time"
)

// Verdicts caches which keys objects are signed with, so that a process that lists a target repeatedly reads each header
// once.
type Verdicts struct {
	mu sync.Mutex
	of map[string]remembered
}

// mostVerdicts bounds what is remembered, to some 30 MiB.
const mostVerdicts = 100_000

// remembered is a verdict on an object that was listed like this.
type remembered struct {
	size    int64
	modTime time.Time
	verdict
}

func (v *Verdicts) get(e Entry) (verdict, bool) {
	if v == nil {
		return verdict{}, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	r, ok := v.of[e.Name()]
	return r.verdict, ok && r.size == e.Size && r.modTime.Equal(e.ModTime)
}

func (v *Verdicts) put(e Entry, is verdict) {
	if v == nil || is.bad != nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of == nil || len(v.of) >= mostVerdicts {
		v.of = map[string]remembered{}
	}
	is.head = nil
	v.of[e.Name()] = remembered{e.Size, e.ModTime, is}
}
