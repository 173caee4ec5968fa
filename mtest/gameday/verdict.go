package gameday

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/mtest/rig"
)

// Unknown is the number of lost writes when not all could be read back.
const Unknown = -1

// Verdict is how a game day ended.
type Verdict struct {
	Load rig.Verdict
	// Lost is how many acknowledged writes are missing, or Unknown.
	Lost int
	// Silence is the longest time without an acknowledged write.
	Silence time.Duration
	// Health of the cluster at the end; Whole: all members serve as declared.
	Health  cke.Health
	Whole   bool
	Faults  []Happened
	Records []cke.Record // oldest first
	// Err is what could not be done, or was found wrong.
	Err error
}

// Passed reports whether all acknowledged writes are there, no read was stale, all members hold equal data of the same
// cluster, and the cluster is READY.
func (v Verdict) Passed() bool { return v.Err == nil && v.Lost == 0 && v.Whole }

// judge waits until the cluster is whole, ends the load, and checks everything.
func (g *game) judge(ctx context.Context, before cke.Status) Verdict {
	var v Verdict
	g.mu.Lock()
	began := time.Now()
	if len(g.happened) > 0 {
		began = g.happened[0].At
	}
	g.mu.Unlock()
	last := time.Now()
	limited, cancel := context.WithTimeout(ctx, wholeLimit)
	defer cancel()
	st, missing := g.await(limited, func(st cke.Status) bool { return st.ObservedAt.After(last) && whole(st) })
	v.Health, v.Whole = st.Health, missing == nil
	if v.Whole {
		missing = g.load.Await(limited, firstWrites)
	}
	v.Silence = g.load.Silence(began, time.Now())
	g.print("check", "every acknowledged write, the history of the registers, the data of all members")
	checking, cancel := context.WithTimeout(ctx, verdictLimit)
	defer cancel()
	var urls []string
	for _, m := range st.Members {
		if m.ClientURL != "" && (v.Whole || m.Ready) {
			urls = append(urls, m.ClientURL)
		}
	}
	v.Lost = Unknown
	var err error
	if len(urls) == 0 {
		g.load.Stop()
		v.Load.Acked = g.load.Acked()
		err = errors.New("no member serves: nothing could be read back")
	} else {
		v.Load, err = g.load.Finish(checking, urls, before.ClusterID)
	}
	var lost *rig.LostError
	switch {
	case errors.As(err, &lost):
		v.Lost = len(lost.Lost)
	case err == nil:
		v.Lost = 0
		err = g.load.Clear(checking, urls[0])
	}
	if st.Incarnation != before.Incarnation {
		err = errors.Join(err, fmt.Errorf("another cluster: incarnation %s, %s before", st.Incarnation, before.Incarnation))
	}
	records, unread := g.Rig.Records(checking, 0)
	v.Err = errors.Join(g.err(), missing, err, unread)
	for _, r := range slices.Backward(records) {
		if r.ID > g.newest {
			v.Records = append(v.Records, r)
		}
	}
	v.Faults = g.attribute(v.Records)
	return v
}

// attribute gives each record to the last fault that happened before it.
func (g *game) attribute(records []cke.Record) []Happened {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []Happened
	for _, h := range g.happened {
		all = append(all, *h)
	}
	for _, r := range records {
		for i := range slices.Backward(all) {
			if r.StartedAt.After(all[i].At) {
				all[i].Records = append(all[i].Records, r)
				break
			}
		}
	}
	return all
}
