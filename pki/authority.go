package pki

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"cke"
)

const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 365 * 24 * time.Hour
	// skew is how far before now certificates begin to hold: the nodes' clocks need not be right to the minute.
	skew = time.Hour
	// fresh is for how long CAs are used as they were read. A cluster that was deleted and made again under the same
	// name has other CAs.
	fresh = time.Minute
	// patience bounds the wait for the store where what was read before still serves.
	patience = 2 * time.Second
)

// Authority issues the certificates of one cluster. Its CAs are made by the first call that needs them; when
// several daemons do so at once, one makes them and the others read them. Safe for concurrent use.
//
// What the store says (cke.ErrNotFound, an unreadable seal) passes through in every error.
type Authority struct {
	secrets cke.Secrets
	cluster string
	now     func() time.Time

	lock   chan struct{} // holds one token; guards what follows, and gives up waiting when a context ends
	cas    *authorities  // as last read, or nil
	readAt time.Time

	mu  sync.Mutex
	own *ownCert // what cke last showed to members, or nil
}

var _ cke.Authority = (*Authority)(nil)

// authorities are the CAs of one cluster.
type authorities struct{ peer, server, client *ca }

// New returns the authority of one cluster. It reads and writes nothing yet.
func New(secrets cke.Secrets, cluster string, now func() time.Time) *Authority {
	return &Authority{secrets: secrets, cluster: cluster, now: now, lock: make(chan struct{}, 1)}
}

// Ensure implements cke.Authority.
func (a *Authority) Ensure(ctx context.Context) error {
	if err := a.acquire(ctx); err != nil {
		return err
	}
	defer a.release()
	_, err := a.read(ctx, true)
	return err
}

// get returns the CAs, made on first need. Once they were there, they are not made again: whoever deleted them
// meant it.
func (a *Authority) get(ctx context.Context) (*authorities, error) {
	if err := a.acquire(ctx); err != nil {
		return nil, err
	}
	defer a.release()
	if a.cas != nil && a.now().Sub(a.readAt).Abs() < fresh {
		return a.cas, nil
	}
	if a.cas == nil {
		return a.read(ctx, true)
	}
	again, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cas, err := a.read(again, false)
	if cke.CodeOf(err) == cke.CodeStore || errors.Is(err, context.DeadlineExceeded) {
		a.readAt = a.now() // the store is out of reach for now: what was read still holds
		return a.cas, nil
	}
	return cas, err
}

// read reads the CAs, all at once; with create it makes those that are missing. The caller holds the lock.
func (a *Authority) read(ctx context.Context, create bool) (*authorities, error) {
	var cas authorities
	g, ctx := errgroup.WithContext(ctx)
	for name, to := range map[string]**ca{peerCA: &cas.peer, serverCA: &cas.server, clientCA: &cas.client} {
		g.Go(func() error {
			c, err := a.readCA(ctx, name)
			if create && errors.Is(err, cke.ErrNotFound) {
				c, err = a.createCA(ctx, name)
			}
			*to = c
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	a.cas, a.readAt = &cas, a.now()
	return a.cas, nil
}

func (a *Authority) readCA(ctx context.Context, name string) (*ca, error) {
	value, err := a.secrets.Secret(ctx, secretName(name))
	if err != nil {
		return nil, fmt.Errorf("read the %s CA of %s: %w", name, a.cluster, err)
	}
	c, err := parseCA(name, value)
	if err != nil {
		return nil, a.unusable(name, "is damaged in the store", err)
	}
	return c, nil
}

// createCA makes a CA and stores it, or returns the one that somebody else has stored first.
func (a *Authority) createCA(ctx context.Context, name string) (*ca, error) {
	c, err := newCA(name, a.cluster, a.now())
	if err != nil {
		return nil, fmt.Errorf("make the %s CA of %s: %w", name, a.cluster, err)
	}
	value, err := c.encode()
	if err != nil {
		return nil, fmt.Errorf("make the %s CA of %s: %w", name, a.cluster, err)
	}
	err = a.secrets.CreateSecret(ctx, secretName(name), value)
	if errors.Is(err, cke.ErrConflict) {
		return a.readCA(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("store the %s CA of %s: %w", name, a.cluster, err)
	}
	return c, nil
}

// unusable tells of a CA that is there and of no use. It is never replaced on its own account: every member and
// client that trusts it would be cut off.
func (a *Authority) unusable(name, what string, err error) error {
	return &cke.Error{
		Code: cke.CodeInternal, What: fmt.Sprintf("the %s CA of %s %s", name, a.cluster, what), Unchanged: true, Err: err,
		Facts: []string{"it is never made anew by itself, since members and clients trust it"},
	}
}

func (a *Authority) acquire(ctx context.Context) error {
	select {
	case a.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the CAs of %s: %w", a.cluster, ctx.Err())
	}
}

func (a *Authority) release() { <-a.lock }
