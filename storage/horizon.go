package storage

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// horizonPeriod is Store.period outside of tests.
const horizonPeriod = 5 * time.Second

// errWentBack ends what was read of a store in whose place an older copy was put.
var errWentBack = errors.New("the store is not the one that was read before: it was restored from a copy")

// errLateWatch ends a watch that does not bring what the store has.
var errLateWatch = errors.New("the watch is behind the store")

// horizon is how far the store has come, as far as this process has seen. A watch that etcd's client resumes on an older copy waits for
// revisions that were there before and says nothing.
type horizon struct {
	mu sync.Mutex
	at point
	// back is closed, and replaced, when the store went back.
	back chan struct{}
}

// point is a revision of one etcd cluster.
type point struct {
	cluster uint64
	rev     int64
}

// now is how far the store has come, and what closes when it goes back.
func (h *horizon) now() (point, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.back == nil {
		h.back = make(chan struct{})
	}
	return h.at, h.back
}

// saw takes an answer into account that was read through a quorum and asked for after the point before: if it is from before that, the
// store went back.
func (h *horizon) saw(before point, header *etcdserverpb.ResponseHeader) (wentBack bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := point{header.ClusterId, header.Revision}
	switch {
	case before.cluster != 0 && now.cluster != before.cluster, now.rev < before.rev:
		h.at = now
		return true
	case h.at.cluster == 0 || now.cluster == h.at.cluster && now.rev > h.at.rev:
		h.at = now
	}
	return false
}

// turn ends what was read before.
func (h *horizon) turn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.back != nil {
		close(h.back)
		h.back = nil
	}
}

// wentBack ends the session: what its terms read and decided on is not what the store has.
func (s *Store) wentBack() {
	s.log.Warn("the store was restored from a copy while this process was connected; reading everything again")
	s.horizon.turn()
	s.spawn(func() {
		s.sessions.mu.Lock()
		defer s.sessions.mu.Unlock()
		if cur := s.sessions.current; cur != nil {
			cur.lost()
		}
	})
}

// sample is what the store must have while a mirror is up to date: so many keys, and some of them as they were written last. A copy from
// before the newest of them lacks it, also where the copy has come further by its revision; one from before a deletion has more keys.
type sample struct {
	count int
	mods  map[string]int64
}

// sampleOf takes the newest key, and any other one.
func sampleOf(kvs map[string]*mvccpb.KeyValue) sample {
	s := sample{count: len(kvs), mods: map[string]int64{}}
	var newest *mvccpb.KeyValue
	for key, kv := range kvs {
		if newest == nil {
			s.mods[key] = kv.ModRevision
		}
		if newest == nil || kv.ModRevision > newest.ModRevision {
			newest = kv
		}
	}
	if newest != nil {
		s.mods[string(newest.Key)] = newest.ModRevision
	}
	return s
}

// of reports whether a mirror still has what was sampled.
func (s sample) of(kvs map[string]*mvccpb.KeyValue) bool {
	for key, mod := range s.mods {
		if kv := kvs[key]; kv == nil || kv.ModRevision != mod {
			return false
		}
	}
	return len(kvs) == s.count
}

// holds reports whether the store has what was sampled.
func (m mirror) holds(ctx context.Context, of sample) (bool, error) {
	var gets []clientv3.Op
	for _, r := range m.ranges {
		gets = append(gets, clientv3.OpGet(r.start, r.options(clientv3.WithCountOnly())...))
	}
	for key := range of.mods {
		gets = append(gets, clientv3.OpGet(key, clientv3.WithKeysOnly()))
	}
	resp, err := m.s.txn(ctx, nil, gets)
	if err != nil {
		return false, err
	}
	there := sample{mods: map[string]int64{}}
	for i, r := range resp.Responses {
		if i < len(m.ranges) {
			there.count += int(r.GetResponseRange().Count)
			continue
		}
		for _, kv := range r.GetResponseRange().Kvs {
			there.mods[string(kv.Key)] = kv.ModRevision
		}
	}
	return there.count == of.count && maps.Equal(there.mods, of.mods), nil
}

// had reports whether the store has in its history what was sampled: then it is the one that was read, and only the watch is late.
func (m mirror) had(ctx context.Context, of sample) (bool, error) {
	for key, mod := range of.mods {
		resp, err := m.s.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(key, clientv3.WithKeysOnly(), clientv3.WithRev(mod))})
		if errors.Is(err, rpctypes.ErrFutureRev) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) == 0 || kvs[0].ModRevision != mod {
			return false, nil
		}
	}
	return true, nil
}
