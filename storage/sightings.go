package storage

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// PutSightings implements cke.Ledger.
func (t *Term) PutSightings(ctx context.Context, seen ...cke.Sighting) error {
	tried := "record what was seen in " + t.cluster
	var ops []clientv3.Op
	for _, s := range seen {
		op, err := put(t.s.keys.sighting(t.cluster, s.Order, s.Node), s)
		if err != nil {
			return t.s.fail(tried, err)
		}
		ops = append(ops, op)
	}
	for _, some := range batches(ops) {
		if err := t.write(ctx, tried, nil, some...); err != nil {
			return err
		}
	}
	return nil
}

// DropSighting implements cke.Ledger.
func (t *Term) DropSighting(ctx context.Context, over cke.Sighting) error {
	tried := "remove what was seen in " + t.cluster
	asked := []clientv3.Cmp{absent(t.s.keys.request(t.cluster, taskOf(over.Order)))}
	err := t.write(ctx, tried, asked, clientv3.OpDelete(t.s.keys.sighting(t.cluster, over.Order, over.Node)))
	if errors.Is(err, errChanged) {
		err = fmt.Errorf("%s: the order is still there: %w", tried, cke.ErrConflict)
	}
	return err
}

// sighting reads one sighting. One that cannot be decoded counts all the same: its key says of which node and order it is.
func (s *Store) sighting(cluster string, kv *mvccpb.KeyValue) (seen cke.Sighting) {
	key := string(kv.Key)
	if err := decode(key, kv.Value, &seen); err != nil {
		seen.What = "what was seen cannot be decoded"
		s.log.Warn("what was seen of a node that an order calls destroyed cannot be decoded", "cluster", cluster, "error", err)
	}
	order, node, _ := strings.Cut(strings.TrimPrefix(key, s.keys.sightings(cluster)), "/")
	for into, part := range map[*string]string{&seen.Order: order, &seen.Node: node} {
		if text, err := url.PathUnescape(part); err == nil {
			*into = text
		}
	}
	return seen
}
