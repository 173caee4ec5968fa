package storage

import (
	"context"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// HandOver ends the term, as Resign does, and lets the daemon of a session lead at once: one transaction removes the key of this
// term and those of all candidates that are older than its own. They queue up again behind it. The eldest leads, as ever: if the
// daemon has left the queue, or is gone before it leads, the next one does. A handover to the daemon's own session is Resign.
func (t *Term) HandOver(ctx context.Context, session string) error {
	if sessionOf(t.key) == session {
		return t.Resign(ctx)
	}
	t.depose("handed over")
	keys, chosen, err := t.before(ctx, session)
	if err == nil && chosen != nil {
		var done *clientv3.TxnResponse
		if done, err = t.s.commit(ctx, []clientv3.Cmp{created(t.key, t.rev), *chosen}, keys); err == nil && done.Succeeded {
			return nil
		}
	}
	if err != nil {
		return t.s.fail("hand over "+t.cluster, err)
	}
	return t.Resign(ctx)
}

// before returns what removes all candidates that are older than that of a session, and what holds while that one is there; nil: it
// is not.
func (t *Term) before(ctx context.Context, session string) (remove []clientv3.Op, there *clientv3.Cmp, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.s.patience)
	defer cancel()
	queue := under(t.s.keys.candidates(t.cluster))
	resp, err := t.s.client.Get(ctx, queue.start, queue.options(clientv3.WithKeysOnly(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))...)
	if err != nil {
		return nil, nil, err
	}
	for _, kv := range resp.Kvs {
		if sessionOf(string(kv.Key)) == session {
			c := created(string(kv.Key), kv.CreateRevision)
			return remove, &c, nil
		}
		remove = append(remove, clientv3.OpDelete(string(kv.Key)))
	}
	return nil, nil, nil
}

// Prefer shows all daemons which management hosts the cluster file prefers.
func (t *Term) Prefer(ctx context.Context, hosts []string) error {
	op, err := put(t.key, candidacy{Leader: t.is, Schema: SchemaVersion, Prefer: hosts}, clientv3.WithLease(t.ses.lease))
	if err != nil {
		return err
	}
	return t.write(ctx, "show which hosts "+t.cluster+" prefers", nil, op)
}

// sessionOf is the session in the key of a candidate.
func sessionOf(key string) string {
	key = key[strings.LastIndexByte(key, '/')+1:]
	if i := strings.LastIndexByte(key, '-'); i >= 0 {
		return key[:i]
	}
	return key
}

// WatchFleet sends which daemons are alive and what they lead, first at once, then whenever that changes, until ctx is canceled.
func (s *Store) WatchFleet(ctx context.Context) <-chan cke.Fleet {
	return latest(ctx, s, func(ctx context.Context, emit func(cke.Fleet)) {
		for q := s.view(); ctx.Err() == nil; {
			fleet, known, changed := q.fleet()
			if known {
				fleet.Self = s.self()
				emit(fleet)
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
			select {
			case <-time.After(fleetPause): // a daemon that starts queues up for each cluster
			case <-ctx.Done():
			}
		}
	})
}

// fleetPause is the least time between two states of the fleet that a watch makes.
const fleetPause = 50 * time.Millisecond

// Fleet returns which daemons are alive and what they lead.
func (s *Store) Fleet(ctx context.Context) (cke.Fleet, error) {
	q := newQueues(s.keys)
	kvs, rev, err := mirror{s: s, ranges: q.ranges()}.list(ctx)
	if err != nil {
		return cke.Fleet{}, s.fail("read the daemons that lead", err)
	}
	q.update(kvs, nil, rev)
	fleet, _, _ := q.fleet()
	return fleet, nil
}

// Attend shows that this daemon is alive until the store is closed, whether or not there is a cluster to lead.
func (s *Store) Attend(d cke.Daemon) {
	s.spawn(func() {
		for s.ctx.Err() == nil {
			pause := campaignPause
			ses, err := s.attend(s.ctx, d)
			if err == nil {
				<-ses.ctx.Done()
				pause = lostPause
			} else {
				s.log.Debug("this daemon is not in the store yet", "error", err)
			}
			select {
			case <-time.After(pause):
			case <-s.ctx.Done():
			}
		}
	})
}

func (s *Store) attend(ctx context.Context, d cke.Daemon) (*session, error) {
	ses, _, err := s.session(ctx)
	if err != nil {
		return nil, err
	}
	d.ID, d.Schema, d.Since = "", SchemaVersion, time.Now().UTC()
	op, err := put(s.keys.daemon(sessionName(ses)), d, clientv3.WithLease(ses.lease))
	if err != nil {
		return nil, err
	}
	_, err = s.txn(ctx, nil, []clientv3.Op{op})
	return ses, sessionLost(ses, err)
}

// balanceFor is how long a request to balance is in the store.
const balanceFor = time.Minute

// RequestBalance asks all daemons to balance now which of them leads which cluster. The request expires by itself.
func (s *Store) RequestBalance(ctx context.Context, by string) error {
	const tried = "ask all daemons to balance"
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	lease, err := s.client.Grant(ctx, int64(balanceFor.Seconds()))
	if err != nil {
		return s.fail(tried, err)
	}
	op, err := put(s.keys.balance(), cke.BalanceRequest{At: time.Now().UTC(), By: by}, clientv3.WithLease(lease.ID))
	if err != nil {
		return err
	}
	_, err = s.txn(ctx, nil, []clientv3.Op{op})
	return s.fail(tried, err)
}
