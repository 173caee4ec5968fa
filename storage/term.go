package storage

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// Term is this process's time as leader of one cluster. It is the only way to write what a leader writes: each write
// is one transaction that compares the create revision of the leader's key, and returns ErrDeposed, with nothing
// written, once that key is gone.
type Term struct {
	s       *Store
	ses     *session
	cluster string
	number  int64
	// key was created at rev; it is never created again at that revision, so no other term can pass for this one.
	key string
	rev int64

	ctx context.Context
	end context.CancelCauseFunc
}

var _ cke.Ledger = (*Term)(nil)

// errChanged is what a guarded write returns when a condition other than the term's own does not hold.
var errChanged = errors.New("changed meanwhile")

func (s *Store) newTerm(ses *session, q *queues, cluster, key string, rev, number int64) *Term {
	t := &Term{s: s, ses: ses, cluster: cluster, number: number, key: key, rev: rev}
	t.ctx, t.end = context.WithCancelCause(ses.ctx)
	s.sessions.lead(cluster, t.Done())
	s.spawn(func() { t.watch(q) })
	return t
}

// watch ends the term when its key is gone.
func (t *Term) watch(q *queues) {
	defer t.s.sessions.disclaim(t.key)
	for {
		place, changed := q.look(t.cluster, t.key, t.rev)
		if place == gone {
			t.depose("the leader key is gone")
		}
		select {
		case <-changed:
		case <-t.ctx.Done():
			return
		}
	}
}

func (t *Term) depose(why string) { t.end(fmt.Errorf("%s: %w", why, cke.ErrDeposed)) }

// Number grows by one with every election of the cluster.
func (t *Term) Number() int64 { return t.number }

// Cluster is the cluster that is led.
func (t *Term) Cluster() string { return t.cluster }

// Context ends with the term, at the latest when the session's time to live has passed since the store last confirmed
// it. Everything done on nodes in the term's name runs in it. Its cause is ErrDeposed.
func (t *Term) Context() context.Context { return t.ctx }

// Done closes when the term has ended.
func (t *Term) Done() <-chan struct{} { return t.ctx.Done() }

// Check returns ErrDeposed once the term has ended. It reads clocks only: cheap enough to stand right before every
// effect on a node, and true in a process that was stopped and goes on, before its context has noticed.
func (t *Term) Check() error {
	if err := t.ses.check(); err != nil {
		return err
	}
	if t.ctx.Err() != nil {
		return deposed(t.ctx)
	}
	return nil
}

// Resign ends the term and lets the next candidate lead: at once, or, if it returns an error, once the store answers
// again. What is done on nodes in the term's name must have ended.
func (t *Term) Resign(ctx context.Context) error {
	t.depose("resigned")
	_, err := t.s.txn(ctx, []clientv3.Cmp{created(t.key, t.rev)}, []clientv3.Op{clientv3.OpDelete(t.key)})
	return t.s.fail("resign from "+t.cluster, err)
}

// write commits ops if the term still is, and the conditions hold; errChanged if only they do not.
func (t *Term) write(ctx context.Context, tried string, conditions []clientv3.Cmp, ops ...clientv3.Op) error {
	_, err := t.transact(ctx, tried, conditions, ops...)
	return err
}

func (t *Term) transact(ctx context.Context, tried string, conditions []clientv3.Cmp, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", tried, err)
	}
	guard := created(t.key, t.rev)
	resp, err := t.s.txn(ctx, append([]clientv3.Cmp{guard}, conditions...), ops, clientv3.OpGet(t.key, clientv3.WithKeysOnly()))
	if err != nil {
		return nil, t.s.fail(tried, err)
	}
	if resp.Succeeded {
		return resp, nil
	}
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) == 1 && kvs[0].CreateRevision == t.rev {
		return nil, fmt.Errorf("%s: %w", tried, errChanged)
	}
	t.depose("the leader key is gone")
	return nil, fmt.Errorf("%s: %w", tried, cke.ErrDeposed)
}
