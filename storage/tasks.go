package storage

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

func taskOf(id string) string { return requestTask + " " + id }

// AddTask asks the cluster's leader daemon to do something once. ErrNotFound: there is no such cluster. CodeSchema: an
// older daemon that may lead would lift a freeze without putting aside who is named as wrong.
func (s *Store) AddTask(ctx context.Context, cluster string, t cke.Task) error {
	if len(t.Wrong) > 0 {
		if err := s.needs(ctx, schemaWrong, "naming members that are wrong"); err != nil {
			return s.fail("ask the leader of "+cluster, err)
		}
	}
	return s.PutRequest(ctx, cluster, taskOf(t.ID), t.By, t)
}

// FinishTask removes a finished task, with the key that was lent for it, unless that is for a restore under way, and
// the keys that earlier versions, or interrupted steps, left; a missing task is no error.
func (t *Term) FinishTask(ctx context.Context, id string) error {
	tried := "finish task " + id
	return t.retry(ctx, func(ctx context.Context) error {
		l, err := t.lent(ctx, tried)
		if err != nil {
			return err
		}
		ops := append(l.over(id), clientv3.OpDelete(t.s.keys.request(t.cluster, taskOf(id))))
		return t.write(ctx, tried, l.unchanged(), ops...)
	})
}

// WithdrawTask withdraws a task that no leader daemon has started, with the key that was lent for it, also one that cannot be
// decoded. ErrConflict: it was started. ErrNotFound: it is not requested, or no longer.
//
// A leader daemon starts a task with the first record that names it (AppendRecord). Both transactions need the id of
// the next record to be free, and the task to be there, so only one of them can succeed.
func (s *Store) WithdrawTask(ctx context.Context, cluster, id string) error {
	return s.withdraw(ctx, cluster, id, false)
}

// withdraw withdraws a task. failed: also one that has failed.
func (s *Store) withdraw(ctx context.Context, cluster, id string, failed bool) error {
	if err := checkName(cluster); err != nil {
		return err
	}
	for {
		done, err := s.tryWithdraw(ctx, cluster, id, failed)
		if err != nil || done {
			return s.fail(fmt.Sprintf("withdraw task %s of %s", id, cluster), err)
		}
	}
}

// tryWithdraw is one attempt; false: something was written meanwhile.
func (s *Store) tryWithdraw(ctx context.Context, cluster, id string, failed bool) (bool, error) {
	key := s.keys.request(cluster, taskOf(id))
	reads := s.lendings(cluster)
	for _, r := range []keyRange{one(key), under(s.keys.records(cluster)), one(s.keys.status(cluster)), under(s.keys.candidates(cluster))} {
		reads = append(reads, clientv3.OpGet(r.start, r.options()...))
	}
	resp, err := s.txn(ctx, nil, reads)
	if err != nil {
		return false, err
	}
	l, err := s.lentIn(cluster, resp)
	if err != nil {
		return false, err
	}
	at := func(i int) []*mvccpb.KeyValue { return resp.Responses[3+i].GetResponseRange().Kvs }
	if len(at(0)) == 0 && !failed {
		return false, fmt.Errorf("it is not requested: %w", cke.ErrNotFound)
	}
	requested := int64(0)
	for _, kv := range at(0) {
		requested = kv.CreateRevision
	}
	var last cke.Record
	var started error
	unread := false
	for _, kv := range at(1) {
		last, err = s.decodeRecord(cluster, kv)
		switch {
		case err != nil:
			unread = unread || kv.CreateRevision > requested
		case last.Task == id:
			started = fmt.Errorf("record %d has started it: %w", last.ID, cke.ErrConflict)
			if last.State == cke.RecordRunning || last.EndsTask() && !failed { // whatever another record may have been of
				return false, started
			}
		}
	}
	if unread && carriesOut(at(2), at(3), id) {
		return false, fmt.Errorf("the leader daemon carries it out: %w", cke.ErrConflict)
	}
	if started != nil && !unread && !failed { // else it is the operator who decides whether it is over, see InterruptRunning
		return false, started
	}
	conditions := append(l.unchanged(), absent(s.keys.record(cluster, last.ID+1)))
	for _, kv := range at(0) {
		conditions = append(conditions, unchanged(key, kv.ModRevision))
	}
	done, err := s.txn(ctx, conditions, append(l.over(id), clientv3.OpDelete(key)))
	return err == nil && done.Succeeded, err
}

// carriesOut reports whether the daemon that leads, of all candidates, reported last that an operation of a task runs.
func carriesOut(status, candidates []*mvccpb.KeyValue, task string) bool {
	if len(status) == 0 || len(candidates) == 0 {
		return false
	}
	var st cke.Status
	var leads candidacy
	eldest := slices.MinFunc(candidates, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) })
	if decode("", status[0].Value, &st) != nil || decode("", eldest.Value, &leads) != nil {
		return false
	}
	return st.Leader.Term == leads.Term && st.Operation != nil && st.Operation.Task == task && st.Operation.State == cke.RecordRunning
}
