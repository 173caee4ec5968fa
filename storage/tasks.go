package storage

import (
	"context"
	"encoding/json"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

func taskOf(id string) string { return requestTask + " " + id }

// AddTask asks the cluster's leader to do something once. ErrNotFound: there is no such cluster.
func (s *Store) AddTask(ctx context.Context, cluster string, t cke.Task) error {
	return s.PutRequest(ctx, cluster, taskOf(t.ID), t.By, t)
}

// FinishTask removes a task that is over; one that is gone already is no error.
func (t *Term) FinishTask(ctx context.Context, id string) error {
	return t.write(ctx, "finish task "+id, nil, clientv3.OpDelete(t.s.keys.request(t.cluster, taskOf(id))))
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
	key, lent := s.keys.request(cluster, taskOf(id)), s.keys.secret(cluster, secretRestoreKey)
	var reads []clientv3.Op
	for _, r := range []keyRange{under(s.keys.requests(cluster)), under(s.keys.records(cluster)), one(lent), one(s.keys.incarnation(cluster))} {
		reads = append(reads, clientv3.OpGet(r.start, r.options()...))
	}
	resp, err := s.txn(ctx, nil, reads)
	if err != nil {
		return false, err
	}
	at := func(i int) []*mvccpb.KeyValue { return resp.Responses[i].GetResponseRange().Kvs }
	task, mod, others := findTask(at(0), key)
	if mod == 0 {
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
	conditions := []clientv3.Cmp{unchanged(key, mod), absent(s.keys.record(cluster, last.ID+1))}
	ops := []clientv3.Op{clientv3.OpDelete(key)}
	var inc cke.Incarnation
	for _, kv := range at(3) {
		if err := decode(string(kv.Key), kv.Value, &inc); err != nil {
			return false, err
		}
	}
	// One key is lent at a time: an order beside this one, or a restore under way, may need it still.
	if kvs := at(2); len(kvs) > 0 && task.Kind == cke.TaskRestore && !others && inc.State != cke.Restoring {
		conditions = append(conditions, unchanged(lent, kvs[0].ModRevision))
		ops = append(ops, clientv3.OpDelete(lent))
	}
	done, err := s.txn(ctx, conditions, ops)
	return err == nil && done.Succeeded, err
}

// findTask returns the task at a key with its mod revision, 0 when there is none, and whether another one is to restore.
// One that cannot be read can be taken back all the same.
func findTask(requests []*mvccpb.KeyValue, key string) (task cke.Task, mod int64, others bool) {
	for _, kv := range requests {
		var r Request
		var t cke.Task
		if decode(string(kv.Key), kv.Value, &r) == nil && below(r.Kind, taskOf("")) {
			_ = json.Unmarshal(r.Args, &t)
		}
		if string(kv.Key) == key {
			task, mod = t, kv.ModRevision
		} else if t.Kind == cke.TaskRestore {
			others = true
		}
	}
	return task, mod, others
}
