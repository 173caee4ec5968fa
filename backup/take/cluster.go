package take

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// cluster speaks with the members.
type cluster struct {
	c *Config
	// all spreads over every member; watches and linearizable reads go through it.
	all *clientv3.Client

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
	var options []grpc.DialOption
	if c.ClusterID != "" {
		options = sameCluster(c.ClusterID)
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

// rank orders sources: a learner serves nobody, a follower less than the leader.
func (c candidate) rank() int {
	switch {
	case c.status.IsLearner:
		return 0
	case c.status.Leader != c.status.Header.MemberId:
		return 1
	}
	return 2
}

// source chooses the member to burden with a snapshot or a scan: not the leader if another is close enough behind and
// has reached a revision.
func (k *cluster) source(ctx context.Context, revision int64) (candidate, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	results := make(chan any, len(k.c.Endpoints))
	for _, e := range k.c.Endpoints {
		go func() {
			cli, err := k.member(e)
			if err == nil {
				var s *clientv3.StatusResponse
				if s, err = cli.Status(ctx, e); err == nil {
					results <- candidate{e, s}
					return
				}
			}
			results <- fmt.Errorf("%s: %w", e, err)
		}()
	}
	var all []candidate
	var failed error
	var enough <-chan time.Time
collect:
	for range k.c.Endpoints {
		select {
		case r := <-results:
			switch r := r.(type) {
			case candidate:
				all = append(all, r)
				if enough == nil {
					enough = time.After(patience)
				}
			case error:
				failed = errors.Join(failed, r)
			}
		case <-enough:
			break collect // a dead member says nothing for as long as it is asked
		}
	}
	newest := uint64(0)
	for _, c := range all {
		newest = max(newest, c.status.RaftAppliedIndex)
	}
	var best *candidate
	for i, c := range all {
		if c.status.RaftAppliedIndex+maxLag < newest || c.status.Header.Revision < revision || corrupt(c.status) {
			continue
		}
		if best == nil || c.rank() < best.rank() {
			best = &all[i]
		}
	}
	if best == nil {
		return candidate{}, fmt.Errorf("no member can be asked for revision %d: %w", revision, errors.Join(failed, errors.New("those that answer lag behind or are corrupt")))
	}
	return *best, nil
}

func corrupt(s *clientv3.StatusResponse) bool {
	for _, e := range s.Errors {
		if len(e) > 0 && containsCorrupt(e) {
			return true
		}
	}
	return false
}

func containsCorrupt(alarm string) bool { return strings.Contains(strings.ToUpper(alarm), "CORRUPT") }
