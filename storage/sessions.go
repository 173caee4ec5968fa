package storage

import (
	"context"
	"sync"
)

// sessions holds what all campaigns of one Store share: the session, the view of the queues, and who is in them.
type sessions struct {
	mu      sync.Mutex
	current *session
	queues  *queues
	// running has an entry for each cluster with a campaign or a term in this process, until the channel closes.
	running map[string]<-chan struct{}
}

// session returns the present session, or a new one.
func (s *Store) session(ctx context.Context) (*session, *queues, error) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	if s.sessions.queues == nil {
		s.sessions.queues = s.watchQueues()
	}
	if cur := s.sessions.current; cur != nil && cur.check() == nil {
		return cur, s.sessions.queues, nil
	}
	fresh, err := s.newSession(ctx)
	if err != nil {
		return nil, nil, err
	}
	s.sessions.current = fresh
	return fresh, s.sessions.queues, nil
}

// close revokes the last session. Nothing runs in it any more.
func (ss *sessions) close() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.current != nil {
		ss.current.revoke()
	}
}

// enter claims the cluster for one campaign, until done closes.
func (ss *sessions) enter(cluster string, done <-chan struct{}) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if running := ss.running[cluster]; running != nil {
		select {
		case <-running:
		default:
			return false
		}
	}
	if ss.running == nil {
		ss.running = map[string]<-chan struct{}{}
	}
	ss.running[cluster] = done
	return true
}

// lead hands the claim over from the campaign to the term that came of it.
func (ss *sessions) lead(cluster string, done <-chan struct{}) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.running[cluster] = done
}
