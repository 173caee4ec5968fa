package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// EditQueue implements cke.Ledger.
func (t *Term) EditQueue(ctx context.Context, kind cke.QueueKind, edit func(cke.Queue) (cke.Queue, error)) error {
	tried, key := fmt.Sprintf("write the %s queue of %s", kind, t.cluster), t.s.keys.request(t.cluster, requestQueues[kind])
	return t.retry(ctx, func(ctx context.Context) error {
		resp, err := t.read(ctx, tried, clientv3.OpGet(key))
		if err != nil {
			return err
		}
		guard, op, err := editQueue(key, kind, resp.Responses[0].GetResponseRange().Kvs, "", edit)
		if err != nil {
			return err
		}
		return t.write(ctx, tried, []clientv3.Cmp{guard}, op)
	})
}

// EditQueue stores what edit makes of a queue of a cluster, as Term.EditQueue does, for an operator. ErrNotFound:
// there is no such cluster.
func (s *Store) EditQueue(ctx context.Context, cluster string, kind cke.QueueKind, by string, edit func(cke.Queue) (cke.Queue, error)) error {
	if err := checkName(cluster); err != nil {
		return err
	}
	tried, key := fmt.Sprintf("write the %s queue of %s", kind, cluster), s.keys.request(cluster, requestQueues[kind])
	for {
		resp, err := s.txn(ctx, []clientv3.Cmp{present(s.keys.spec(cluster))}, []clientv3.Op{clientv3.OpGet(key)})
		if err != nil {
			return s.fail(tried, err)
		}
		if !resp.Succeeded {
			return noCluster(cluster)
		}
		guard, op, err := editQueue(key, kind, resp.Responses[0].GetResponseRange().Kvs, by, edit)
		if err != nil {
			return err
		}
		done, err := s.txn(ctx, []clientv3.Cmp{present(s.keys.spec(cluster)), guard}, []clientv3.Op{op})
		if err != nil {
			return s.fail(tried, err)
		}
		if done.Succeeded {
			return nil
		}
	}
}

// queueDocument is what a Request is that holds a queue.
type queueDocument struct {
	Kind string    `json:"kind"`
	Args cke.Queue `json:"args"`
	At   time.Time `json:"at"`
	By   string    `json:"by,omitempty"`
}

// editQueue is the write of an edited queue, and the condition that it was not written since it was read.
func editQueue(key string, kind cke.QueueKind, kvs []*mvccpb.KeyValue, by string, edit func(cke.Queue) (cke.Queue, error)) (clientv3.Cmp, clientv3.Op, error) {
	var q cke.Queue
	guard := unchanged(key, 0)
	if len(kvs) > 0 {
		guard = unchanged(key, kvs[0].ModRevision)
		var r Request
		if err := errors.Join(decode(key, kvs[0].Value, &r), json.Unmarshal(r.Args, &q)); err != nil {
			return guard, clientv3.Op{}, queueUndecoded(key, kind, err)
		}
	}
	q.Kind = kind
	q, err := edit(q)
	if err != nil {
		return guard, clientv3.Op{}, err
	}
	args, err := q.Encode()
	if err != nil {
		return guard, clientv3.Op{}, err
	}
	op, err := put(key, Request{Kind: requestQueues[kind], Args: args, At: time.Now().UTC(), By: by})
	return guard, op, err
}

// queueUndecoded is why a queue is not changed: what is under way in it is not known.
func queueUndecoded(key string, kind cke.QueueKind, err error) error {
	return &cke.Error{Code: cke.CodeRecord, What: fmt.Sprintf("the %s queue at %s cannot be decoded, so it is not changed", kind, key), Unchanged: true, Err: err,
		Facts: []string{"the queue stays stopped as long as it is there; without it its entries are gone, and leases that it had given end"}, Try: "etcdctl del " + key}
}
