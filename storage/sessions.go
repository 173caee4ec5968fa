package storage

import (
	"context"
	"strconv"
	"sync"
	"time"
)

// sessions holds what all campaigns of one Store share: the session, the view of the queues, and who is in them.
type sessions struct {
	mu      sync.Mutex
	current *session
	queues  *queues
	// running has an entry for each cluster with a campaign or a term in this process, until the channel closes.
	running map[string]<-chan struct{}
	// claimed are the candidates' keys that a campaign or a term goes by. A key of the session that nobody goes by is
	// swept: the answer to its creation was lost, or a resignation did not get through.
	claimed map[string]bool
	made    int // number of keys ever claimed
}

// session returns the present session, or a new one.
func (s *Store) session(ctx context.Context) (*session, *queues, error) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	queues := s.viewLocked()
	if cur := s.sessions.current; cur != nil && cur.check() == nil {
		return cur, queues, nil
	}
	fresh, err := s.newSession(ctx)
	if err != nil {
		return nil, nil, err
	}
	s.sessions.current = fresh
	return fresh, queues, nil
}

// self is the name of the present session; empty: there is none.
func (s *Store) self() string {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	if cur := s.sessions.current; cur != nil && cur.check() == nil {
		return sessionName(cur)
	}
	return ""
}

// close revokes the last session. Nothing runs in it any more.
func (ss *sessions) close() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.current != nil {
		ss.current.revoke()
	}
}

// enter takes the cluster for one campaign, until done closes.
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

// claim names a key for one candidacy in ses. No two ever have the same one.
func (s *Store) claim(ses *session, cluster string) string {
	ss := &s.sessions
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.made++
	key := s.keys.candidate(cluster, sessionName(ses)+"-"+strconv.Itoa(ss.made))
	if ss.claimed == nil {
		ss.claimed = map[string]bool{}
	}
	ss.claimed[key] = true
	return key
}

// disclaim tells that nobody goes by key any more.
func (ss *sessions) disclaim(key string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.claimed, key)
}

func sessionName(ses *session) string { return strconv.FormatInt(int64(ses.lease), 16) }

// sweep removes the session's keys that nobody goes by: each would lead, once it is the eldest, and do nothing.
// What limit leaves over is for the next time.
func (s *Store) sweep(ses *session, limit time.Duration) {
	s.sessions.mu.Lock()
	var stray []string
	for _, key := range s.sessions.queues.of("/" + sessionName(ses) + "-") {
		if !s.sessions.claimed[key] {
			stray = append(stray, key)
		}
	}
	s.sessions.mu.Unlock()
	ctx, cancel := context.WithTimeout(ses.ctx, limit)
	defer cancel()
	for _, key := range stray {
		_, err := s.client.Delete(ctx, key)
		s.log.Debug("removed an unused candidacy", "key", key, "error", err)
	}
}

// lead hands the cluster over from the campaign to the term that came of it.
func (ss *sessions) lead(cluster string, done <-chan struct{}) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.running[cluster] = done
}
