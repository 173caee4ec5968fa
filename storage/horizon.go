package storage

import (
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// horizonPeriod is how often the store is asked how far it is while it is only watched.
const horizonPeriod = 5 * time.Second

// errWentBack ends what was read of a store in whose place an older copy was put.
var errWentBack = errors.New("the store is not the one that was read before: it was brought back from a copy")

// horizon is how far the store has come, as far as this process has seen. A watch that etcd's client resumes on an older copy waits for
// revisions that were there before and says nothing.
type horizon struct {
	watched sync.Once
	mu      sync.Mutex
	at      point
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
		if h.back != nil {
			close(h.back)
			h.back = nil
		}
		return true
	case h.at.cluster == 0 || now.cluster == h.at.cluster && now.rev > h.at.rev:
		h.at = now
	}
	return false
}

// wentBack ends the session: what its terms read and decided on is not what the store has.
func (s *Store) wentBack() {
	s.log.Warn("the store was brought back from a copy while this process was connected; all is read anew")
	s.spawn(func() {
		s.sessions.mu.Lock()
		defer s.sessions.mu.Unlock()
		if cur := s.sessions.current; cur != nil {
			cur.lost()
		}
	})
}

// watchHorizon asks the store again and again, until it closes.
func (s *Store) watchHorizon() {
	for {
		select {
		case <-time.After(horizonPeriod):
		case <-s.ctx.Done():
			return
		}
		if _, err := s.commit(s.ctx, nil, []clientv3.Op{clientv3.OpGet(s.keys.version(), clientv3.WithKeysOnly())}); err != nil {
			s.log.Debug("the store was not asked how far it is", "error", err)
		}
	}
}
