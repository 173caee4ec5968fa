package rig

import (
	"context"
	"fmt"
	"time"

	"cke"
)

// lookEvery is the pause between two looks at what tells no changes by itself.
const lookEvery = 100 * time.Millisecond

// Await follows the status until ok, and returns the last one. What else ok checks may change without a new status: it is
// asked again every lookEvery. Await fails when ctx ends first, and says what was seen last.
func (r *Rig) Await(ctx context.Context, what string, ok func(cke.Status) bool) (cke.Status, error) {
	following, cancel := context.WithCancel(ctx)
	statuses, failed, ended := make(chan cke.Status), make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		r.FollowStatus(following, statuses, failed)
	}()
	defer func() { cancel(); <-ended }()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var last cke.Status
	var lastErr error
	for current := false; ; {
		select {
		case <-ctx.Done():
			return last, fmt.Errorf("waited for %s: last seen %s, %q, reason %q, problems %+v, error %v: %w", what, last.Health, last.Summary, last.Reason, last.Problems, lastErr, ctx.Err())
		case lastErr = <-failed:
			current = false
		case last = <-statuses:
			current = true
		case <-tick.C:
		}
		if current && ok(last) {
			return last, nil
		}
	}
}

// FollowStatus sends the stored status and every one that follows it, until ctx ends. Where `ckecli status --watch`
// exits, it sends the error, and starts it again after a pause.
func (r *Rig) FollowStatus(ctx context.Context, statuses chan<- cke.Status, failed chan<- error) {
	for ctx.Err() == nil {
		err := each(ctx, r, func(s cke.Status) bool {
			select {
			case statuses <- s:
			case <-ctx.Done():
			}
			return false
		}, "status", "--watch", "-o", "json")
		select {
		case failed <- err:
		case <-ctx.Done():
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
		}
	}
}
