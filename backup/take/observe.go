package take

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"cke/backup"
	"cke/internal/contain"
)

// leaseQueue bounds leases that wait to be asked about; leaseAsks how many are asked about at once.
const (
	leaseQueue = 4096
	leaseAsks  = 16
)

// observer asks etcd for what a watch does not deliver: leases, hashes, the revision of users and roles.
type observer struct {
	k *cluster
	c *Config

	queue chan int64
	mu    sync.Mutex
	seen  map[int64]int64 // leases met in changes since the last list that was stored, and the time they were granted
	// full is the revision of a full that no whole list follows yet, 0: none; taking: one is being taken, of a revision not yet known.
	full   int64
	taking bool

	hashed   time.Time // when a hash was last asked for, and how long that took
	hashTook time.Duration

	// What follows is used by one flush at a time.
	known  map[int64]int64    // what the stream has been told of; nil: nothing, tell all
	listed []int64            // what was in seen when the list was made
	shown  uint64             // how far the log was committed when leases were listed last: they are of no later entry
	index  uint64             // how far the member that made it had applied the log
	hashes chan []backup.Hash // gives the hash that was asked for with a delta; nil: none was
	// later are the lists that may be of a later revision than the end of their delta, or of that one: a full merged up to there, or one that
	// another daemon took there, lacks what they say.
	later []backup.LeaseChange
}

func newObserver(k *cluster, c *Config) *observer {
	return &observer{k: k, c: c, queue: make(chan int64, leaseQueue), seen: map[int64]int64{}}
}

// run asks about leases as soon as changes name them: some live for a moment only.
func (o *observer) run(ctx context.Context) {
	var g errgroup.Group
	g.SetLimit(leaseAsks)
	defer g.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-o.queue:
			g.Go(contain.Err(func() error {
				if ttl, err := o.ttl(ctx, o.k.all, id); err == nil && ttl > 0 {
					o.mu.Lock()
					o.seen[id] = ttl
					o.mu.Unlock()
				}
				return nil
			}))
		}
	}
}

// notice takes leases that changes name. It never blocks: what does not fit is asked about with the next list.
func (o *observer) notice(changes []backup.Change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range changes {
		id := changes[i].Lease
		if id == 0 {
			continue
		}
		if _, ok := o.seen[id]; ok {
			continue
		}
		select {
		case o.queue <- id:
			o.seen[id] = 0
		default:
		}
	}
}

func (o *observer) ttl(ctx context.Context, cli *clientv3.Client, id int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := cli.TimeToLive(ctx, clientv3.LeaseID(id))
	if err != nil {
		return 0, err
	}
	return r.GrantedTTL, nil
}

// leases lists the leases once the member asked has reached a revision, and says what changed since the last list.
func (o *observer) leases(ctx context.Context, revision int64) (backup.LeaseChange, error) {
	src, err := o.k.source(ctx, revision, itsData, "")
	if err != nil {
		return backup.LeaseChange{}, err
	}
	cli, err := o.k.member(src.endpoint)
	if err != nil {
		return backup.LeaseChange{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if src.status.RaftAppliedIndex < o.shown { // a list from before the last one would take back what that has shown
		if _, err := o.k.caughtUp(ctx, src.endpoint); err != nil {
			return backup.LeaseChange{}, fmt.Errorf("wait for a member that lags: %w", err)
		}
	}
	list, err := cli.Leases(ctx)
	if err != nil {
		return backup.LeaseChange{}, fmt.Errorf("list leases: %w", err)
	}
	after, err := cli.Status(ctx, src.endpoint)
	if err != nil {
		return backup.LeaseChange{}, fmt.Errorf("ask how far the leases are that were listed: %w", err)
	}
	o.shown = max(o.shown, after.RaftIndex)
	o.index = src.status.RaftAppliedIndex
	c := backup.LeaseChange{Low: src.status.Header.Revision, High: list.ResponseHeader.GetRevision()}
	c.High = max(c.High, c.Low)
	o.mu.Lock()
	seen := maps.Clone(o.seen)
	// A full may hold a lease that no list has shown, or lack one. So lists are whole until one is in a delta that is read after the full.
	c.Reset = o.known == nil || o.taking || o.full > 0
	o.mu.Unlock()
	o.listed = slices.Collect(maps.Keys(seen))
	alive := make(map[int64]bool, len(list.Leases))
	var ask []int64
	for _, l := range list.Leases {
		id := int64(l.ID)
		alive[id] = true
		switch ttl, known := o.known[id]; {
		case seen[id] > 0 && seen[id] != ttl: // a new one, or granted again by a client that chooses ids
			c.Granted = append(c.Granted, backup.Lease{ID: id, TTL: seen[id]})
		case known && c.Reset:
			c.Granted = append(c.Granted, backup.Lease{ID: id, TTL: ttl})
		case !known:
			ask = append(ask, id)
		}
	}
	for id, ttl := range seen {
		if _, ok := o.known[id]; !ok && !alive[id] && ttl > 0 {
			c.Granted = append(c.Granted, backup.Lease{ID: id, TTL: ttl})
			c.Gone = append(c.Gone, id)
		}
	}
	granted, err := o.askAll(ctx, ask)
	if err != nil {
		o.remember(granted) // the next list goes on from here
		return c, err
	}
	c.Granted = append(c.Granted, granted...)
	for id := range o.known {
		if !alive[id] {
			c.Gone = append(c.Gone, id)
		}
	}
	return c, nil
}

// askAll asks for the time granted of leases that were just listed. One that ended since is given a short time: at the
// revision of the list it lived.
func (o *observer) askAll(ctx context.Context, ids []int64) (granted []backup.Lease, err error) {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(leaseAsks)
	for _, id := range ids {
		g.Go(contain.Err(func() error {
			ttl, err := o.ttl(ctx, o.k.all, id)
			if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
				return fmt.Errorf("ask for lease %x: %w", id, err)
			}
			if ttl <= 0 {
				ttl = int64(backup.SafeTTL / time.Second)
			}
			mu.Lock()
			defer mu.Unlock()
			granted = append(granted, backup.Lease{ID: id, TTL: ttl})
			return nil
		}))
	}
	err = g.Wait()
	return granted, err
}

// remember keeps what leases were granted for a list that is tried again.
func (o *observer) remember(leases []backup.Lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range leases {
		o.seen[l.ID] = l.TTL
	}
}

// fullStarts notes that a full is taken from now on.
func (o *observer) fullStarts() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taking = true
}

