package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// maxSpec leaves room for what an archive holds beside the spec, below etcd's limit of 1.5 MiB for a request.
const maxSpec = 1 << 20 // bytes

// SetOptions bound what SetSpec may do.
type SetOptions struct {
	// IfGeneration is the revision that the caller changed; 0: there is no such cluster yet. Nil: any.
	IfGeneration *int64
	// IfSource is the text that the caller changed: another text of the same meaning keeps its revision. Nil: any.
	IfSource *string
	// As is the earlier revision to which the cluster returns: what the file leaves out is as it was then. Nil: as it
	// is.
	As *cke.Spec
	// Cause is why an inventory led to the revision.
	Cause cke.InventoryCause
	// Interrupt: the operator accepts an interruption of service, see cke.Requests.
	Interrupt bool
}

// Clusters returns the names of all clusters, sorted.
func (s *Store) Clusters(ctx context.Context) ([]string, error) {
	return s.having(ctx, "spec", "list clusters")
}

// having returns the names of clusters, sorted, of which the store has a document.
func (s *Store) having(ctx context.Context, document, tried string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	r := under(s.keys.clusters())
	resp, err := s.client.Get(ctx, r.start, r.options(clientv3.WithKeysOnly())...)
	if err != nil {
		return nil, s.fail(tried, err)
	}
	var names []string
	for _, kv := range resp.Kvs {
		if name, rest := clusterOf(string(kv.Key), s.keys.clusters()); rest == document {
			names = append(names, name)
		}
	}
	return names, nil
}

// Spec returns the declared cluster, with its release. ErrNotFound: there is no such cluster.
func (s *Store) Spec(ctx context.Context, cluster string) (cke.Spec, error) {
	spec, _, err := s.spec(ctx, cluster)
	return spec, err
}

// Spec is Store.Spec for the leader daemon, and stores the release of a revision that has none yet.
func (t *Term) Spec(ctx context.Context) (cke.Spec, error) {
	var spec cke.Spec
	err := t.retry(ctx, func(ctx context.Context) error {
		stored, mod, err := t.s.storedSpec(ctx, t.cluster)
		if err != nil {
			return err
		}
		if spec, err = t.s.resolved(ctx, stored); err != nil || stored.Etcd == spec.Etcd {
			return err
		}
		key := t.s.keys.spec(t.cluster)
		op, err := put(key, spec)
		if err != nil {
			return err
		}
		return t.write(ctx, "store the declared release of "+t.cluster, []clientv3.Cmp{unchanged(key, mod)}, op)
	})
	return spec, err
}

func (s *Store) spec(ctx context.Context, cluster string) (cke.Spec, int64, error) {
	spec, mod, err := s.storedSpec(ctx, cluster)
	if err != nil {
		return spec, mod, err
	}
	spec, err = s.resolved(ctx, spec)
	return spec, mod, err
}

// resolved returns a revision with its release: one that an older cke stored may have none.
func (s *Store) resolved(ctx context.Context, spec cke.Spec) (cke.Spec, error) {
	if spec.Etcd != (cke.Release{}) {
		return spec, nil
	}
	id, err := s.Identity(ctx, spec.Cluster.Name)
	return spec.Resolved(id), err
}

func (s *Store) storedSpec(ctx context.Context, cluster string) (spec cke.Spec, mod int64, err error) {
	if err := checkName(cluster); err != nil {
		return spec, 0, err
	}
	mod, err = s.get(ctx, s.keys.spec(cluster), &spec)
	if errors.Is(err, cke.ErrNotFound) {
		return spec, 0, noCluster(cluster)
	}
	if errors.Is(err, cke.ErrMalformed) {
		err = undecoded(s.keys.spec(cluster), err)
	}
	return spec, mod, s.fail("read the cluster file of "+cluster, err)
}

func noCluster(cluster string) error {
	return &cke.Error{Code: cke.CodeCluster, What: "there is no cluster " + cluster, Unchanged: true,
		Try: "ckecli cluster list", Err: cke.ErrNotFound}
}

