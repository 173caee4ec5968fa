package take

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
	"cke/backup"
	"cke/internal/contain"
)

// A snapshot comes faster, at less work for the member that sends it, when it need not wait for a message every 64 KiB that there
// is room.
const (
	streamWindow = 4 << 20
	readBuffer   = 256 << 10
)

// cluster speaks with the members.
type cluster struct {
	c *Config
	// all spreads over every member but learners; watches and linearizable reads go through it.
	all *clientv3.Client
	// watching is the one through which changes are watched; nil: all.
	watching atomic.Pointer[clientv3.Client]

	mu  sync.Mutex
	one map[string]*clientv3.Client // to a single member
}

func dial(c *Config) (*cluster, error) {
	all, err := connect(c, c.Endpoints...)
	if err != nil {
		return nil, err
	}
	return &cluster{c: c, all: all, one: map[string]*clientv3.Client{}}, nil
}

func connect(c *Config, endpoints ...string) (*clientv3.Client, error) {
	options := []grpc.DialOption{
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(streamWindow), grpc.WithReadBufferSize(readBuffer),
		grpc.WithChainStreamInterceptor(refuseResumed),
	}
	if c.ClusterID != "" {
		options = append(options, sameCluster(c.ClusterID)...)
	}
	cli, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: c.TLS, Username: c.Username, Password: c.Password,
		DialTimeout: requestTimeout, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
		Logger: zap.NewNop(), DialOptions: options,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	return cli, nil
}

// member returns a client of one member only.
func (k *cluster) member(endpoint string) (*clientv3.Client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if cli := k.one[endpoint]; cli != nil {
		return cli, nil
	}
	cli, err := connect(k.c, endpoint)
	if err == nil {
		k.one[endpoint] = cli
	}
	return cli, err
}

func (k *cluster) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, cli := range k.one {
		cli.Close()
	}
	k.all.Close()
}

// revision is the cluster's newest one, by quorum.
func (k *cluster) revision(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := k.all.Get(ctx, "\x00", clientv3.WithCountOnly(), clientv3.WithFromKey(), clientv3.WithLimit(1))
	if err != nil {
		return 0, fmt.Errorf("ask etcd for its revision: %w", err)
	}
	return r.Header.Revision, nil
}

// candidate is a member that can be asked.
type candidate struct {
	endpoint string
	status   *clientv3.StatusResponse
}

// rank orders sources: a learner serves no client, a follower fewer than the leader.
func (c candidate) rank() int {
	switch {
	case c.status.IsLearner:
		return 0
	case c.status.Leader != c.status.Header.MemberId:
		return 1
	}
	return 2
}

// question is what a member is chosen for.
type question int

const (
	// aSnapshot is all that a learner gives, besides its status.
	aSnapshot question = iota
	// itsData: leases, of which only voters speak.
	itsData
	// itsHash: what others say is compared with it. So the leader is asked first, with whose data all others have to agree.
	itsHash
)

// source chooses the member to burden with a snapshot or a scan: not the leader if another is close enough behind and
// has reached a revision. It waits a moment for one that is about to. A snapshot has to have all that the cluster had applied before. The member at the
// endpoint other is asked only if no other can be.
func (k *cluster) source(ctx context.Context, revision int64, q question, other string) (candidate, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	begun, newest := time.Now(), uint64(0)
	for {
		all, failed := k.look(ctx)
		if newest == 0 && q == aSnapshot {
			for _, c := range all {
				newest = max(newest, c.status.RaftAppliedIndex)
			}
		}
		lags := func(c candidate) bool { return c.status.RaftAppliedIndex < newest }
		best, reached := choose(all, revision, q, other)
		if best != nil && lags(*best) {
			if time.Since(begun) < patience && backup.Pause(ctx, catchUpPause) == nil {
				continue
			}
			best, reached = choose(slices.DeleteFunc(all, lags), revision, q, other)
		}
		switch {
		case best != nil:
			return *best, nil
		case reached || len(all) == 0 || time.Since(begun) > catchUp || backup.Pause(ctx, catchUpPause) != nil:
			return candidate{}, fmt.Errorf("no member can serve revision %d: %w", revision, errors.Join(failed, errors.New("those that answer lag behind, are corrupt or are learners")))
		}
	}
}

// look asks all members for their status. It waits for silent members only until one has answered, and a little longer.
func (k *cluster) look(ctx context.Context) (all []candidate, failed error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	type answer struct {
		candidate
		err error
	}
	answers := make(chan answer, len(k.c.Endpoints))
	for _, e := range k.c.Endpoints {
		go contain.Work(func() {
			a := answer{candidate: candidate{endpoint: e}}
			var cli *clientv3.Client
			if cli, a.err = k.member(e); a.err == nil {
				a.status, a.err = cli.Status(ctx, e)
			}
			answers <- a
		}, func(err error) { answers <- answer{candidate{endpoint: e}, err} })()
	}
	var enough <-chan time.Time
collect:
	for range k.c.Endpoints {
		select {
		case a := <-answers:
			if a.err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", a.endpoint, a.err))
				continue
			}
			all = append(all, a.candidate)
			if enough == nil {
				enough = time.After(patience)
			}
		case <-enough:
			break collect // a dead member says nothing for as long as it is asked
		}
	}
	k.avoid(all)
	return all, failed
}

// avoid keeps what is asked of any member away from learners, which refuse it.
func (k *cluster) avoid(seen []candidate) {
	var rest []string
	for _, e := range k.c.Endpoints {
		if !slices.ContainsFunc(seen, func(c candidate) bool { return c.endpoint == e && c.status.IsLearner }) {
			rest = append(rest, e)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(rest) > 0 && !slices.Equal(rest, k.all.Endpoints()) {
		k.all.SetEndpoints(rest...)
	}
}

// choose returns the best member for a question; nil: none will do. reached tells that it is not for want of a revision,
// which a moment later may be there.
func choose(all []candidate, revision int64, q question, other string) (best *candidate, reached bool) {
	rank := func(c candidate) int {
		switch {
		case c.endpoint == other:
			return 3
		case q == itsHash:
			return -c.rank()
		}
		return c.rank()
	}
	newest := uint64(0)
	for _, c := range all {
		newest = max(newest, c.status.RaftAppliedIndex)
	}
	reached = true
	for i, c := range all {
		if c.status.RaftAppliedIndex+maxLag < newest || corrupt(c.status) || q != aSnapshot && c.status.IsLearner {
			continue
		}
		if c.status.Header.Revision < revision {
			reached = false
			continue
		}
		if best == nil || rank(c) < rank(*best) {
			best = &all[i]
		}
	}
	return best, reached
}

// corrupt reports an alarm. A member's status has those of all members, and cannot always say whose they are. That by which
// cke stops writes says nothing about data.
func corrupt(s *clientv3.StatusResponse) bool {
	return slices.ContainsFunc(s.Errors, func(e string) bool {
		var id uint64
		if _, err := fmt.Sscanf(e, "memberID:%d", &id); err == nil && (cke.Alarm{MemberID: strconv.FormatUint(id, 16), Kind: "CORRUPT"}).StopsWrites() {
			return false
		}
		return strings.Contains(strings.ToUpper(e), "CORRUPT")
	})
}
