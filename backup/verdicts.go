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
	// full counts how many more are put before what was not used is looked for again.
	full int
}

// mostVerdicts bounds what is remembered, to some 30 MiB.
const mostVerdicts = 100_000

// remembered is a verdict on an object that was listed like this. used: it was asked for, or put in, since others were forgotten.
type remembered struct {
	size    int64
	modTime time.Time
	used    bool
	verdict
}

func (v *Verdicts) get(e Entry) (verdict, bool) {
	if v == nil {
		return verdict{}, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	r, ok := v.of[e.Name()]
	if ok = ok && r.size == e.Size && r.modTime.Equal(e.ModTime); ok && !r.used {
		r.used = true
		v.of[e.Name()] = r
	}
	return r.verdict, ok
}

func (v *Verdicts) put(e Entry, is verdict) {
	if v == nil || is.bad != nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of == nil {
		v.of = map[string]remembered{}
	}
	is.head = nil
	if v.forget(); len(v.of) < mostVerdicts {
		v.of[e.Name()] = remembered{e.Size, e.ModTime, true, is}
	}
}

// forget removes what was not asked for since the last time, once there is no room.
func (v *Verdicts) forget() {
	if len(v.of) < mostVerdicts || v.full > 0 {
		v.full = max(0, v.full-1)
		return
	}
	for name, r := range v.of {
		if !r.used {
			delete(v.of, name)
			continue
		}
		r.used = false
		v.of[name] = r
	}
	v.full = mostVerdicts
}