// putOf commits a write of what is of a cluster, or of all clusters (""). ErrNotFound: there is no such cluster.
func (s *Store) putOf(ctx context.Context, cluster, tried string, op clientv3.Op) error {
	var there []clientv3.Cmp
	if cluster != "" {
		there = append(there, present(s.keys.spec(cluster)))
	}
	resp, err := s.txn(ctx, there, []clientv3.Op{op})
	if err != nil {
		return s.fail(tried, err)
	}
	if !resp.Succeeded {
		return noCluster(cluster)
	}
	return nil
}

// SetSpec stores the declared cluster and returns it as stored. c is without defaults; source is its text; by is
// user@host.
//
// A c with the same meaning as the stored one makes no new revision; another text of it replaces the stored text.
// ErrConflict: the revision is not the expected one, or the cluster is being deleted. CodeSchema: see MayWrite; that comes first.
func (s *Store) SetSpec(ctx context.Context, cluster string, c cke.Cluster, source []byte, by string, opts SetOptions) (cke.Spec, error) {
	if c.Name != cluster {
		return cke.Spec{}, &cke.Error{Code: cke.CodeConfig, Unchanged: true,
			What: fmt.Sprintf("the file describes cluster %q, not %q", c.Name, cluster)}
	}
	if _, _, err := s.schema(ctx); err != nil {
		return cke.Spec{}, err
	}
	if err := s.MayWrite(); err != nil { // also where nothing would be written
		return cke.Spec{}, err
	}
	for {
		now, mod, err := s.spec(ctx, cluster)
		if err != nil && !errors.Is(err, cke.ErrNotFound) {
			return cke.Spec{}, err
		}
		if err := settable(cluster, now, opts); err != nil {
			return cke.Spec{}, err
		}
		was := now
		if opts.As != nil {
			was = *opts.As
		}
		next := now.Following(c, was)
		next.Source, next.SetAt, next.SetBy, next.Cause = string(source), time.Now().UTC(), by, opts.Cause
		if now.Generation > 0 {
			same, err := sameMeaning(now, next)
			if err != nil {
				return cke.Spec{}, err
			}
			if same && now.Source == next.Source && !opts.Interrupt {
				return now, nil
			}
			if same {
				next.Generation = now.Generation
			}
		}
		var as []clientv3.Cmp
		var more []clientv3.Op
		if opts.Cause != "" {
			if as, more, err = s.takeTurn(ctx, cluster, now.Cluster, c); err != nil {
				return cke.Spec{}, s.fail("store the cluster file of "+cluster, err)
			}
		}
		if now.Generation == 0 { // a restore whose declaration was cut off may have left host keys and memberships
			for _, r := range s.keys.lent(cluster) {
				more = append(more, r.remove())
			}
		}
		if opts.Interrupt {
			op, err := s.request(cluster, requestInterrupt, by, applyRequest{next.Generation})
			if err != nil {
				return cke.Spec{}, err
			}
			more = append(more, op)
		}
		done, err := s.putSpec(ctx, cluster, now, next, mod, as, more...)
		if err != nil {
			return cke.Spec{}, s.fail("store the cluster file of "+cluster, err)
		}
		if done {
			return next, nil
		}
	}
}

func settable(cluster string, now cke.Spec, opts SetOptions) error {
	if now.Deleting() {
		return &cke.Error{Code: cke.CodeConflict, What: fmt.Sprintf("cluster %s is being deleted", cluster),
			Facts:     []string{fmt.Sprintf("%s requested it at %s", now.DeleteRequestedBy, now.DeleteRequestedAt.Format(time.RFC3339))},
			Unchanged: true, Err: cke.ErrConflict}
	}
	e := &cke.Error{Code: cke.CodeConflict, Unchanged: true, Try: "ckecli cluster get", Err: cke.ErrConflict}
	switch {
	case opts.IfGeneration != nil && *opts.IfGeneration != now.Generation:
		e.What = fmt.Sprintf("cluster %s has revision %d, not %d", cluster, now.Generation, *opts.IfGeneration)
	case opts.IfSource != nil && *opts.IfSource != now.Source:
		e.What = fmt.Sprintf("the text of revision %d of cluster %s has changed meanwhile, with the same meaning", now.Generation, cluster)
	default:
		return nil
	}
	if now.Generation > 0 {
		e.Facts = []string{fmt.Sprintf("set by %s at %s", now.SetBy, now.SetAt.Format(time.RFC3339))}
	}
	return e
}

