package gameday

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cke"
)

// watchStatus keeps the latest status, and prints what is new in it.
func (g *game) watchStatus(ctx context.Context) {
	statuses, failed := make(chan cke.Status), make(chan error)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.Rig.FollowStatus(ctx, statuses, failed)
	}()
	defer func() { <-ended }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-failed: // it is started again
		case st := <-statuses:
			g.printStatus(st)
			g.mu.Lock()
			g.status = st
			close(g.news)
			g.news = make(chan struct{})
			g.mu.Unlock()
		}
	}
}

// watchRecords prints operations as they start and end. Where the history is no longer followed, it is followed again.
func (g *game) watchRecords(ctx context.Context) {
	for {
		_ = g.Rig.Follow(ctx, func(r cke.Record) bool { // it is followed again
			if r.ID > g.newest {
				g.printRecord(r)
			}
			return false
		})
		if !pass(ctx, retryEvery) {
			return
		}
	}
}

// await waits until the status is ok, and returns the last one.
func (g *game) await(ctx context.Context, ok func(cke.Status) bool) (cke.Status, error) {
	for {
		g.mu.Lock()
		st, news := g.status, g.news
		g.mu.Unlock()
		if ok(st) {
			return st, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return st, fmt.Errorf("waited for the status: %w", ctx.Err())
		}
	}
}

// wholeAfter returns what reports whether an observation shows the cluster whole after a fault that started at a time
// and is over since another.
func (e entry) wholeAfter(before cke.Status, at, over time.Time) func(cke.Status) bool {
	trouble := e.fault.remains()
	return func(st cke.Status) bool {
		if st.ObservedAt.After(at) && !whole(st) {
			trouble = true
		}
		// An observation that started before the fault may end after it, and shows nothing of it.
		if !st.ObservedAt.After(over) || !trouble && !st.ObservedAt.After(at.Add(probeInterval)) || !whole(st) {
			return false
		}
		return !e.fault.fresh || joinOf(st, e.nodes[0]) != joinOf(before, e.nodes[0])
	}
}

// emptiedAfter returns what reports whether the data of a member that was to stay is missing for good: not only while
// its container is removed and made again.
func (e entry) emptiedAfter(over time.Time) func(cke.Status) bool {
	return func(st cke.Status) bool {
		return !e.fault.fresh && len(e.nodes) == 1 && st.ObservedAt.After(over.Add(2*probeInterval)) &&
			slices.ContainsFunc(st.Problems, func(p cke.Problem) bool { return p.Code == cke.CodeDataMissing && p.Node == e.nodes[0] })
	}
}

// joinOf returns the membership of a node.
func joinOf(st cke.Status, node string) cke.JoinID {
	for _, m := range st.Members {
		if m.Name == node {
			return m.Join
		}
	}
	return ""
}
