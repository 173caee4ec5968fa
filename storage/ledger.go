package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// sortJoins orders by peer URL, as first members are.
func sortJoins(joins []cke.Join) {
	slices.SortFunc(joins, func(a, b cke.Join) int {
		return cmp.Or(cmp.Compare(a.PeerURL(), b.PeerURL()), cmp.Compare(a.ID, b.ID))
	})
}

// Identity returns the identity of the cluster. Joins are ordered by peer URL.
func (s *Store) Identity(ctx context.Context, cluster string) (cke.Identity, error) {
	if err := checkName(cluster); err != nil {
		return cke.Identity{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	r := under(s.keys.identity(cluster))
	resp, err := s.client.Get(ctx, r.start, r.options()...)
	if err != nil {
		return cke.Identity{}, s.fail("read the identity of "+cluster, err)
	}
	id, _, err := s.decodeIdentity(cluster, resp.Kvs)
	id.Revision = resp.Header.Revision
	if err != nil || !id.NeedsDeleted() {
		return id, err
	}
	r = under(s.keys.archives(cluster))
	if resp, err = s.client.Get(ctx, r.start, r.options()...); err != nil {
		return cke.Identity{}, s.fail("read the archives of "+cluster, err)
	}
	return id, addArchived(&id, resp.Kvs)
}

// Identity implements cke.Ledger. ErrDeposed once the term is over: a former leader must not act on what it reads.
func (t *Term) Identity(ctx context.Context) (cke.Identity, error) {
	id, _, err := t.identity(ctx)
	if err != nil || !id.NeedsDeleted() {
		return id, err
	}
	r := under(t.s.keys.archives(t.cluster))
	resp, err := t.read(ctx, "read the archives of "+t.cluster, clientv3.OpGet(r.start, r.options()...))
	if err != nil {
		return cke.Identity{}, err
	}
	return id, addArchived(&id, resp.Responses[0].GetResponseRange().Kvs)
}

// identity returns it as of a revision, and the mod revision of the incarnation.
func (t *Term) identity(ctx context.Context) (cke.Identity, int64, error) {
	r := under(t.s.keys.identity(t.cluster))
	resp, err := t.read(ctx, "read the identity of "+t.cluster, clientv3.OpGet(r.start, r.options()...))
	if err != nil {
		return cke.Identity{}, 0, err
	}
	id, mod, err := t.s.decodeIdentity(t.cluster, resp.Responses[0].GetResponseRange().Kvs)
	id.Revision = resp.Header.Revision
	return id, mod, err
}

// decodeIdentity also returns the mod revision of the incarnation, 0 without one. Unlike a mirror it leaves nothing
// out: decisions on half an identity would be wrong ones.
func (s *Store) decodeIdentity(cluster string, kvs []*mvccpb.KeyValue) (id cke.Identity, mod int64, err error) {
	for _, kv := range kvs {
		switch key := string(kv.Key); {
		case key == s.keys.incarnation(cluster):
			id.Incarnation, mod = new(cke.Incarnation), kv.ModRevision
			err = decode(key, kv.Value, id.Incarnation)
		case key == s.keys.freeze(cluster):
			id.Freeze = new(cke.Freeze)
			err = decode(key, kv.Value, id.Freeze)
		case key == s.keys.compared(cluster):
			id.Compared = new(cke.Comparison)
			err = decode(key, kv.Value, id.Compared)
		case key == s.keys.authorities(cluster):
			err = decode(key, kv.Value, &id.Authorities)
		case below(key, s.keys.joins(cluster)):
			var j cke.Join
			err = decode(key, kv.Value, &j)
			id.Joins = append(id.Joins, j)
		}
		if err != nil {
			return cke.Identity{}, 0, undecoded(string(kv.Key), err)
		}
	}
	sortJoins(id.Joins)
	sorted := cke.NewIdentity(id.Incarnation, id.Joins)
	sorted.Freeze, sorted.Compared, sorted.Authorities = id.Freeze, id.Compared, id.Authorities
	return sorted, mod, nil
}

// CreateIncarnation implements cke.Ledger.
func (t *Term) CreateIncarnation(ctx context.Context, inc cke.Incarnation) error {
	tried := "create an incarnation of " + t.cluster
	id, mod, err := t.identity(ctx)
	if err != nil {
		return err
	}
	if now := id.Incarnation; now != nil {
		if now.ID == inc.ID {
			return nil // a former attempt, whose answer was lost
		}
		if now.State != cke.Abandoned {
			return fmt.Errorf("%s: it has %s (%s): %w", tried, now.ID, now.State, cke.ErrConflict)
		}
	}
	key := t.s.keys.incarnation(t.cluster)
	op, err := put(key, inc)
	if err != nil {
		return err
	}
	founders, err := t.s.putJoins(ctx, t.cluster, id, inc.Founders)
	if err != nil {
		return t.s.fail(tried, err)
	}
	ops := append(founders, op)
	ops = append(ops, clientv3.OpDelete(t.s.keys.freeze(t.cluster)), clientv3.OpDelete(t.s.keys.compared(t.cluster)))
	var old []clientv3.Op
	for _, j := range id.Ended {
		old = append(old, clientv3.OpDelete(t.s.keys.join(t.cluster, string(j.ID))))
	}
	for _, j := range id.Joins {
		ops = append(ops, clientv3.OpDelete(t.s.keys.join(t.cluster, string(j.ID))))
	}
	for _, some := range batches(old) { // of an abandoned life: nobody needs them, whatever comes of this
		if err = t.write(ctx, tried, []clientv3.Cmp{unchanged(key, mod)}, some...); err != nil {
			break
		}
	}
	if err == nil {
		r := under(t.s.keys.identity(t.cluster)) // with all that is removed here
		err = t.write(ctx, tried, []clientv3.Cmp{unchanged(key, mod), unwritten(r.start, id.Revision).WithRange(r.end)}, ops...)
	}
	if errors.Is(err, errChanged) {
		return fmt.Errorf("%s: another one was created meanwhile: %w", tried, cke.ErrConflict)
	}
	return err
}

// UpdateIncarnation implements cke.Ledger. ErrConflict: inc is not the current incarnation, or its state cannot
// follow the current one.
func (t *Term) UpdateIncarnation(ctx context.Context, inc cke.Incarnation) error {
	tried := "update the incarnation of " + t.cluster
	return t.retry(ctx, func(ctx context.Context) error {
		id, mod, err := t.identity(ctx)
		if err != nil {
			return err
		}
		now := id.Incarnation
		if now == nil || now.ID != inc.ID {
			return fmt.Errorf("%s: %s is not the current one: %w", tried, inc.ID, cke.ErrConflict)
		}
		if !now.MayBecome(inc) {
			return fmt.Errorf("%s: %s cannot become %s: %w", tried, now.State, inc.State, cke.ErrConflict)
		}
		next := now.With(inc)
		key := t.s.keys.incarnation(t.cluster)
		op, err := put(key, next)
		if err != nil {
			return err
		}
		return t.write(ctx, tried, []clientv3.Cmp{unchanged(key, mod)}, op)
	})
}

// PutJoins implements cke.Ledger. ErrConflict: also if one of them belongs to another incarnation than was read. It
// does not retry on a newer read, which only the caller can judge: a write that was given up must not be done after
// the next. CodeSchema: one is put aside, and an older daemon that may lead would start its member again.
func (t *Term) PutJoins(ctx context.Context, read cke.Identity, joins ...cke.Join) error {
	tried := "store memberships of " + t.cluster
	k := t.s.keys
	guards := []clientv3.Cmp{present(k.incarnation(t.cluster)), unwritten(k.incarnation(t.cluster), read.Revision)}
	for _, j := range joins {
		if !read.Incarnation.Keeps(j) {
			return fmt.Errorf("%s: %s belongs to incarnation %s: %w", tried, j.ID, j.Incarnation, cke.ErrConflict)
		}
		if read.Has(j.ID) {
			guards = append(guards, unwritten(k.join(t.cluster, string(j.ID)), read.Revision))
		} else { // one that was given up is not to stand beside the one that was made in its place
			r := under(k.joins(t.cluster))
			guards = append(guards, unwritten(r.start, read.Revision).WithRange(r.end))
		}
	}
	ops, err := t.s.putJoins(ctx, t.cluster, read, joins)
	if err != nil {
		return t.s.fail(tried, err)
	}
	for _, id := range read.With(joins).Forgettable() {
		if len(ops) < maxOps { // the rest goes with later writes
			ops = append(ops, clientv3.OpDelete(k.join(t.cluster, string(id))))
		}
	}
	err = t.write(ctx, tried, guards, ops...)
	if errors.Is(err, errChanged) {
		return fmt.Errorf("%s: they were written meanwhile: %w", tried, cke.ErrConflict)
	}
	return err
}

// putJoins are the writes of memberships of a cluster, whose identity before is given; all go through here. CodeSchema: one is put
// aside that was not, and an older daemon that may lead would start its member again.
func (s *Store) putJoins(ctx context.Context, cluster string, before cke.Identity, joins []cke.Join) (ops []clientv3.Op, err error) {
	if before.PutsAside(joins) {
		if err := s.needs(ctx, schemaWrong, "putting a member aside"); err != nil {
			return nil, err
		}
	}
	for _, j := range joins {
		op, err := put(s.keys.join(cluster, string(j.ID)), j)
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// PutFreeze implements cke.Ledger.
func (t *Term) PutFreeze(ctx context.Context, f cke.Freeze) error {
	tried := "record a freeze of " + t.cluster
	return t.retry(ctx, func(ctx context.Context) error {
		id, mod, err := t.identity(ctx)
		if err != nil {
			return err
		}
		if err := id.Freeze.Precedes(f); err != nil {
			return fmt.Errorf("%s: %w", tried, err)
		}
		key := t.s.keys.freeze(t.cluster)
		op, err := put(key, f)
		if err != nil {
			return err
		}
		return t.write(ctx, tried, []clientv3.Cmp{unchanged(t.s.keys.incarnation(t.cluster), mod), unwritten(key, id.Revision)}, op)
	})
}

// PutComparison implements cke.Ledger.
func (t *Term) PutComparison(ctx context.Context, c cke.Comparison) error {
	op, err := put(t.s.keys.compared(t.cluster), c)
	if err != nil {
		return err
	}
	return t.write(ctx, "record a comparison of "+t.cluster, nil, op)
}

// retry runs what reads and then writes until nothing changed in between.
func (t *Term) retry(ctx context.Context, f func(context.Context) error) error {
	for {
		if err := f(ctx); !errors.Is(err, errChanged) {
			return err
		}
	}
}