// sameMeaning compares with defaults filled in: writing one down changes nothing.
func sameMeaning(a, b cke.Spec) (bool, error) {
	x, err := json.Marshal(a.Wanted())
	if err != nil {
		return false, err
	}
	y, err := json.Marshal(b.Wanted())
	return string(x) == string(y), err
}

// putSpec stores next in place of now, which has this mod revision, unless somebody was faster. A revision that is
// about to be replaced goes into the log first: whatever happens in between, none is missing, and each request carries
// one document. as are conditions, and more is written with next.
func (s *Store) putSpec(ctx context.Context, cluster string, now, next cke.Spec, mod int64, as []clientv3.Cmp, more ...clientv3.Op) (bool, error) {
	log, current, err := s.revised(cluster, now, next)
	if err != nil {
		return false, err
	}
	as = append(as, unchanged(s.keys.spec(cluster), mod))
	if log != nil {
		resp, err := s.txn(ctx, as, log)
		if err != nil || !resp.Succeeded {
			return false, err
		}
	}
	resp, err := s.txn(ctx, as, append(more, current))
	if err != nil {
		return false, err
	}
	return resp.Succeeded, nil
}

// revised is what stores next in place of now: first log, if now goes into it, then current.
func (s *Store) revised(cluster string, now, next cke.Spec) (log []clientv3.Op, current clientv3.Op, err error) {
	current, err = put(s.keys.spec(cluster), next)
	if err != nil {
		return nil, current, err
	}
	if size := len(current.ValueBytes()); size > maxSpec && !next.Deleting() {
		return nil, current, &cke.Error{Code: cke.CodeConfig, What: fmt.Sprintf("the file of cluster %s is too large for the store", cluster),
			Facts: []string{fmt.Sprintf("stored, with its text, it takes %d KiB; %d KiB are allowed", size>>10, maxSpec>>10)}, Unchanged: true}
	}
	if now.Generation <= 0 || next.Generation <= now.Generation {
		return nil, current, nil
	}
	entry, err := put(s.keys.specRevision(cluster, now.Generation), now)
	log = []clientv3.Op{entry}
	if oldest := now.Generation - keptRevisions; oldest > 0 {
		log = append(log, clientv3.OpDelete(s.keys.specRevision(cluster, 0), clientv3.WithRange(s.keys.specRevision(cluster, oldest+1))))
	}
	return log, current, err
}

// SpecLog returns the newest revisions, at most keptRevisions beside the current one, newest first. ErrNotFound:
// there is no such cluster.
func (s *Store) SpecLog(ctx context.Context, cluster string) ([]cke.Spec, error) {
	tried := "read the revisions of " + cluster
	now, _, err := s.spec(ctx, cluster)
	if err != nil {
		return nil, err
	}
	// What was replaced since, and the copy of a revision that was about to be, are not older than what we saw.
	older := keyRange{s.keys.specRevision(cluster, 0), s.keys.specRevision(cluster, now.Generation)}
	log, err := list[cke.Spec](ctx, s, older, newestFirst())
	if err != nil {
		return nil, s.fail(tried, err)
	}
	return append([]cke.Spec{now}, log...), nil
}

func newestFirst() clientv3.OpOption {
	return clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend)
}

// RequestDelete requests the deletion of the cluster, which does not wait for the destroyed nodes. A repeated request
// adds its destroyed nodes to the earlier ones; what was seen of them before counts no more.
func (s *Store) RequestDelete(ctx context.Context, cluster, by string, destroyed ...cke.Destroyed) error {
	return s.requestDelete(ctx, cluster, by, false, destroyed)
}

// DeleteDeclaration is RequestDelete of a cluster that is only declared to be restored: its members are not stopped. ErrConflict: a
// restore was started.
func (s *Store) DeleteDeclaration(ctx context.Context, cluster, by string, destroyed ...cke.Destroyed) error {
	return s.requestDelete(ctx, cluster, by, true, destroyed)
}

