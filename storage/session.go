package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// session is this process's lease on all that it leads. It ends when the lease might have run out in the store, and
// never comes back; the next campaign makes a new one.
type session struct {
	s     *Store
	lease clientv3.LeaseID
	// limit is how long the session lasts after a renewal was sent: shorter than the lease, so that effects have
	// stopped when another daemon may begin.
	limit time.Duration

	ctx context.Context
	end context.CancelCauseFunc

	mu sync.Mutex
	// renewed is when the last renewal that the store confirmed was sent.
	renewed time.Time
}

// elapsed is how much time has certainly not been less since then. The monotonic clock stands still while the machine
// sleeps; the wall clock can be set back. Neither stands still while the process is stopped.
func elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// newSession asks for a lease and keeps it alive until the session ends.
func (s *Store) newSession(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	sent := time.Now()
	lease, err := s.client.Grant(ctx, int64(math.Ceil(s.ttl.Seconds())))
	if err != nil {
		return nil, err
	}
	ses := &session{s: s, lease: lease.ID, limit: s.ttl * 9 / 10, renewed: sent}
	ses.ctx, ses.end = context.WithCancelCause(s.ctx)
	s.spawn(ses.watchClock)
	s.spawn(ses.keepAlive)
	return ses, nil
}

// check returns ErrDeposed once the lease might have run out. It asks the clock, so that it tells the truth in a
// process that was stopped and continues, before any timer has fired.
func (ses *session) check() error {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	return ses.checkLocked(time.Now())
}

func (ses *session) checkLocked(now time.Time) error {
	if ses.ctx.Err() == nil && elapsed(ses.renewed, now) >= ses.limit {
		ses.end(fmt.Errorf("no renewal confirmed for %v: %w", elapsed(ses.renewed, now).Round(time.Millisecond), cke.ErrDeposed))
	}
	if ses.ctx.Err() != nil {
		return deposed(ses.ctx)
	}
	return nil
}

// confirm counts a renewal that was sent then, unless the session has ended already.
func (ses *session) confirm(sent time.Time) {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.checkLocked(time.Now()) == nil {
		ses.renewed = sent
	}
}

// watchClock ends the session in time.
func (ses *session) watchClock() {
	for {
		ses.mu.Lock()
		err := ses.checkLocked(time.Now())
		left := ses.limit - elapsed(ses.renewed, time.Now())
		ses.mu.Unlock()
		if err != nil {
			return
		}
		select {
		case <-time.After(left):
		case <-ses.ctx.Done():
		}
	}
}

// keepAlive renews the lease every fifth of its time to live. An attempt has a quarter of it, since a new stream may
// need a login first; two may hang before time runs out.
func (ses *session) keepAlive() {
	period, patience, pause := ses.s.ttl/5, ses.s.ttl/4, ses.s.ttl/50
	var line renewals
	defer line.hangUp()
	for wait := period; ; {
		select {
		case <-time.After(wait):
		case <-ses.ctx.Done():
			return
		}
		sent := time.Now()
		err := line.renew(ses, patience)
		switch {
		case err == nil:
			ses.confirm(sent)
			ses.s.sweep(ses, period)
			wait = period
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			ses.lost()
		default:
			ses.s.log.Debug("session not renewed", "error", err)
			wait = pause
		}
	}
}

// lost ends a session that the store does not know any more.
func (ses *session) lost() { ses.end(fmt.Errorf("the store ended the session: %w", cke.ErrDeposed)) }

// revoke lets others lead at once, as far as the store can be reached. The session has ended.
func (ses *session) revoke() {
	ctx, cancel := context.WithTimeout(context.Background(), ses.s.farewell)
	defer cancel()
	if _, err := ses.s.client.Revoke(ctx, ses.lease); err != nil {
		ses.s.log.Debug("session not revoked, it runs out", "error", err)
	}
}

// revokeLimit is how long Close tells the store that a session is over; else it runs out by itself.
const revokeLimit = time.Second

// deposed is why a session or a term ended; it always is ErrDeposed.
func deposed(ctx context.Context) error { return context.Cause(ctx) }
