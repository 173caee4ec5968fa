package storage

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// deafKV loses the answers to writes: none of them is made, or each of them is.
type deafKV struct {
	clientv3.KV
	makes  bool
	writes atomic.Int64
}

type deafTxn struct {
	clientv3.Txn
	kv     *deafKV
	writes bool
}

// mostWrites is far more than any caller may try; after it a write fails in a way that is known.
const mostWrites = 50

func (k *deafKV) Txn(ctx context.Context) clientv3.Txn { return &deafTxn{Txn: k.KV.Txn(ctx), kv: k} }

func (t *deafTxn) If(cs ...clientv3.Cmp) clientv3.Txn { t.Txn = t.Txn.If(cs...); return t }
func (t *deafTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	for _, o := range ops {
		t.writes = t.writes || !o.IsGet()
	}
	t.Txn = t.Txn.Then(ops...)
	return t
}
func (t *deafTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(ops...); return t }

func (t *deafTxn) Commit() (*clientv3.TxnResponse, error) {
	if !t.writes {
		return t.Txn.Commit()
	}
	if t.kv.writes.Add(1) > mostWrites {
		return nil, errors.New("tried without end")
	}
	if t.kv.makes {
		if _, err := t.Txn.Commit(); err != nil {
			return nil, err
		}
	}
	return nil, context.DeadlineExceeded
}

// deaf lets a term lose the answers to its writes until the returned function is called.
func deaf(t *Term, makes bool) (kv *deafKV, hears func()) {
	before := t.s.client.KV
	kv = &deafKV{KV: before, makes: makes}
	t.s.client.KV = kv
	return kv, func() { t.s.client.KV = before }
}

// While the store reads and loses the answer to every write, a record is given up after a few tries: a leader's round waits for it.
func TestAppendRecord_IsGivenUpWhileNoWriteIsAnswered(t *testing.T) {
	s, _, term, _ := lateStore(t)
	ctx := testContext(t)
	kv, hears := deaf(term, false)
	r, err := term.AppendRecord(ctx, cke.Record{Operation: "first", State: cke.RecordRunning})
	if n := kv.writes.Load(); cke.CodeOf(err) != cke.CodeStore || n > appendTries {
		t.Errorf("after %d writes: %+v, %v", n, r, err)
	}
	hears()
	if r, err = term.AppendRecord(ctx, cke.Record{Operation: "second", State: cke.RecordRunning}); err != nil || r.ID != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if all, err := s.Records(ctx, "prod", 0); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A record whose answer was lost is found by reading, and is stored once.
func TestAppendRecord_FindsTheRecordWhoseAnswerWasLost(t *testing.T) {
	s, _, term, _ := lateStore(t)
	ctx := testContext(t)
	kv, hears := deaf(term, true)
	r, err := term.AppendRecord(ctx, cke.Record{Operation: "first", State: cke.RecordRunning, StartedAt: time.Now(), Targets: []string{}})
	if err != nil || r.ID != 1 || kv.writes.Load() != 1 {
		t.Errorf("%+v, %v after %d writes", r, err, kv.writes.Load())
	}
	hears()
	if all, err := s.Records(ctx, "prod", 0); err != nil || len(all) != 1 || all[0].State != cke.RecordRunning {
		t.Errorf("%+v, %v", all, err)
	}
}

// A record that lands after it was given up is of an operation that did not start: the next record closes it.
func TestAppendRecord_ClosesTheOneThatLandsAfterItWasGivenUp(t *testing.T) {
	s, kv, term, _ := lateStore(t)
	ctx := testContext(t)
	land := kv.giveUp(t, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		kv.gaveUp = cancel // the operation is called off meanwhile
		_, err := term.AppendRecord(ctx, cke.Record{Operation: "first", State: cke.RecordRunning})
		return err
	})
	land()
	if _, err := term.AppendRecord(ctx, cke.Record{Operation: "second", State: cke.RecordRunning}); err != nil {
		t.Fatal(err)
	}
	all, err := s.Records(ctx, "prod", 0)
	states := map[string]cke.RecordState{}
	for _, r := range all {
		states[r.Operation] = r.State
	}
	if err != nil || len(all) != 2 || states["first"] != cke.RecordInterrupted || states["second"] != cke.RecordRunning {
		t.Errorf("%+v, %v", all, err)
	}
}
