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

// Authority issues the certificates of one cluster. Its CAs are created by the first call that needs them; if several
// daemons do so at once, one creates them and the others read them. Safe for concurrent use.
//
// Errors of the store (cke.ErrNotFound, an unreadable seal) are in the chain of every error.
type Authority struct {
	secrets cke.Secrets
	cluster string
	now     func() time.Time

	lock  chan struct{}    // holds one token; guards what follows, and gives up waiting when a context ends
	known map[string]known // by the name of the secret

	mu  sync.Mutex
	own *ownCert // what cke last showed to members, or nil
}

var _ cke.Authority = (*Authority)(nil)

// known is a CA as it was read last. A generation of one never changes.
type known struct {
	ca *ca
	at time.Time
}

// authorities are the CAs of one cluster, as it is on record which of them sign and are trusted.
type authorities struct{ peer, server, client issuer }

// issuer is one authority.
type issuer struct {
	signs   *ca
	trusted []*ca
}

// New returns the authority of one cluster. It does not access the store yet.
func New(secrets cke.Secrets, cluster string, now func() time.Time) *Authority {
	return &Authority{secrets: secrets, cluster: cluster, now: now, lock: make(chan struct{}, 1), known: map[string]known{}}
}

// Ensure implements cke.Authority.
func (a *Authority) Ensure(ctx context.Context, rec cke.Authorities) error {
	if err := a.acquire(ctx); err != nil {
		return err
	}
	defer a.release()
	clear(a.known)
	_, err := a.read(ctx, rec)
	return err
}

// get returns the CAs, made on first need. Once they were there, they are not made again: whoever deleted them
// meant it.
func (a *Authority) get(ctx context.Context, rec cke.Authorities) (*authorities, error) {
	if err := a.acquire(ctx); err != nil {
		return nil, err
	}
	defer a.release()
	return a.read(ctx, rec)
}

// read reads the CAs of which a record tells, all at once, apart from those that are known. The caller holds the lock.
func (a *Authority) read(ctx context.Context, rec cke.Authorities) (*authorities, error) {
	type wanted struct {
		name cke.AuthorityName
		is   cke.CA
		ca   *ca
		at   time.Time
	}
	all := map[string]*wanted{} // by the name of the secret
	for _, name := range cke.AuthorityNames() {
		for _, is := range append(rec.Of(name).Trusted(), rec.Of(name).Signs()) {
			all[cke.AuthoritySecret(name, is.Generation)] = &wanted{name: name, is: is}
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for secret, w := range all {
		before := a.known[secret]
		g.Go(func() (err error) {
			w.ca, w.at, err = a.one(ctx, w.name, w.is, before)
			return err
		})
	}
	err := g.Wait()
	for secret, w := range all {
		if w.ca != nil {
			a.known[secret] = known{w.ca, w.at}
		}
	}
	if err != nil {
		return nil, err
	}
	of := func(name cke.AuthorityName) issuer {
		r := rec.Of(name)
		i := issuer{signs: all[cke.AuthoritySecret(name, r.Signs().Generation)].ca}
		for _, c := range r.Trusted() {
			i.trusted = append(i.trusted, all[cke.AuthoritySecret(name, c.Generation)].ca)
		}
		return i
	}
	return &authorities{peer: of(cke.PeerAuthority), server: of(cke.ServerAuthority), client: of(cke.ClientAuthority)}, nil
}

// one returns a CA and when it was read. Only the first generation is made on need, and only while none is on record.
func (a *Authority) one(ctx context.Context, name cke.AuthorityName, is cke.CA, before known) (*ca, time.Time, error) {
	now := a.now()
	if before.ca != nil {
		if now.Sub(before.at).Abs() < fresh {
			return before.ca, before.at, nil
		}
		again, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		c, err := a.readCA(again, name, is.Generation)
		if cke.CodeOf(err) == cke.CodeStore || errors.Is(err, context.DeadlineExceeded) {
			return before.ca, now, nil // the store is out of reach for now: what was read still holds
		}
		return a.recorded(name, is, c, now, err)
	}
	c, err := a.readCA(ctx, name, is.Generation)
	if errors.Is(err, cke.ErrNotFound) && is.Generation == 0 && is.Fingerprint == "" {
		c, err = a.createCA(ctx, name, 0)
	}
	return a.recorded(name, is, c, now, err)
}

// recorded refuses a CA that is another one than that on record: members would not trust what it signs.
func (a *Authority) recorded(name cke.AuthorityName, is cke.CA, c *ca, at time.Time, err error) (*ca, time.Time, error) {
	if err == nil && is.Fingerprint != "" && is.Fingerprint != c.fingerprint() {
		return nil, at, a.unusable(name, "is not the one on record", nil)
	}
	return c, at, err
}

func (a *Authority) readCA(ctx context.Context, name cke.AuthorityName, generation int) (*ca, error) {
	value, err := a.secrets.Secret(ctx, cke.AuthoritySecret(name, generation))
	if err != nil {
		return nil, fmt.Errorf("read the %s CA of %s: %w", name, a.cluster, err)
	}
	c, err := parseCA(name, value)
	if err != nil {
		return nil, a.unusable(name, "is damaged in the store", err)
	}
	return c, nil
}

// createCA makes a CA and stores it, or returns the one that another client has stored first.
func (a *Authority) createCA(ctx context.Context, name cke.AuthorityName, generation int) (*ca, error) {
	c, err := newCA(name, a.cluster, generation, a.now())
	if err != nil {
		return nil, fmt.Errorf("create the %s CA of %s: %w", name, a.cluster, err)
	}
	value, err := c.encode()
	if err != nil {
		return nil, fmt.Errorf("create the %s CA of %s: %w", name, a.cluster, err)
	}
	err = a.secrets.CreateSecret(ctx, cke.AuthoritySecret(name, generation), value)
	if errors.Is(err, cke.ErrConflict) {
		return a.readCA(ctx, name, generation)
	}
	if err != nil {
		return nil, fmt.Errorf("store the %s CA of %s: %w", name, a.cluster, err)
	}
	return c, nil
}

// CA implements cke.Authority.
func (a *Authority) CA(ctx context.Context, name cke.AuthorityName, generation int) (cke.CA, error) {
	c, err := a.readCA(ctx, name, generation)
	if err != nil {
		return cke.CA{}, err
	}
	return c.record(generation), nil
}

// CreateCA implements cke.Authority.
func (a *Authority) CreateCA(ctx context.Context, name cke.AuthorityName, generation int) (cke.CA, error) {
	c, err := a.readCA(ctx, name, generation)
	if errors.Is(err, cke.ErrNotFound) {
		c, err = a.createCA(ctx, name, generation)
	}
	if err != nil {
		return cke.CA{}, err
	}
	return c.record(generation), nil
}

// unusable tells of a CA that is there and of no use. It is never replaced on its own account: every member and
// client that trusts it would be cut off.
func (a *Authority) unusable(name cke.AuthorityName, what string, err error) error {
	return &cke.Error{
		Code: cke.CodeInternal, What: fmt.Sprintf("the %s CA of %s %s", name, a.cluster, what), Unchanged: true, Err: err,
		Facts: []string{"cke never replaces it automatically, because members and clients trust it"},
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
