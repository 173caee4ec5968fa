package storage

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// PutAuthorities implements cke.Ledger. It removes the keys of authorities that are no longer on record.
func (t *Term) PutAuthorities(ctx context.Context, before, after cke.Authorities) error {
	tried := "record the certificate authorities of " + t.cluster
	key := t.s.keys.authorities(t.cluster)
	return t.retry(ctx, func(ctx context.Context) error {
		resp, err := t.read(ctx, tried, clientv3.OpGet(key))
		if err != nil {
			return err
		}
		var now cke.Authorities
		guard := absent(key)
		if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
			guard = unchanged(key, kvs[0].ModRevision)
			if err := decode(key, kvs[0].Value, &now); err != nil {
				return fmt.Errorf("%s: %w", tried, err)
			}
		}
		switch {
		case reflect.DeepEqual(now, after):
			return nil // a former attempt, whose answer was lost
		case !reflect.DeepEqual(now, before):
			return fmt.Errorf("%s: others are on record: %w", tried, cke.ErrConflict)
		}
		op, err := put(key, after)
		if err != nil {
			return err
		}
		ops := []clientv3.Op{op}
		for _, name := range cke.AuthorityNames() {
			kept := after.Of(name).Kept()
			for _, old := range before.Of(name).Kept() {
				if !slices.ContainsFunc(kept, func(c cke.CA) bool { return c.Generation == old.Generation }) {
					ops = append(ops, clientv3.OpDelete(t.s.keys.secret(t.cluster, cke.AuthoritySecret(name, old.Generation))))
				}
			}
		}
		return t.write(ctx, tried, []clientv3.Cmp{guard}, ops...)
	})
}
