package storage

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// lateKV keeps a transaction back when told to: its caller hears that time is up, and it lands later.
type lateKV struct {
	clientv3.KV
	mu   sync.Mutex
	hold bool
	kept func() (*clientv3.TxnResponse, error)
	// gaveUp is called when a transaction is kept back; nil: nothing is.
	gaveUp func()
}

type lateTxn struct {
	clientv3.Txn
	kv     *lateKV
	writes bool
}

func (k *lateKV) Txn(ctx context.Context) clientv3.Txn {
	return &lateTxn{Txn: k.KV.Txn(context.WithoutCancel(ctx)), kv: k}
}

func (t *lateTxn) If(cs ...clientv3.Cmp) clientv3.Txn { t.Txn = t.Txn.If(cs...); return t }
func (t *lateTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	for _, o := range ops {
		t.writes = t.writes || !o.IsGet()
	}
	t.Txn = t.Txn.Then(ops...)
	return t
}
func (t *lateTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(ops...); return t }

func (t *lateTxn) Commit() (*clientv3.TxnResponse, error) {
	t.kv.mu.Lock()
	defer t.kv.mu.Unlock()
	if t.kv.hold && t.writes {
		t.kv.hold, t.kv.kept = false, t.Txn.Commit
		if t.kv.gaveUp != nil {
			t.kv.gaveUp()
		}
		return nil, context.DeadlineExceeded
	}
	return t.Txn.Commit()
}

// giveUp makes a write whose outcome its caller never learns, and returns what lets it land.
func (k *lateKV) giveUp(t *testing.T, write func(context.Context) error) (land func()) {
	t.Helper()
	k.mu.Lock()
	k.hold = true
	k.mu.Unlock()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	if err := write(ctx); !errors.Is(err, context.DeadlineExceeded) && cke.CodeOf(err) != cke.CodeStore {
		t.Fatalf("the write was not kept back: %v", err)
	}
	kept := k.kept
	return func() {
		if _, err := kept(); err != nil {
			t.Error(err)
		}
	}
}

func lateStore(t *testing.T) (*Store, *lateKV, *Term, cke.Incarnation) {
	s := newStore(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "a")
	inc := cke.NewIncarnation(testCluster("prod").WithDefaults(), nil, time.Now())
	if err := term.CreateIncarnation(testContext(t), inc); err != nil {
		t.Fatal(err)
	}
	kv := &lateKV{KV: s.client.KV}
	s.client.KV = kv
	return s, kv, term, inc
}