func (s *Store) requestDelete(ctx context.Context, cluster, by string, declaration bool, destroyed []cke.Destroyed) error {
	tried := "request the deletion of " + cluster
	for {
		spec, mod, err := s.spec(ctx, cluster)
		if err != nil {
			return err
		}
		asked := spec
		asked.Destroyed, asked.DestroyedIDs = slices.Clone(spec.Destroyed), nil
		if spec.Deleting() { // an earlier cke that canceled a deletion has left its ids
			asked.DestroyedIDs = slices.Clone(spec.DestroyedIDs)
		}
		for _, n := range destroyed {
			asked.Destroyed, asked.DestroyedIDs = cke.With(asked.Destroyed, n.Name), cke.With(asked.DestroyedIDs, n.IDs...)
		}
		var again []clientv3.Op // who names a node again knows of what was seen
		if spec.Deleting() {
			for _, n := range destroyed {
				again = append(again, clientv3.OpDelete(s.keys.sighting(cluster, spec.DeletionID(), n.Name)))
			}
			if again == nil {
				return nil
			}
		}
		if !spec.Deleting() {
			asked.DeleteRequestedAt, asked.DeleteRequestedBy = time.Now().UTC(), by
		}
		var still []clientv3.Cmp
		if declaration {
			key := s.keys.incarnation(cluster)
			resp, err := s.client.Get(ctx, key)
			if err != nil {
				return s.fail(tried, err)
			}
			var inc cke.Incarnation
			for _, kv := range resp.Kvs {
				if err := decode(key, kv.Value, &inc); err != nil {
					return fmt.Errorf("%s: %w", tried, err)
				}
				still = append(still, unchanged(key, kv.ModRevision))
			}
			if inc.State != cke.Awaiting {
				return fmt.Errorf("%s: a restore was started: %w", tried, cke.ErrConflict)
			}
		}
		done, err := s.putSpec(ctx, cluster, spec, asked, mod, still, again...)
		if err != nil || done {
			return s.fail(tried, err)
		}
	}
}

// CancelDelete withdraws the request to delete the cluster, which is possible until SealDelete. ErrNotFound: there is
// no such cluster, or no longer. ErrConflict: no deletion is requested, or it is sealed.
func (s *Store) CancelDelete(ctx context.Context, cluster string) error {
	tried := "cancel the deletion of " + cluster
	for {
		spec, mod, err := s.spec(ctx, cluster)
		if errors.Is(err, cke.ErrNotFound) {
			return s.deletedAt(ctx, cluster, err)
		}
		if err != nil {
			return err
		}
		if !spec.Deleting() {
			return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("cluster %s is not being deleted", cluster), Unchanged: true, Err: cke.ErrConflict}
		}
		if !spec.DeleteSealedAt.IsZero() {
			return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("the deletion of cluster %s can no longer be canceled", cluster), Unchanged: true, Err: cke.ErrConflict,
				Facts: []string{"its members were stopped and removed, and its end is being marked on its nodes; its volumes are kept"}, Try: "ckecli cluster delete " + cluster}
		}
		spec.DeleteRequestedAt, spec.DeleteRequestedBy, spec.Destroyed, spec.DestroyedIDs = time.Time{}, "", nil, nil
		done, err := s.putSpec(ctx, cluster, spec, spec, mod, nil)
		if err != nil || done {
			return s.fail(tried, err)
		}
	}
}

// deletedAt returns when a cluster that is not there was deleted, and what is left of it; none if it never was.
func (s *Store) deletedAt(ctx context.Context, cluster string, none error) error {
	archives, err := list[Archive](ctx, s, under(s.keys.archives(cluster)))
	if err != nil || len(archives) == 0 {
		return errors.Join(s.fail("read the archives of "+cluster, err), none)
	}
	last := archives[len(archives)-1]
	return &cke.Error{Code: cke.CodeCluster, What: fmt.Sprintf("cluster %s was deleted at %s, and that cannot be undone", cluster, last.DeletedAt.Format(time.RFC3339)),
		Facts: []string{"its volumes are still on its nodes; no daemon manages them"}, Try: "ckecli restore", Unchanged: true, Err: cke.ErrNotFound}
}
