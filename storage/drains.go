package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// PutDrain implements cke.Ledger. The transaction requires that no other lease is active: no lease may have been
// written since they were read.
func (t *Term) PutDrain(ctx context.Context, d cke.Drain) error {
	tried := "lease " + d.Node + " of " + t.cluster
	r := under(t.s.keys.drains(t.cluster))
	resp, err := t.read(ctx, tried, clientv3.OpGet(r.start, r.options()...))
	if err != nil {
		return err
	}
	args, err := json.Marshal(d)
	if err != nil {
		return err
	}
	op, err := put(t.s.keys.request(t.cluster, drainOf(d.Node)), Request{Kind: drainOf(d.Node), Args: args, At: d.Since, By: d.By})
	if err != nil {
		return err
	}
	ops := []clientv3.Op{op}
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		var asked cke.Requests
		request, _ := t.s.decodeRequest(t.cluster, kv)
		undecoded, other := request.into(&asked), asked.Drains[0]
		switch {
		case other.Node == d.Node && undecoded == nil:
		case other.Active(d.Since):
			return cke.OtherDrain(d.Node, other)
		default:
			ops = append(ops, clientv3.OpDelete(string(kv.Key)))
		}
	}
	written := clientv3.Compare(clientv3.ModRevision(r.start), "<", resp.Header.Revision+1).WithRange(r.end)
	err = t.write(ctx, tried, []clientv3.Cmp{written}, ops...)
	if errors.Is(err, errChanged) {
		return fmt.Errorf("%s: a lease was written meanwhile: %w", tried, cke.ErrConflict)
	}
	return err
}

// EndDrain implements cke.Ledger.
func (t *Term) EndDrain(ctx context.Context, node string) error {
	return t.write(ctx, "end the lease of "+node, nil, clientv3.OpDelete(t.s.keys.request(t.cluster, drainOf(node))))
}

// EndDrain removes the maintenance lease of a node, even an expired one. ErrNotFound: it has none.
func (s *Store) EndDrain(ctx context.Context, cluster, node string) error {
	return s.endRequest(ctx, cluster, drainOf(node), "end the lease of "+node,
		&cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("%s of cluster %s is not drained", node, cluster), Unchanged: true, Err: cke.ErrNotFound})
}
