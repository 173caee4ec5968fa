package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// BeginRestore implements cke.Ledger.
func (t *Term) BeginRestore(ctx context.Context, inc cke.Incarnation) error {
	tried := "record the restore of " + t.cluster
	if inc.Restore == nil {
		return fmt.Errorf("%s: no restore is requested: %w", tried, cke.ErrConflict)
	}
	// The request is removed once the operator was told that it failed: a transaction that lands after that changes nothing.
	asked := t.s.keys.request(t.cluster, taskOf(inc.Restore.ID))
	// Nor does one of a cluster that is being deleted: of one that was declared, the members are not stopped for that.
	return t.changeIdentity(ctx, tried, asked, func(id cke.Identity) (cke.Identity, error) {
		if id.Incarnation.Life(inc.ID) {
			return id, nil // a former attempt, whose answer was lost
		}
		return id.Restoring(inc)
	})
}

// CancelRestore implements cke.Ledger. It also removes the order and the key that was lent for it: a completed order
// that is still in the store would be started again.
func (t *Term) CancelRestore(ctx context.Context, inc cke.Incarnation) error {
	tried := "cancel the restore of " + t.cluster
	var order []clientv3.Op
	if inc.Restore != nil {
		task := inc.Restore.ID
		order = append(order, clientv3.OpDelete(t.s.keys.request(t.cluster, taskOf(task))), clientv3.OpDelete(t.s.keys.secret(t.cluster, lentFor(task))))
	}
	return t.changeIdentity(ctx, tried, "", func(id cke.Identity) (cke.Identity, error) {
		if id.Incarnation.WasAbandoned(inc.ID) {
			return id, nil // a former attempt, whose answer was lost
		}
		return id.RestoreCancelled(inc)
	}, order...)
}

// changeIdentity puts another identity in the place of the present one, in one transaction that fails if that changed
// meanwhile, or if the request at the key asked is gone or a deletion is requested (""; it depends on neither), with further writes.
// Comparisons of the members of the one before are dropped.
func (t *Term) changeIdentity(ctx context.Context, tried, asked string, change func(cke.Identity) (cke.Identity, error), more ...clientv3.Op) error {
	r := under(t.s.keys.identity(t.cluster))
	reads := []clientv3.Op{clientv3.OpGet(r.start, r.options()...)}
	if asked != "" {
		reads = append(reads, clientv3.OpGet(asked, clientv3.WithKeysOnly()), clientv3.OpGet(t.s.keys.spec(t.cluster)))
	}
	return t.retry(ctx, func(ctx context.Context) error {
		resp, err := t.read(ctx, tried, reads...)
		if err != nil {
			return err
		}
		id, _, err := t.s.decodeIdentity(t.cluster, resp.Responses[0].GetResponseRange().Kvs)
		if err != nil {
			return fmt.Errorf("%s: %w", tried, err)
		}
		next, err := change(id)
		if err != nil {
			return fmt.Errorf("%s: %w", tried, err)
		}
		ops, err := t.identityChanges(ctx, id, next)
		if err != nil || len(ops) == 0 {
			return t.s.fail(tried, err)
		}
		conditions := []clientv3.Cmp{unwritten(r.start, resp.Header.Revision).WithRange(r.end)}
		if asked != "" {
			if len(resp.Responses[1].GetResponseRange().Kvs) == 0 {
				return fmt.Errorf("%s: the request was withdrawn: %w", tried, cke.ErrConflict)
			}
			conditions = append(conditions, present(asked))
			for _, kv := range resp.Responses[2].GetResponseRange().Kvs {
				var spec cke.Spec
				if err := decode(string(kv.Key), kv.Value, &spec); err != nil {
					return fmt.Errorf("%s: %w", tried, err)
				}
				if spec.Deleting() {
					return fmt.Errorf("%s: its deletion is requested: %w", tried, cke.ErrConflict)
				}
				conditions = append(conditions, unchanged(string(kv.Key), kv.ModRevision))
			}
		}
		return t.write(ctx, tried, conditions, append(ops, more...)...)
	})
}

