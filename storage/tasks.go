package storage

import (
	"context"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

func taskOf(id string) string { return requestTask + " " + id }

// AddTask asks the cluster's leader to do something once. ErrNotFound: there is no such cluster.
func (s *Store) AddTask(ctx context.Context, cluster string, t cke.Task) error {
	return s.PutRequest(ctx, cluster, taskOf(t.ID), t.By, t)
}

// FinishTask removes a task that is over, with the key that was lent for it, unless that is for a restore under way; one that is
// gone already is no error.
func (t *Term) FinishTask(ctx context.Context, id string) error {
	k, tried := t.s.keys, "finish task "+id
	return t.retry(ctx, func(ctx context.Context) error {
		identity, mod, err := t.identity(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", tried, err)
		}
		ops := []clientv3.Op{clientv3.OpDelete(k.request(t.cluster, taskOf(id)))}
		if !slices.Contains(identity.Incarnation.Restores(), id) {
			ops = append(ops, clientv3.OpDelete(k.secret(t.cluster, lentFor(id))))
		}
		return t.write(ctx, tried, []clientv3.Cmp{unchanged(k.incarnation(t.cluster), mod)}, ops...)
	})
}

// WithdrawTask takes a task back that no leader has begun, with the key that was lent for it. ErrConflict: one has.
// ErrNotFound: it is not asked for, or no longer.
//
// A leader begins a task with the first record that names it (AppendRecord). Both transactions need the id of the next
// record to be free, and the task to be there, so only one of them can happen.
func (s *Store) WithdrawTask(ctx context.Context, cluster, id string) error {
	if err := checkName(cluster); err != nil {
		return err
	}
	for {
		done, err := s.tryWithdraw(ctx, cluster, id)
		if err != nil || done {
			return s.fail(fmt.Sprintf("take task %s of %s back", id, cluster), err)
		}
	}
}

// tryWithdraw is one attempt; false: something was written meanwhile.
func (s *Store) tryWithdraw(ctx context.Context, cluster, id string) (bool, error) {
	key := s.keys.request(cluster, taskOf(id))
	var reads []clientv3.Op
	for _, r := range []keyRange{one(key), under(s.keys.records(cluster))} {
		reads = append(reads, clientv3.OpGet(r.start, r.options()...))
	}
	resp, err := s.txn(ctx, nil, reads)
	if err != nil {
		return false, err
	}
	at := func(i int) []*mvccpb.KeyValue { return resp.Responses[i].GetResponseRange().Kvs }
	if len(at(0)) == 0 {
		return false, fmt.Errorf("it is not asked for: %w", cke.ErrNotFound)
	}
	var last cke.Record
	for _, kv := range at(1) {
		last = cke.Record{}
		if err := decode(string(kv.Key), kv.Value, &last); err != nil {
			return false, err
		}
		if last.Task == id {
			return false, fmt.Errorf("record %d has begun it: %w", last.ID, cke.ErrConflict)
		}
	}
	conditions := []clientv3.Cmp{unchanged(key, at(0)[0].ModRevision), absent(s.keys.record(cluster, last.ID+1))}
	done, err := s.txn(ctx, conditions, []clientv3.Op{clientv3.OpDelete(key), clientv3.OpDelete(s.keys.secret(cluster, lentFor(id)))})
	return err == nil && done.Succeeded, err
}
