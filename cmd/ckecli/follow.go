package main

import (
	"context"
	"errors"

	"cke/internal/follow"
	"cke/internal/term"
)

// detached turns the end of ctx while following into what is said about the work that continues.
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

func (a *app) newFollower(s store, cluster string, after int64) *follow.Follower {
	live := term.NewLive(a.stderr, a.size(a.stderr))
	return &follow.Follower{Store: s, Cluster: cluster, After: after, Patience: a.patience, Silence: a.silence, Tell: follow.NewNarrator(live, a.colour(a.stderr), a.now)}
}

// unstored is an error of a command that has not asked the store for a change yet.
type unstored struct{ error }

func (e unstored) Unwrap() error { return e.error }

// change stores what a user wants of a cluster, and returns the newest record that was there before: the work that it
// leads to has later ones. When ctx ends meanwhile it is not known whether done holds; the command how shows it.
func (a *app) change(ctx context.Context, s tellings, cluster, done, how string, store func() error) (newest int64, err error) {
	if newest, err = follow.NewestRecord(ctx, s, cluster); err != nil {
		return 0, unstored{err}
	}
	return newest, detached(ctx, store(), "it is not known whether "+done, a.again(cluster, how))
}