// fullEnds notes the revision of the full that was stored, or may have been; 0: none was.
func (o *observer) fullEnds(revision int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taking = false
	o.full = max(o.full, revision)
}

// lists are those for a delta: the newest if there is one, after those before it that are of no earlier revision than the end of the delta
// before. A reader of the deltas from this one on has not read these, and the full that it starts from may be of a time before them.
func (o *observer) lists(before int64, newest ...backup.LeaseChange) []backup.LeaseChange {
	o.later = append(slices.DeleteFunc(o.later, func(c backup.LeaseChange) bool { return c.High < before }), newest...)
	return o.later
}

// told records that a list is part of a delta with this last revision.
func (o *observer) told(c backup.LeaseChange, last int64) {
	if o.known == nil || c.Reset {
		o.known = map[int64]int64{}
	}
	for _, l := range c.Granted {
		o.known[l.ID] = l.TTL
	}
	for _, id := range c.Gone {
		delete(o.known, id)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.Reset && last > o.full { // a restore from that full reads the delta
		o.full = 0
	}
	for _, id := range o.listed {
		delete(o.seen, id)
	}
}

// hash asks a member, another than the one at an endpoint if there is one, for the hash of its data at a revision, unless that would
// take too much of its time.
func (o *observer) hash(ctx context.Context, revision int64, always bool, other string) ([]backup.Hash, error) {
	o.mu.Lock()
	tooMuch := o.hashTook > hashCheap && time.Since(o.hashed) < hashShare*o.hashTook
	o.mu.Unlock()
	if tooMuch && !always {
		return nil, nil
	}
	src, err := o.k.source(ctx, revision, itsHash, other)
	if err != nil {
		return nil, err
	}
	cli, err := o.k.member(src.endpoint)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, hashTimeout)
	defer cancel()
	begun := time.Now()
	r, err := cli.HashKV(ctx, src.endpoint, revision)
	if err == nil || ctx.Err() != nil { // a refusal costs nothing
		o.mu.Lock()
		o.hashed, o.hashTook = time.Now(), time.Since(begun)
		o.mu.Unlock()
	}
	if errors.Is(err, rpctypes.ErrCompacted) {
		return nil, nil // compacted past it meanwhile; there is nothing to compare with
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the hash of revision %d: %w", revision, err)
	}
	return []backup.Hash{{Revision: revision, Compacted: r.CompactRevision, Hash: r.Hash}}, nil
}

// deltaHash asks for the hash of a delta's last revision, and returns what has come: its own hash, or that of an earlier delta which took longer.
func (o *observer) deltaHash(ctx context.Context, revision int64) []backup.Hash {
	wait := time.Duration(0)
	if o.hashes == nil {
		hashes := make(chan []backup.Hash, 1)
		o.hashes, wait = hashes, hashWait
		go contain.Work(func() {
			found, err := o.hash(ctx, revision, false, "")
			if err != nil {
				o.c.Log.Warn("no hash for a delta", "revision", revision, "error", err)
			}
			hashes <- found
		}, func(err error) {
			o.c.Log.Warn("no hash for a delta", "revision", revision, "error", err)
			hashes <- nil
		})()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case found := <-o.hashes:
		o.hashes = nil
		return found
	case <-timer.C:
		return nil
	}
}

// auth is the state of users and roles, and the cluster's revision. etcd's client does not continue to the next member by itself when it is asked for that.
func (o *observer) auth(ctx context.Context) (backup.UsersState, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for tries := len(o.c.Endpoints); ; tries-- {
		r, err := o.k.all.AuthStatus(ctx)
		if err == nil {
			return backup.UsersState{Revision: r.AuthRevision, Enabled: r.Enabled}, r.Header.GetRevision(), nil
		}
		if tries <= 0 || ctx.Err() != nil {
			return backup.UsersState{}, 0, fmt.Errorf("ask for the revision of users and roles: %w", err)
		}
	}
}