// A lift that was given up lands when something else has been found: that one stays.
func TestTerm_ALateLiftThawsNoOtherFinding(t *testing.T) {
	_, kv, term, _ := lateStore(t)
	ctx := testContext(t)
	first := cke.NewFreeze(cke.FreezeCorrupt, "first", cke.Problem{Message: "one"}, cke.EtcdStatus{})
	lifted := first
	lifted.LiftedAt = time.Now()
	second := cke.NewFreeze(cke.FreezeCorrupt, "second", cke.Problem{Message: "two"}, cke.EtcdStatus{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(term.PutFreeze(ctx, first))
	land := kv.giveUp(t, func(ctx context.Context) error { return term.PutFreeze(ctx, lifted) })
	must(term.PutFreeze(ctx, lifted))
	must(term.PutFreeze(ctx, second))
	land()
	id, err := term.Identity(ctx)
	must(err)
	if id.Freeze == nil || id.Freeze.ID != second.ID || !id.Freeze.Active() {
		t.Errorf("%+v", id.Freeze)
	}
	for what, f := range map[string]cke.Freeze{"lift of another one": lifted, "another one": first} {
		if err := term.PutFreeze(ctx, f); !errors.Is(err, cke.ErrConflict) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Whatever a term writes: once it was given up and another write was made, it changes nothing any more.
func TestTerm_AWriteThatWasGivenUpIsVoidOnceAnotherOneWasMade(t *testing.T) {
	s, kv, term, inc := lateStore(t)
	ctx := testContext(t)
	record, err := term.AppendRecord(ctx, cke.Record{Operation: "first", State: cke.RecordRunning})
	if err != nil {
		t.Fatal(err)
	}
	ended := record
	ended.State = cke.RecordCompleted
	formed := inc
	formed.State, formed.ClusterID = cke.Formed, "c1"
	drain := cke.Drain{Node: "cp1", Since: time.Now(), Until: time.Now().Add(time.Hour)}
	rotated := cke.Authorities{}
	identity := func() cke.Identity {
		id, err := term.Identity(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	read := identity()
	join := read.Joins[0]
	join.Member = "late"
	for _, test := range []struct {
		name        string
		late, after func(context.Context) error
		is          func() bool // what the later write left
	}{
		{"PutRecord", func(ctx context.Context) error { return term.PutRecord(ctx, record) }, func(ctx context.Context) error { return term.PutRecord(ctx, ended) },
			func() bool {
				r, err := s.Record(ctx, "prod", record.ID)
				return err == nil && r.State == cke.RecordCompleted
			}},
		{"PutStatus", func(ctx context.Context) error { return term.PutStatus(ctx, cke.Status{Cluster: "late"}) }, func(ctx context.Context) error { return term.PutStatus(ctx, cke.Status{Cluster: "prod"}) },
			func() bool { st, err := s.Status(ctx, "prod"); return err == nil && st.Cluster == "prod" }},
		{"PutDrain", func(ctx context.Context) error { return term.PutDrain(ctx, drain) }, func(ctx context.Context) error { return term.EndDrain(ctx, "cp1") },
			func() bool { r, err := s.RequestsOf(ctx, "prod"); return err == nil && len(r.Drains) == 0 }},
		{"PutComparison", func(ctx context.Context) error { return term.PutComparison(ctx, cke.Comparison{Revision: 1}) }, func(ctx context.Context) error { return term.PutComparison(ctx, cke.Comparison{Revision: 2}) },
			func() bool { return identity().Compared.Revision == 2 }},
		{"PutJoins", func(ctx context.Context) error { return term.PutJoins(ctx, read, join) }, func(ctx context.Context) error { return term.EndDrain(ctx, "cp1") },
			func() bool { return identity().Joins[0].Member != "late" }},
		{"PutAuthorities", func(ctx context.Context) error {
			return term.PutAuthorities(ctx, rotated, cke.Authorities{}.With(cke.PeerAuthority, cke.AuthorityRecord{Current: cke.CA{Generation: 7}}))
		},
			func(ctx context.Context) error { return term.EndDrain(ctx, "cp1") },
			func() bool { return identity().Authorities.Peer.Current.Generation != 7 }},
		{"UpdateIncarnation", func(ctx context.Context) error { return term.UpdateIncarnation(ctx, formed) }, func(ctx context.Context) error { return term.EndDrain(ctx, "cp1") },
			func() bool { return identity().Incarnation.State == cke.Forming }},
		{"OfferHostKey", func(ctx context.Context) error { return term.OfferHostKey(ctx, "10.0.0.11", "ssh-ed25519 late") }, func(ctx context.Context) error { return term.EndDrain(ctx, "cp1") },
			func() bool {
				_, err := s.OfferedHostKey(ctx, "prod", "10.0.0.11")
				return errors.Is(err, cke.ErrNotFound)
			}},
	} {
		land := kv.giveUp(t, test.late)
		if err := test.after(ctx); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		land()
		if !test.is() {
			t.Errorf("a late %s changed what was written after it", test.name)
		}
	}
}

// One that lands before the next is made counts: the next one comes after it.
func TestTerm_AWriteThatLandsBeforeTheNextOneKeepsNobodyFromWriting(t *testing.T) {
	s, kv, term, _ := lateStore(t)
	ctx := testContext(t)
	land := kv.giveUp(t, func(ctx context.Context) error { return term.PutStatus(ctx, cke.Status{Cluster: "late"}) })
	land()
	if st, err := s.Status(ctx, "prod"); err != nil || st.Cluster != "late" {
		t.Errorf("%+v, %v", st, err)
	}
	if err := term.PutStatus(ctx, cke.Status{Cluster: "next"}); err != nil {
		t.Error(err)
	}
	if st, err := s.Status(ctx, "prod"); err != nil || st.Cluster != "next" {
		t.Errorf("%+v, %v", st, err)
	}
}