// identityChanges are the writes that turn an identity into another one; none when they are of one life.
func (t *Term) identityChanges(ctx context.Context, id, next cke.Identity) ([]clientv3.Op, error) {
	if next.Incarnation == id.Incarnation {
		return nil, nil
	}
	k := t.s.keys
	op, err := put(k.incarnation(t.cluster), next.Incarnation)
	if err != nil {
		return nil, err
	}
	ops := []clientv3.Op{op, clientv3.OpDelete(k.compared(t.cluster))}
	frozen := clientv3.OpDelete(k.freeze(t.cluster))
	if next.Freeze != nil {
		if frozen, err = put(k.freeze(t.cluster), next.Freeze); err != nil {
			return nil, err
		}
	}
	ops = append(ops, frozen)
	before, changed := map[cke.JoinID]cke.Join{}, []cke.Join(nil)
	for _, j := range slices.Concat(id.Joins, id.Ended) {
		before[j.ID] = j
	}
	for _, j := range slices.Concat(next.Joins, next.Ended) {
		old, there := before[j.ID]
		delete(before, j.ID)
		if there && reflect.DeepEqual(old, j) {
			continue
		}
		changed = append(changed, j)
	}
	joins, err := t.s.putJoins(ctx, t.cluster, id, changed)
	if err != nil {
		return nil, err
	}
	ops = append(ops, joins...)
	for join := range before {
		ops = append(ops, clientv3.OpDelete(k.join(t.cluster, string(join))))
	}
	return ops, nil
}

// RestoreAsked are the additions to a restore order.
type RestoreAsked struct {
	// Key are age identities that open the backups, as in a file; empty: they are not encrypted.
	Key []byte
	// Declare is a cluster that is not in the store yet: it is declared in the same transaction, so that it is never
	// bootstrapped instead. Nil: the cluster exists.
	Declare *Declared
}

// Declared is a cluster to restore.
type Declared struct {
	Cluster cke.Cluster
	Source  []byte // text of its file
	// Etcd is the release that the cluster ran, used if the file names none; zero: unknown.
	Etcd cke.Release
	// Secrets and HostKeys are the former ones, by name and by node address.
	Secrets  map[string][]byte
	HostKeys map[string]string
	// SSHKeys are private keys by node ("": of the cluster), at most MostDeclaredKeys.
	SSHKeys map[string][]byte
	// Identity is the cluster's identity in another store; zero: unknown.
	Identity cke.Identity
}

// MostDeclaredKeys is how many SSH keys the transaction that declares a cluster has room for: etcd takes 128 operations.
const MostDeclaredKeys = 64

// AskRestore requests a restore of the cluster. ErrNotFound: there is no such cluster. ErrConflict: it was to be
// declared and exists already.
func (s *Store) AskRestore(ctx context.Context, cluster string, t cke.Task, asked RestoreAsked) error {
	if err := checkName(cluster); err != nil {
		return err
	}
	tried := "ask for a restore of " + cluster
	awaiting := cke.Identity{}
	if asked.Declare != nil {
		awaiting = asked.Declare.Identity.Awaiting(t.At)
	}
	ops, err := s.restoreOps(ctx, cluster, t, asked, awaiting)
	if err != nil {
		return s.fail(tried, err)
	}
	guards := []clientv3.Cmp{present(s.keys.spec(cluster))}
	if asked.Declare != nil {
		if guards, err = s.lend(ctx, cluster, t, asked.Declare.HostKeys, slices.Concat(awaiting.Joins, awaiting.Ended)); err != nil {
			return s.fail(tried, err)
		}
	}
	resp, err := s.txn(ctx, guards, ops)
	switch {
	case err != nil:
		return s.fail(tried, err)
	case resp.Succeeded:
		return nil
	case asked.Declare == nil:
		return noCluster(cluster)
	}
	return &cke.Error{Code: cke.CodeConflict, What: fmt.Sprintf("cluster %s is already declared", cluster), Unchanged: true, Err: cke.ErrConflict,
		Try: "ckecli restore without --file"}
}

