package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// Term is this process's time as leader of one cluster. Only its methods write what a leader writes: each write is
// one transaction that compares the create revision of the leader's key, and returns ErrDeposed, with nothing
// written, once that key is gone.
type Term struct {
	s       *Store
	ses     *session
	cluster string
	is      cke.Leader
	// key was created at rev; it is never created again at that revision, so no other term can pass for this one.
	key string
	rev int64

	ctx context.Context
	end context.CancelCauseFunc

	// writing holds one while a write is under way. mark is the revision at which the last one that is known of wrote the
	// number of the term again; see commit.
	writing chan struct{}
	mark    int64
	leader  clientv3.Op // writes the number of the term as it is

	// doubted is the last record of which it is not known whether it was stored; nil: there is none.
	doubted *atomic.Pointer[cke.Record]
}

var _ cke.Ledger = (*Term)(nil)

// errChanged is what a guarded write returns when a condition other than the term's own does not hold.
var errChanged = errors.New("changed meanwhile")

// elected is what an election wrote: who leads, and the number of the term.
type elected struct {
	cke.Leader
	mark   int64
	leader clientv3.Op
}

func (s *Store) newTerm(ses *session, q *queues, cluster, key string, rev int64, e elected) *Term {
	t := &Term{s: s, ses: ses, cluster: cluster, is: e.Leader, key: key, rev: rev, writing: make(chan struct{}, 1), mark: e.mark, leader: e.leader, doubted: new(atomic.Pointer[cke.Record])}
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

// Number returns the number of the term, which grows by one with every election of the cluster.
func (t *Term) Number() int64 { return t.is.Term }

// Cluster returns the cluster that is led.
func (t *Term) Cluster() string { return t.cluster }

// Context is done when the term is over, at the latest when the session's time to live has passed since the store
// last confirmed it. Everything done on nodes in the term's name runs in it. Its cause is ErrDeposed.
func (t *Term) Context() context.Context { return t.ctx }

// Done closes when the term is over.
func (t *Term) Done() <-chan struct{} { return t.ctx.Done() }

// Check returns ErrDeposed once the term is over. It only reads clocks: cheap enough to precede every effect on a
// node, and right in a process that was stopped and continues, before its context has noticed.
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
	_, err := t.s.commit(ctx, []clientv3.Cmp{created(t.key, t.rev)}, []clientv3.Op{clientv3.OpDelete(t.key)})
	return t.s.fail("resign from "+t.cluster, err)
}

// read returns what gets find while the term still is.
func (t *Term) read(ctx context.Context, tried string, gets ...clientv3.Op) (*clientv3.TxnResponse, error) {
	return t.transact(ctx, tried, nil, gets)
}

// write commits ops if the term still is, and the conditions hold; errChanged if only they do not.
func (t *Term) write(ctx context.Context, tried string, conditions []clientv3.Cmp, ops ...clientv3.Op) error {
	return t.commit(ctx, tried, conditions, t.leader, ops)
}

// commit is write. The writes of a term are made one after the other, and each is void unless it is the next after the one
// that was known of when it was sent: it compares when the number of the term was written last, and mark writes that again.
// So one that was given up, whose answer nobody waited for, changes nothing any more once another one was made.
func (t *Term) commit(ctx context.Context, tried string, conditions []clientv3.Cmp, mark clientv3.Op, ops []clientv3.Op) error {
	select {
	case t.writing <- struct{}{}:
		defer func() { <-t.writing }()
	case <-ctx.Done():
		return t.s.fail(tried, ctx.Err())
	}
	key := t.s.keys.term(t.cluster)
	for {
		next := append([]clientv3.Cmp{unchanged(key, t.mark)}, conditions...)
		resp, err := t.transact(ctx, tried, next, append(slices.Clone(ops), mark), clientv3.OpGet(key, clientv3.WithKeysOnly()))
		switch {
		case err != nil:
			return err
		case resp.Succeeded:
			t.mark = resp.Header.Revision
			return nil
		}
		kvs := resp.Responses[1].GetResponseRange().Kvs
		if len(kvs) != 1 || kvs[0].ModRevision == t.mark {
			return fmt.Errorf("%s: %w", tried, errChanged)
		}
		if kvs[0].ModRevision < t.mark {
			t.s.wentBack()
			t.depose("the store was restored from a copy")
			return fmt.Errorf("%s: %w", tried, cke.ErrDeposed)
		}
		t.mark = kvs[0].ModRevision // one that was given up had landed before: this one comes after it
	}
}

// transact commits ops if the term still is, and the conditions hold; otherwise, if only they do not, it does the rest.
func (t *Term) transact(ctx context.Context, tried string, conditions []clientv3.Cmp, ops []clientv3.Op, otherwise ...clientv3.Op) (*clientv3.TxnResponse, error) {
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", tried, err)
	}
	guard := created(t.key, t.rev)
	resp, err := t.s.txn(ctx, append([]clientv3.Cmp{guard}, conditions...), ops, append([]clientv3.Op{clientv3.OpGet(t.key, clientv3.WithKeysOnly())}, otherwise...)...)
	if err != nil {
		return nil, t.s.fail(tried, err)
	}
	if resp.Succeeded {
		return resp, nil
	}
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) == 1 && kvs[0].CreateRevision == t.rev {
		return resp, nil
	}
	t.depose("the leader key is gone")
	return nil, fmt.Errorf("%s: %w", tried, cke.ErrDeposed)
}
