package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// secretRestoreKey is where earlier versions kept the age identity that was lent for a restore from encrypted backups, for all restores
// of a cluster.
const secretRestoreKey = "restore-key"

// lentFor is the age identity that was lent for one restore. Only what is done for that restore reads or removes it: another
// one may be asked for while it waits.
func lentFor(task string) string { return secretRestoreKey + "/" + task }

// isLent reports whether a secret was lent for a restore, which it does not outlive.
func isLent(name string) bool { return name == secretRestoreKey || below(name, secretRestoreKey+"/") }

// FinishRestore removes the key that was lent for a restore, and those of all finished orders; a missing one is no
// error.
func (t *Term) FinishRestore(ctx context.Context, task string) error {
	tried := "remove the key lent for a restore"
	return t.retry(ctx, func(ctx context.Context) error {
		l, err := t.lent(ctx, tried)
		if err != nil {
			return err
		}
		if len(l.secrets) == 0 {
			return nil
		}
		ops := append(l.over(""), clientv3.OpDelete(t.s.keys.secret(t.cluster, lentFor(task))))
		return t.write(ctx, tried, l.unchanged(), ops...)
	})
}

func (t *Term) lent(ctx context.Context, tried string) (lent, error) {
	resp, err := t.read(ctx, tried, t.s.lendings(t.cluster)...)
	if err != nil {
		return lent{}, err
	}
	l, err := t.s.lentIn(t.cluster, resp)
	if err != nil {
		err = fmt.Errorf("%s: %w", tried, err)
	}
	return l, err
}

// RestoreKey returns the age identities that were lent for a restore of the cluster. ErrNotFound: there are none.
func (s *Store) RestoreKey(ctx context.Context, cluster, task string) ([]byte, error) {
	key, err := s.Secrets(cluster).Secret(ctx, lentFor(task))
	if errors.Is(err, cke.ErrNotFound) {
		return s.Secrets(cluster).Secret(ctx, secretRestoreKey)
	}
	return key, err
}

// OpenRestores returns the ids of the restores that may still need what was fetched or lent for them: those
// requested, and those under way.
func (s *Store) OpenRestores(ctx context.Context, cluster string) ([]string, error) {
	if err := checkName(cluster); err != nil {
		return nil, err
	}
	tried := "read the restores of " + cluster
	resp, err := s.txn(ctx, nil, s.lendings(cluster))
	if err != nil {
		return nil, s.fail(tried, err)
	}
	l, err := s.lentIn(cluster, resp)
	if err != nil {
		return nil, s.fail(tried, err)
	}
	return l.open(), nil
}

// lent is what the store holds of orders to restore at one revision.
type lent struct {
	keys     schema
	cluster  string
	revision int64
	// identity is who the cluster is; mod is the mod revision of its incarnation.
	identity cke.Identity
	mod      int64
	// orders are the ids of the orders that are in the store, started or not.
	orders []string
	// secrets are the store's keys of what was lent.
	secrets []string
}

// lendings are the reads that lentIn needs.
func (s *Store) lendings(cluster string) []clientv3.Op {
	var reads []clientv3.Op
	for _, r := range []keyRange{under(s.keys.identity(cluster)), under(s.keys.requests(cluster))} {
		reads = append(reads, clientv3.OpGet(r.start, r.options()...))
	}
	r := under(s.keys.secret(cluster, secretRestoreKey))
	return append(reads, clientv3.OpGet(r.start, r.options(clientv3.WithKeysOnly())...))
}

// lentIn takes what lendings read from the beginning of a transaction's answers.
func (s *Store) lentIn(cluster string, resp *clientv3.TxnResponse) (l lent, err error) {
	at := func(i int) []*mvccpb.KeyValue { return resp.Responses[i].GetResponseRange().Kvs }
	l = lent{keys: s.keys, cluster: cluster, revision: resp.Header.Revision}
	if l.identity, l.mod, err = s.decodeIdentity(cluster, at(0)); err != nil {
		return l, err
	}
	tasks := s.keys.request(cluster, taskOf(""))
	for _, kv := range at(1) {
		var r Request
		var t cke.Task
		id, err := url.PathUnescape(strings.TrimPrefix(string(kv.Key), tasks))
		if err != nil || !below(string(kv.Key), tasks) {
			continue
		}
		if decode(string(kv.Key), kv.Value, &r) != nil || json.Unmarshal(r.Args, &t) != nil || t.Kind == cke.TaskRestore { // one that cannot be read may be one
			l.orders = append(l.orders, id)
		}
	}
	for _, kv := range at(2) {
		l.secrets = append(l.secrets, string(kv.Key))
	}
	return l, nil
}

// open are the orders that are in the store, and the restores under way that may need a key.
func (l lent) open() []string {
	ids := slices.Clone(l.orders)
	for _, r := range l.identity.Restores() {
		ids = append(ids, r.ID)
	}
	return ids
}

// over are the operations that remove all that was lent for orders that are neither in the store, except for the one that ends now, nor
// under way. Such an order never needs its key again: its id is used once, and its key comes with it in one transaction. What an
// earlier version lent for all orders goes with the last one.
func (l lent) over(ends string) (ops []clientv3.Op) {
	l.orders = slices.DeleteFunc(slices.Clone(l.orders), func(id string) bool { return id == ends })
	needed := l.open()
	var keep []string
	for _, id := range needed {
		keep = append(keep, l.keys.secret(l.cluster, lentFor(id)))
	}
	shared := l.keys.secret(l.cluster, secretRestoreKey)
	for _, key := range l.secrets {
		mine := key == shared || below(key, l.keys.secret(l.cluster, lentFor("")))
		if mine && !slices.Contains(keep, key) && (key != shared || len(needed) == 0) && len(ops) < maxOps/2 {
			ops = append(ops, clientv3.OpDelete(key))
		}
	}
	return ops
}

// unchanged are the conditions under which what over removes is still over: no restore was recorded, canceled or started, and none was
// lent a key.
func (l lent) unchanged() []clientv3.Cmp {
	r := under(l.keys.secret(l.cluster, secretRestoreKey))
	return []clientv3.Cmp{unchanged(l.keys.incarnation(l.cluster), l.mod), unwritten(r.start, l.revision).WithRange(r.end)}
}
