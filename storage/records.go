package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// appendTries is how often a record is written while it is not known whether it was stored: a leader's round waits for it.
const appendTries = 3

// AppendRecord stores a new record and returns it with its id, cluster and term filled in. The oldest records beyond
// 500 are removed. If the store does not answer, the outcome is read again, and the write repeated, a few times. After
// that, the record may be stored nevertheless; the next one that is appended closes it. ErrConflict, nothing stored: its
// task is no longer requested; see WithdrawTask.
func (t *Term) AppendRecord(ctx context.Context, r cke.Record) (cke.Record, error) {
	tried := "record an operation on " + t.cluster
	r.Cluster, r.Term = t.cluster, t.is.Term
	var unsure error // the last write whose answer was lost: r may be stored under its id already
	tries := 0
	err := t.retry(ctx, func(ctx context.Context) error {
		last, err := t.s.Records(ctx, t.cluster, 1)
		switch {
		case err != nil:
			return err
		case unsure != nil && len(last) > 0 && sameRecord(last[0], r):
			unsure = nil
			return t.Check()
		case tries == appendTries:
			return unsure
		}
		r.ID = 1
		var ops []clientv3.Op
		if len(last) > 0 {
			r.ID = last[0].ID + 1
			if closed, err := t.closeDoubted(last[0]); err != nil {
				return err
			} else if closed != nil {
				ops = append(ops, *closed)
			}
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
		ops = append(ops, op)
		if oldest := r.ID - keptRecords; oldest > 0 {
			ops = append(ops, clientv3.OpDelete(t.s.keys.record(t.cluster, 0), clientv3.WithRange(t.s.keys.record(t.cluster, oldest+1))))
		}
		err = t.write(ctx, tried, conditions, ops...)
		if !unknownOutcome(err) {
			if err == nil {
				unsure = nil
			}
			return err
		}
		unsure = err
		if tries++; ctx.Err() == nil && t.Check() == nil {
			return errChanged
		}
		return err
	})
	if unsure != nil {
		t.doubted.Store(&r)
	} else if err == nil {
		t.doubted.Store(nil)
	}
	return r, err
}

// closeDoubted is the write that closes the newest record, if that is one whose operation did not start because the
// answer to its write was lost; nil: it is another one.
func (t *Term) closeDoubted(last cke.Record) (*clientv3.Op, error) {
	doubted := t.doubted.Load()
	if doubted == nil || last.State != cke.RecordRunning || !sameRecord(last, *doubted) {
		return nil, nil
	}
	last.State, last.EndedAt = cke.RecordInterrupted, time.Now().UTC()
	last.Error = "the store did not answer when this was recorded, so it did not start"
	op, err := put(t.s.keys.record(t.cluster, last.ID), last)
	return &op, err
}

// sameRecord reports whether two records are stored as one document.
func sameRecord(a, b cke.Record) bool {
	one, err := json.Marshal(a)
	other, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(one, other)
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

// InterruptRunning marks operations that earlier terms left running as interrupted, and removes tasks of operations that ended when
// their leader did not live to remove them: they would be carried out once more.
func (t *Term) InterruptRunning(ctx context.Context) error {
	records, err := t.s.Records(ctx, t.cluster, 0)
	if err != nil {
		return err
	}
	asked, err := t.s.RequestsOf(ctx, t.cluster)
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.Term >= t.is.Term {
			continue
		}
		if r.EndsTask() && slices.ContainsFunc(asked.Tasks, func(k cke.Task) bool { return k.ID == r.Task }) {
			if err := t.FinishTask(ctx, r.Task); err != nil {
				return err
			}
		}
		if r.State != cke.RecordRunning {
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
