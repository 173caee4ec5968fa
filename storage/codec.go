package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// get reads the document at key and returns its mod revision. ErrNotFound, bare, when there is none.
func (s *Store) get(ctx context.Context, key string, into any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	resp, err := s.client.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	if len(resp.Kvs) == 0 {
		return 0, cke.ErrNotFound
	}
	return resp.Kvs[0].ModRevision, decode(key, resp.Kvs[0].Value, into)
}

// list reads all documents in r in the order that opts ask for.
func list[T any](ctx context.Context, s *Store, r keyRange, opts ...clientv3.OpOption) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	resp, err := s.client.Get(ctx, r.start, r.options(opts...)...)
	if err != nil {
		return nil, err
	}
	return decodeAll[T](resp.Kvs)
}

func decodeAll[T any](kvs []*mvccpb.KeyValue) ([]T, error) {
	out := make([]T, len(kvs))
	for i, kv := range kvs {
		if err := decode(string(kv.Key), kv.Value, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// txn commits then if every condition holds; otherwise it does otherwise. What it writes keeps the fields that this cke does
// not know. CodeSchema: then writes, and a newer cke has shut this one out.
func (s *Store) txn(ctx context.Context, conditions []clientv3.Cmp, then []clientv3.Op, otherwise ...clientv3.Op) (*clientv3.TxnResponse, error) {
	if !slices.ContainsFunc(then, func(op clientv3.Op) bool { return op.IsPut() || op.IsDelete() }) {
		return s.commit(ctx, conditions, then, otherwise...)
	}
	for {
		if err := s.MayWrite(); err != nil {
			return nil, err
		}
		ops, guards, err := s.carried(ctx, then)
		if err != nil {
			return nil, err
		}
		guards = append(guards, unchanged(s.keys.version(), s.schemaMod.Load()))
		resp, err := s.commit(ctx, slices.Concat(conditions, guards), ops, otherwise...)
		if err != nil || resp.Succeeded {
			return resp, err
		}
		if held, err := s.commit(ctx, guards, nil); err != nil || held.Succeeded {
			return resp, err // a condition of the caller's does not hold
		}
		if _, _, err := s.schema(ctx); err != nil {
			return nil, err
		}
	}
}

func (s *Store) commit(ctx context.Context, conditions []clientv3.Cmp, then []clientv3.Op, otherwise ...clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	before, _ := s.horizon.now()
	resp, err := s.client.Txn(ctx).If(conditions...).Then(then...).Else(otherwise...).Commit()
	// A transaction without operations is answered by one member, which may be behind.
	if err == nil && len(then)+len(otherwise) > 0 && s.horizon.saw(before, resp.Header) {
		s.wentBack()
	}
	return resp, err
}

func put(key string, v any, opts ...clientv3.OpOption) (clientv3.Op, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return clientv3.Op{}, fmt.Errorf("encode %s: %w", key, err)
	}
	return clientv3.OpPut(key, string(b), opts...), nil
}

func decode(key string, b []byte, into any) error {
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("decode %s: %w: %w", key, cke.ErrMalformed, err)
	}
	return nil
}

// Conditions of transactions.

func absent(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), "=", 0) }
func present(key string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), ">", 0)
}

// unchanged holds while key was not written since it had this mod revision; 0: it still does not exist.
func unchanged(key string, mod int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", mod)
}

// unwritten holds if key was not written after a revision; so it does if it does not exist.
func unwritten(key string, rev int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "<", rev+1)
}

// created holds while the key that was created at this revision is there.
func created(key string, rev int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", rev)
}
