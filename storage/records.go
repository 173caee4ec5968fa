package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
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
		last, err := t.s.lastRecord(ctx, t.cluster)
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
// their leader did not live to remove them: they would be carried out once more. CodeRecord: a record cannot be decoded that may be one
// of a task that waits, or a request cannot be decoded; all other records were closed.
func (t *Term) InterruptRunning(ctx context.Context) error {
	ops, asked := under(t.s.keys.records(t.cluster)), under(t.s.keys.requests(t.cluster))
	resp, err := t.read(ctx, "read the records of "+t.cluster, clientv3.OpGet(ops.start, ops.options()...), clientv3.OpGet(asked.start, asked.options()...))
	if err != nil {
		return err
	}
	tasks := map[string]int64{}      // and the revisions at which they were requested
	var undecoded []*mvccpb.KeyValue // requests
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		var r struct{ Kind string }
		if decode(string(kv.Key), kv.Value, &r) != nil {
			undecoded = append(undecoded, kv)
			continue
		}
		if id, is := strings.CutPrefix(r.Kind, taskOf("")); is {
			tasks[id] = kv.CreateRevision
		}
	}
	var unread []*mvccpb.KeyValue // records
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		r, err := t.s.decodeRecord(t.cluster, kv)
		if err != nil {
			unread = append(unread, kv)
			continue
		}
		if r.Term >= t.is.Term {
			continue
		}
		if _, waits := tasks[r.Task]; waits && r.EndsTask() {
			if err := t.FinishTask(ctx, r.Task); err != nil {
				return err
			}
			delete(tasks, r.Task)
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
	return t.unreadable(undecoded, unread, tasks)
}

// unreadable names what cannot be decoded and keeps tasks waiting, always in the same order: requests by their keys, then records by their
// numbers, and tasks by their ids. waiting are the revisions at which tasks were requested that wait.
func (t *Term) unreadable(requests, records []*mvccpb.KeyValue, waiting map[string]int64) error {
	var what, keys, facts, try, numbers []string
	for _, kv := range requests {
		keys = append(keys, string(kv.Key))
		r, _ := t.s.decodeRequest(t.cluster, kv)
		if id, is := strings.CutPrefix(r.Kind, taskOf("")); is {
			try = append(try, "ckecli task cancel "+id)
		} else {
			try = append(try, "etcdctl del "+string(kv.Key))
		}
	}
	if keys != nil {
		what = append(what, "requests cannot be decoded, so it is not known what they ask for: "+strings.Join(keys, ", "))
	}
	doubted := map[string]bool{}
	for _, kv := range records {
		r, _ := t.s.decodeRecord(t.cluster, kv)
		named := false
		for id, at := range waiting {
			if at < kv.CreateRevision { // it names no task that was requested after it
				doubted[id], named = true, true
			}
		}
		if named {
			numbers = append(numbers, fmt.Sprint(r.ID))
		}
	}
	tasks := slices.Sorted(maps.Keys(doubted))
	switch len(numbers) {
	case 0:
	case 1:
		what = append(what, fmt.Sprintf("record %s cannot be decoded, so it is not known which task it carried out", numbers[0]))
	default:
		what = append(what, fmt.Sprintf("records %s cannot be decoded, so it is not known which tasks they carried out", strings.Join(numbers, ", ")))
	}
	if what == nil {
		return nil
	}
	if tasks != nil {
		facts = []string{"it may be a task that still waits: " + strings.Join(tasks, ", ")}
	}
	for _, id := range tasks {
		try = append(try, "ckecli task cancel "+id)
	}
	return &cke.Error{Code: cke.CodeRecord, Err: cke.ErrMalformed, What: strings.Join(what, "; "), Facts: facts, Try: strings.Join(try, ", and ") + "; then request again what was not carried out"}
}
