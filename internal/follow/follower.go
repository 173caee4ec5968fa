// Package follow follows the work on a cluster and prints it, each thing once.
package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cke"
	"cke/internal/words"
	"cke/storage"
)

// Rhythm of following.
const (
	// LeaderPatience is how long a command waits before it says that no daemon leads the cluster.
	LeaderPatience = 2 * time.Second
	// SilencePatience is how long a leader may report nothing before the reason is asked: leaders report at least every 10 s.
	SilencePatience = 15 * time.Second
	// liveEvery is how often the running time of steps is redrawn on a terminal.
	liveEvery = 100 * time.Millisecond
	// stillEvery is how often running steps are printed where nothing can be redrawn.
	stillEvery = 10 * time.Second
)

// Store is what following reads of the store. Its contract is that of storage.Store.
type Store interface {
	WatchCluster(ctx context.Context, cluster string) <-chan storage.ClusterState
	WatchStatus(ctx context.Context, cluster string) <-chan cke.Status
	WatchRecords(ctx context.Context, cluster string, after int64) <-chan cke.Record
	Record(ctx context.Context, cluster string, id int64) (cke.Record, error)
	Leader(ctx context.Context, cluster string) (cke.Leader, error)
}

// Follower follows the work on one cluster and prints it.
type Follower struct {
	Store   Store
	Cluster string
	// Tell is the narrator that prints it.
	Tell *Narrator
	// After is the newest record from before; those above it are printed, and older ones that still run.
	After int64
	// About, if set, reports whether a status already knows of what was asked for; what older ones say is left out.
	About func(cke.Status) bool
	// Declared is called with the spec whenever it may have changed, with generation 0 once the cluster is gone; its
	// error ends the following.
	Declared func(cke.Spec) error
	// Recorded, if set, is called with every record that is printed; true ends the following.
	Recorded func(cke.Record) bool
	// Asked, if set, is called with the requests whenever they may have changed; its error ends the following.
	Asked func(cke.Requests) error
	// Alone, if set, is called when no daemon leads the cluster; its error ends the following.
	Alone func(context.Context) error
	// Patience is how long a first sign of a leader is waited for, and Silence how long it may report nothing after that, before
	// the reason is asked.
	Patience, Silence time.Duration
}

// Until prints what happens until done says that the work is done, or ctx ends.
func (f *Follower) Until(ctx context.Context, done func(cke.Status) bool) (cke.Status, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	statuses := f.Store.WatchStatus(watching, f.Cluster)
	records := f.Store.WatchRecords(watching, f.Cluster, f.After)
	clusters := f.Store.WatchCluster(watching, f.Cluster)
	tick := time.NewTicker(f.Tell.every())
	defer tick.Stop()
	patience := time.NewTimer(f.Patience)
	defer patience.Stop()
	defer f.Tell.End()
	// What is stored already is no sign of life, so the first question is asked in any case.
	asked, fresh := false, false
	for {
		select {
		case <-ctx.Done():
			return cke.Status{}, ctx.Err()
		case <-tick.C:
			f.Tell.Tick()
			continue
		case <-patience.C:
			if err := f.tellSilence(ctx); err != nil {
				return cke.Status{}, err
			}
			asked = true
		case c, open := <-clusters:
			if !open {
				return cke.Status{}, WatchEnded(ctx)
			}
			if err := f.Declared(c.Spec); err != nil {
				return cke.Status{}, err
			}
			if f.Asked != nil {
				if err := f.Asked(c.Asked()); err != nil {
					return cke.Status{}, err
				}
			}
			continue // it is no sign of a leader
		case r, open := <-records:
			if !open {
				return cke.Status{}, WatchEnded(ctx)
			}
			f.Tell.Record(r)
			if f.Recorded != nil && f.Recorded(r) {
				return cke.Status{}, nil
			}
		case s, open := <-statuses:
			if !open {
				return cke.Status{}, WatchEnded(ctx)
			}
			// The first one may have been left by a daemon that is no more; every later one is news, whatever the clocks.
			fresh = fresh || f.Tell.now().Sub(s.ObservedAt) <= words.StaleAfter
			if fresh && done(s) {
				f.catchUp(ctx, s)
				return s, nil
			}
			if fresh && (f.About == nil || f.About(s)) {
				f.Tell.Status(s)
			}
			fresh = true
		}
		if asked {
			patience.Reset(f.Silence)
		}
	}
}

// catchUp prints the records that led to s and have not arrived by their own watch yet.
func (f *Follower) catchUp(ctx context.Context, s cke.Status) {
	if s.LastOperation == nil || s.LastOperation.ID <= f.After {
		return
	}
	for id := f.Tell.unfinished(f.After + 1); id <= s.LastOperation.ID; id++ {
		if r, err := f.Store.Record(ctx, f.Cluster, id); err == nil {
			f.Tell.Record(r)
		}
	}
}

// tellSilence says so when no daemon leads the cluster, or the store does not answer; the waiting continues.
func (f *Follower) tellSilence(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, LeaderPatience)
	defer cancel()
	switch _, err := f.Store.Leader(short, f.Cluster); {
	case errors.Is(err, cke.ErrNotFound) && f.Alone != nil:
		return f.Alone(ctx)
	case errors.Is(err, cke.ErrNotFound):
		f.Tell.NoLeader(f.Cluster)
	case err != nil && ctx.Err() == nil:
		f.Tell.noStore(err)
	}
	return nil
}

// WatchEnded returns why a watch closed although its context is active.
func WatchEnded(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &cke.Error{Code: cke.CodeStore, What: "the store ended the watch"}
}

// recordReader reads records.
type recordReader interface {
	Records(ctx context.Context, cluster string, n int) ([]cke.Record, error)
}

// NewestRecord returns the id of the newest record, 0 when there is none.
func NewestRecord(ctx context.Context, s recordReader, cluster string) (int64, error) {
	records, err := s.Records(ctx, cluster, 1)
	if err != nil {
		return 0, fmt.Errorf("read the newest record: %w", err)
	}
	if len(records) == 0 {
		return 0, nil
	}
	if r := records[0]; r.State == cke.RecordRunning {
		return r.ID - 1, nil
	}
	return records[0].ID, nil
}

// Records prints records, and with only > 0 that one until it is over.
func (f *Follower) Records(ctx context.Context, only int64) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	records := f.Store.WatchRecords(watching, f.Cluster, f.After)
	tick := time.NewTicker(f.Tell.every())
	defer tick.Stop()
	defer f.Tell.End()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			f.Tell.Tick()
		case r, open := <-records:
			if !open {
				return WatchEnded(ctx)
			}
			if only > 0 && r.ID != only {
				continue
			}
			f.Tell.Record(r)
			if only > 0 && !r.EndedAt.IsZero() {
				return nil
			}
		}
	}
}
