package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cke"
	"cke/internal/term"
)

// Rhythm of following.
const (
	// leaderPatience is how long a command waits before it says that no daemon leads the cluster.
	leaderPatience = 2 * time.Second
	// silencePatience is how long nothing may be told before it is asked why: leaders tell at least every 10 s.
	silencePatience = 15 * time.Second
	// liveEvery is how often the running time of steps is redrawn on a terminal.
	liveEvery = 100 * time.Millisecond
	// stillEvery is how often running steps are told where nothing can be redrawn.
	stillEvery = 10 * time.Second
)

// follower follows the work on one cluster and tells it.
type follower struct {
	store interface {
		specs
		tellings
		leadership
	}
	cluster string
	tell    *narrator
	// after is the newest record that was there before; those above it are told, and older ones that still run.
	after int64
	// about, if set, reports whether a status already knows of what was asked for; what older ones say is left out.
	about func(cke.Status) bool
	// declared is called with the spec whenever it may have changed, with generation 0 once the cluster is gone; its
	// error ends the following.
	declared func(cke.Spec) error
	// recorded, if set, is called with every record that is told; true ends the following.
	recorded func(cke.Record) bool
	// asked, if set, is called with what people ask for whenever it may have changed; its error ends the following.
	asked func(cke.Requests) error
	// alone, if set, is called when nobody leads the cluster; its error ends the following.
	alone             func(context.Context) error
	patience, silence time.Duration
}

// until tells what happens until done says that the work is done, or ctx ends.
func (f *follower) until(ctx context.Context, done func(cke.Status) bool) (cke.Status, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	statuses := f.store.WatchStatus(watching, f.cluster)
	records := f.store.WatchRecords(watching, f.cluster, f.after)
	clusters := f.store.WatchCluster(watching, f.cluster)
	tick := time.NewTicker(f.tell.every())
	defer tick.Stop()
	patience := time.NewTimer(f.patience)
	defer patience.Stop()
	defer f.tell.end()
	// What is stored already is no sign of life, so the first question is asked in any case.
	asked, fresh := false, false
	for {
		select {
		case <-ctx.Done():
			return cke.Status{}, ctx.Err()
		case <-tick.C:
			f.tell.tick()
			continue
		case <-patience.C:
			if err := f.tellSilence(ctx); err != nil {
				return cke.Status{}, err
			}
			asked = true
		case c, open := <-clusters:
			if !open {
				return cke.Status{}, watchEnded(ctx)
			}
			if err := f.declared(c.Spec); err != nil {
				return cke.Status{}, err
			}
			if f.asked != nil {
				if err := f.asked(c.Asked()); err != nil {
					return cke.Status{}, err
				}
			}
			continue // it is no sign of a leader
		case r, open := <-records:
			if !open {
				return cke.Status{}, watchEnded(ctx)
			}
			f.tell.record(r)
			if f.recorded != nil && f.recorded(r) {
				return cke.Status{}, nil
			}
		case s, open := <-statuses:
			if !open {
				return cke.Status{}, watchEnded(ctx)
			}
			// The first one may have been left by a daemon that is no more; every later one is news, whatever the clocks.
			fresh = fresh || f.tell.now().Sub(s.ObservedAt) <= staleAfter
			if fresh && done(s) {
				f.catchUp(ctx, s)
				return s, nil
			}
			if fresh && (f.about == nil || f.about(s)) {
				f.tell.status(s)
			}
			fresh = true
		}
		if asked {
			patience.Reset(f.silence)
		}
	}
}

// catchUp tells the records that led to s and have not arrived by their own watch yet.
func (f *follower) catchUp(ctx context.Context, s cke.Status) {
	if s.LastOperation == nil || s.LastOperation.ID <= f.after {
		return
	}
	for id := f.tell.unfinished(f.after + 1); id <= s.LastOperation.ID; id++ {
		if r, err := f.store.Record(ctx, f.cluster, id); err == nil {
			f.tell.record(r)
		}
	}
}

// tellSilence says so when no daemon leads the cluster, or the store does not answer; the waiting goes on.
func (f *follower) tellSilence(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, leaderPatience)
	defer cancel()
	switch _, err := f.store.Leader(short, f.cluster); {
	case errors.Is(err, cke.ErrNotFound) && f.alone != nil:
		return f.alone(ctx)
	case errors.Is(err, cke.ErrNotFound):
		f.tell.noLeader(f.cluster)
	case err != nil && ctx.Err() == nil:
		f.tell.noStore(err)
	}
	return nil
}

// watchEnded is why a watch closed although its context goes on.
func watchEnded(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &cke.Error{Code: cke.CodeStore, What: "the store ended the watch"}
}

// detached turns the end of ctx while following into what is said about the work that goes on.
func detached(ctx context.Context, err error, state, how string) error {
	if err != nil && ctx.Err() != nil {
		return detachedError{state: state, how: how}
	}
	return err
}

// watched is how a command ends that only shows: leaving it is its usual end, and needs no words.
func watched(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(context.Cause(ctx), errTimedOut):
		return exitError(exitTimedOut)
	}
	return exitError(exitInterrupted)
}

func (a *app) newFollower(s store, cluster string, after int64) *follower {
	live := term.NewLive(a.stderr, a.size(a.stderr))
	return &follower{store: s, cluster: cluster, after: after, patience: a.patience, silence: a.silence, tell: newNarrator(live, a.colour(a.stderr), a.now)}
}

// unstored is an error of a command that has not asked the store for a change yet.
type unstored struct{ error }

func (e unstored) Unwrap() error { return e.error }

// change stores what a person wants of a cluster, and returns the newest record that was there before: the work that it
// leads to has later ones. When ctx ends meanwhile nobody knows whether done is so; the command how tells.
func (a *app) change(ctx context.Context, s tellings, cluster, done, how string, store func() error) (newest int64, err error) {
	if newest, err = newestRecord(ctx, s, cluster); err != nil {
		return 0, unstored{err}
	}
	return newest, detached(ctx, store(), "it is not known whether "+done, a.again(cluster, how))
}

// newestRecord returns the id of the newest record, 0 when there is none.
func newestRecord(ctx context.Context, s tellings, cluster string) (int64, error) {
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

// records tells records, and with only > 0 that one until it ends.
func (f *follower) records(ctx context.Context, only int64) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	records := f.store.WatchRecords(watching, f.cluster, f.after)
	tick := time.NewTicker(f.tell.every())
	defer tick.Stop()
	defer f.tell.end()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			f.tell.tick()
		case r, open := <-records:
			if !open {
				return watchEnded(ctx)
			}
			if only > 0 && r.ID != only {
				continue
			}
			f.tell.record(r)
			if only > 0 && !r.EndedAt.IsZero() {
				return nil
			}
		}
	}
}