func (s *Store) restoreOps(ctx context.Context, cluster string, t cke.Task, asked RestoreAsked, awaiting cke.Identity) ([]clientv3.Op, error) {
	var ops []clientv3.Op
	add := func(key string, value any) error {
		op, err := put(key, value)
		ops = append(ops, op)
		return err
	}
	secret := func(name string, value []byte) error {
		key := s.keys.secret(cluster, name)
		b, err := s.seal(ctx, key, value)
		if err != nil {
			return err
		}
		return add(key, sealed{Name: name, Age: b})
	}
	args, err := json.Marshal(t)
	if err == nil {
		err = add(s.keys.request(cluster, taskOf(t.ID)), Request{Kind: taskOf(t.ID), Args: args, At: t.At, By: t.By})
	}
	if err == nil && len(asked.Key) > 0 {
		err = secret(lentFor(t.ID), asked.Key)
	}
	d := asked.Declare
	if err != nil || d == nil {
		return ops, err
	}
	first := cke.Spec{}.Following(d.Cluster, cke.Spec{Etcd: d.Etcd})
	first.Source, first.SetAt, first.SetBy = string(d.Source), t.At, t.By
	err = add(s.keys.spec(cluster), first)
	if err == nil {
		err = add(s.keys.incarnation(cluster), awaiting.Incarnation)
	}
	if err == nil && awaiting.Authorities.Recorded() {
		err = add(s.keys.authorities(cluster), awaiting.Authorities)
	}
	for name, value := range d.Secrets {
		if err == nil {
			err = secret(name, value)
		}
	}
	for node, pem := range d.SSHKeys {
		if err != nil {
			break
		}
		if err = checkKeyName(cluster, node); err == nil {
			var op clientv3.Op
			op, err = s.sealSSHKey(ctx, cluster, node, pem)
			ops = append(ops, op)
		}
	}
	return ops, err
}

// lent are the ranges that a restore fills before it declares its cluster.
func (k schema) lent(cluster string) []keyRange {
	return []keyRange{under(k.hostKeys(cluster)), under(k.joins(cluster))}
}

// lend writes the host keys and the memberships of a cluster that is about to be declared, of which there may be more than a transaction
// takes. Nothing reads them before it is: it is declared under the conditions returned, that nobody else has written such keys or
// declared the cluster since.
func (s *Store) lend(ctx context.Context, cluster string, t cke.Task, keys map[string]string, joins []cke.Join) ([]clientv3.Cmp, error) {
	lent := s.keys.lent(cluster)
	undeclared := absent(s.keys.spec(cluster))
	var ops []clientv3.Op
	for _, r := range lent {
		ops = append(ops, r.remove()) // those of an attempt that was cut off
	}
	last := int64(0)
	write := func(ops []clientv3.Op) error {
		resp, err := s.txn(ctx, []clientv3.Cmp{undeclared}, ops)
		if err == nil {
			last = resp.Header.Revision
		}
		return err
	}
	memberships, err := s.putJoins(ctx, cluster, cke.Identity{}, joins)
	if err == nil {
		err = write(ops)
	}
	if err != nil {
		return nil, err
	}
	ops = memberships
	for address, line := range keys {
		op, err := put(s.keys.hostKey(cluster, address), hostKey{Address: address, Line: line, PinnedAt: t.At})
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	for _, some := range batches(ops) {
		if err := write(some); err != nil {
			return nil, err
		}
	}
	guards := []clientv3.Cmp{undeclared}
	for _, r := range lent {
		guards = append(guards, unwritten(r.start, last).WithRange(r.end))
	}
	return guards, nil
}

// WithdrawRestore withdraws an order that failed, or that no daemon has started, with the key that was lent for it, unless that is for a
// restore under way; a missing order is no error. ErrConflict: its operation runs.
func (s *Store) WithdrawRestore(ctx context.Context, cluster, task string) error {
	if err := s.withdraw(ctx, cluster, task, true); !errors.Is(err, cke.ErrNotFound) {
		return err
	}
	return nil
}
