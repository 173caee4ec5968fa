package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// candidacy is the document of one key in a cluster's queue. Term is 0 until it is elected.
type candidacy struct {
	cke.Leader
	// Schema is the newest that the daemon knows.
	Schema int `json:"schema,omitempty"`
	// Prefer are the management hosts that the cluster file prefers, as the elected leader read it.
	Prefer []string `json:"prefer,omitempty"`
}

// What a campaign waits before it starts again: after the store failed it, and after its candidacy was lost.
const (
	campaignPause = 500 * time.Millisecond
	lostPause     = 20 * time.Millisecond
)

// errLost tells a campaign to begin again: its key, or its session, is gone.
var errLost = errors.New("candidacy lost")

// Campaign blocks until this process leads the cluster or ctx is done; it waits for a store that does not answer.
// Candidates are elected in the order of their arrival. The term does not end with ctx.
//
// ErrNotFound: there is no such cluster. ErrConflict: this Store already campaigns for it, or leads it.
func (s *Store) Campaign(ctx context.Context, cluster, host string) (*Term, error) {
	if err := checkName(cluster); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !s.sessions.enter(cluster, ctx.Done()) {
		return nil, fmt.Errorf("campaign for %s twice: %w", cluster, cke.ErrConflict)
	}
	defer context.AfterFunc(s.ctx, cancel)()
	for told := false; ; {
		t, err := s.campaign(ctx, cluster, host)
		if err == nil {
			s.log.Info("elected", "cluster", cluster, "term", t.is.Term)
			return t, nil
		}
		if ctx.Err() != nil || errors.Is(err, cke.ErrNotFound) {
			return nil, s.fail("campaign for "+cluster, err)
		}
		pause := lostPause
		if !errors.Is(err, errLost) {
			pause = campaignPause
			if !told {
				told = true
				s.log.Warn("cannot campaign, retrying", "cluster", cluster, "error", s.fail("campaign for "+cluster, err))
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// campaign queues up once.
func (s *Store) campaign(ctx context.Context, cluster, host string) (*Term, error) {
	if _, _, err := s.schema(ctx); err != nil { // it may have been raised
		return nil, err
	}
	ses, queues, err := s.session(ctx)
	if err != nil {
		return nil, err
	}
	key := s.claim(ses, cluster)
	rev, err := s.queueUp(ctx, ses, cluster, key, host)
	if err != nil {
		s.stepDown(key)
		return nil, err
	}
	t, err := s.await(ctx, ses, queues, cluster, key, rev, host)
	if err != nil {
		s.stepDown(key)
	}
	return t, err
}

// queueUp creates the candidate's key and returns its create revision.
func (s *Store) queueUp(ctx context.Context, ses *session, cluster, key, host string) (int64, error) {
	op, err := put(key, candidacy{Leader: cke.Leader{Host: host}, Schema: SchemaVersion}, clientv3.WithLease(ses.lease))
	if err != nil {
		return 0, err
	}
	resp, err := s.txn(ctx, []clientv3.Cmp{present(s.keys.spec(cluster))}, []clientv3.Op{op})
	if err != nil {
		return 0, sessionLost(ses, err)
	}
	if !resp.Succeeded {
		return 0, noCluster(cluster)
	}
	return resp.Header.Revision, nil
}

// await waits until the candidate is the eldest and elects it.
func (s *Store) await(ctx context.Context, ses *session, queues *queues, cluster, key string, rev int64, host string) (*Term, error) {
	for {
		place, changed := queues.look(cluster, key, rev)
		switch place {
		case gone:
			return nil, errLost
		case first:
			e, err := s.elect(ctx, ses, cluster, key, rev, host)
			if err != nil {
				return nil, sessionLost(ses, err)
			}
			if e.Term > 0 {
				return s.newTerm(ses, queues, cluster, key, rev, e), nil
			}
		}
		select {
		case <-changed:
		case <-ses.ctx.Done():
			return nil, errLost
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// elect makes the eldest candidate the leader, with the next term's number. Term 0: it is not the eldest.
func (s *Store) elect(ctx context.Context, ses *session, cluster, key string, rev int64, host string) (elected, error) {
	for {
		var last cke.Leader
		mod, err := s.get(ctx, s.keys.term(cluster), &last)
		if err != nil && !errors.Is(err, cke.ErrNotFound) {
			return elected{}, err
		}
		now := cke.Leader{Host: host, Term: last.Term + 1, Since: time.Now().UTC()}
		term, err := put(s.keys.term(cluster), now)
		if err != nil {
			return elected{}, err
		}
		lead, err := put(key, candidacy{Leader: now, Schema: SchemaVersion}, clientv3.WithLease(ses.lease))
		if err != nil {
			return elected{}, err
		}
		queue := under(s.keys.candidates(cluster))
		eldest := clientv3.Compare(clientv3.CreateRevision(queue.start).WithRange(queue.end), ">", rev-1)
		resp, err := s.txn(ctx,
			[]clientv3.Cmp{created(key, rev), eldest, unchanged(s.keys.term(cluster), mod), present(s.keys.spec(cluster))},
			[]clientv3.Op{term, lead, clientv3.OpDelete(s.keys.request(cluster, requestResign))},
			clientv3.OpGet(s.keys.term(cluster), clientv3.WithKeysOnly()))
		if err != nil {
			return elected{}, err
		}
		if resp.Succeeded {
			return elected{Leader: now, mark: resp.Header.Revision, leader: term}, nil
		}
		if kvs := resp.Responses[0].GetResponseRange().Kvs; mod == 0 && len(kvs) == 0 || len(kvs) == 1 && kvs[0].ModRevision == mod {
			return elected{}, nil // not the term's number: the queue is another one than we saw
		}
	}
}

// stepDown leaves the queue at once if the store answers; if not, the next sweep or the session's end does.
func (s *Store) stepDown(key string) {
	s.sessions.disclaim(key)
	ctx, cancel := context.WithTimeout(context.Background(), s.farewell)
	defer cancel()
	if _, err := s.client.Delete(ctx, key); err != nil {
		s.log.Debug("candidacy not withdrawn yet", "error", err)
	}
}

// sessionLost turns a failure that comes from the session's end into errLost.
func sessionLost(ses *session, err error) error {
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		ses.lost()
	}
	if ses.ctx.Err() != nil {
		return errLost
	}
	return err
}
