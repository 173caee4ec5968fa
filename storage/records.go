package storage

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// PutStatus stores the status of the cluster.
func (t *Term) PutStatus(ctx context.Context, status cke.Status) error {
	op, err := put(t.s.keys.status(t.cluster), status)
	if err != nil {
		return err
	}
	return t.write(ctx, "store the status of "+t.cluster, nil, op)
}

// AppendRecord stores a new record and returns it with its id, cluster and term filled in. The oldest records beyond
// 500 are removed. If the store stops answering during the call, the record may be stored nevertheless. ErrConflict,
// nothing stored: its task is no longer requested; see WithdrawTask.
func (t *Term) AppendRecord(ctx context.Context, r cke.Record) (cke.Record, error) {
	tried := "record an operation on " + t.cluster
	r.Cluster, r.Term = t.cluster, t.number
	var unsure bool // whether r was stored under its id already: the answer was lost
	err := t.retry(ctx, func(ctx context.Context) error {
		last, err := t.s.Records(ctx, t.cluster, 1)
		if err != nil {
			return err
		}
		if unsure && len(last) > 0 && reflect.DeepEqual(last[0], r) {
			return t.Check()
		}
		r.ID = 1
		if len(last) > 0 {
			r.ID = last[0].ID + 1
		}
		key := t.s.keys.record(t.cluster, r.ID)
		op, err := put(key, r)
		if err != nil {
			return err
		}
		conditions := []clientv3.Cmp{absent(key)}
		if r.Task != "" {
			task := t.s.keys.request(t.cluster, taskOf(r.Task))
			if _, err := t.s.get(ctx, task, new(Request)); errors.Is(err, cke.ErrNotFound) {
				return fmt.Errorf("%s: task %s was withdrawn: %w", tried, r.Task, cke.ErrConflict)
			} else if err != nil {
				return t.s.fail(tried, err)
			}
			conditions = append(conditions, present(task))
		}
		ops := []clientv3.Op{op}
		if oldest := r.ID - keptRecords; oldest > 0 {
			ops = append(ops, clientv3.OpDelete(t.s.keys.record(t.cluster, 0), clientv3.WithRange(t.s.keys.record(t.cluster, oldest+1))))
		}
		err = t.write(ctx, tried, conditions, ops...)
		if unknownOutcome(err) && ctx.Err() == nil && t.Check() == nil {
			unsure = true
			return errChanged
		}
		return err
	})
	return r, err
}

// PutRecord stores the current state of a record.
func (t *Term) PutRecord(ctx context.Context, r cke.Record) error {
	if r.ID <= 0 || r.Cluster != t.cluster {
		return fmt.Errorf("record %d of %q does not belong to %s: %w", r.ID, r.Cluster, t.cluster, cke.ErrConflict)
	}
	op, err := put(t.s.keys.record(t.cluster, r.ID), r)
	if err != nil {
		return err
	}
	return t.write(ctx, fmt.Sprintf("store record %d of %s", r.ID, t.cluster), nil, op)
}

// InterruptRunning marks operations that earlier terms left running as interrupted.
func (t *Term) InterruptRunning(ctx context.Context) error {
	records, err := t.s.Records(ctx, t.cluster, 0)
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.State != cke.RecordRunning || r.Term >= t.number {
			continue
		}
		r.State, r.EndedAt = cke.RecordInterrupted, time.Now().UTC()
		if r.Error == "" {
			r.Error = fmt.Sprintf("cke on %s stopped leading while this ran; the next leader observes the cluster again and continues from there", r.Host)
		}
		if err := t.PutRecord(ctx, r); err != nil {
			return err
		}
	}
	return nil
}
