package storage

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// EditReboots implements cke.Ledger.
func (t *Term) EditReboots(ctx context.Context, edit func(cke.Reboots) (cke.Reboots, error)) error {
	tried, key := "write the reboot queue of "+t.cluster, t.s.keys.request(t.cluster, requestReboots)
	return t.retry(ctx, func(ctx context.Context) error {
		resp, err := t.read(ctx, tried, clientv3.OpGet(key))
		if err != nil {
			return err
		}
		guard, op, err := editReboots(key, resp.Responses[0].GetResponseRange().Kvs, "", edit)
		if err != nil {
			return err
		}
		return t.write(ctx, tried, []clientv3.Cmp{guard}, op)
	})
}

// EditReboots stores what edit makes of a cluster's reboot queue, as Term.EditReboots does, for an operator. ErrNotFound:
// there is no such cluster.
func (s *Store) EditReboots(ctx context.Context, cluster, by string, edit func(cke.Reboots) (cke.Reboots, error)) error {
	if err := checkName(cluster); err != nil {
		return err
	}
	tried, key := "write the reboot queue of "+cluster, s.keys.request(cluster, requestReboots)
	for {
		resp, err := s.txn(ctx, []clientv3.Cmp{present(s.keys.spec(cluster))}, []clientv3.Op{clientv3.OpGet(key)})
		if err != nil {
			return s.fail(tried, err)
		}
		if !resp.Succeeded {
			return noCluster(cluster)
		}
		guard, op, err := editReboots(key, resp.Responses[0].GetResponseRange().Kvs, by, edit)
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

// editReboots is the write of an edited queue, and the condition that it was not written since it was read.
func editReboots(key string, kvs []*mvccpb.KeyValue, by string, edit func(cke.Reboots) (cke.Reboots, error)) (clientv3.Cmp, clientv3.Op, error) {
	var q cke.Reboots
	guard := unchanged(key, 0)
	if len(kvs) > 0 {
		guard = unchanged(key, kvs[0].ModRevision)
		var r Request
		if err := errors.Join(decode(key, kvs[0].Value, &r), json.Unmarshal(r.Args, &q)); err != nil {
			return guard, clientv3.Op{}, err
		}
	}
	q, err := edit(q)
	if err != nil {
		return guard, clientv3.Op{}, err
	}
	args, err := json.Marshal(q)
	if err != nil {
		return guard, clientv3.Op{}, err
	}
	op, err := put(key, Request{Kind: requestReboots, Args: args, At: time.Now().UTC(), By: by})
	return guard, op, err
}
