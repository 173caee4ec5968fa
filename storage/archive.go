package storage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// Archive is what remains of a deleted cluster: enough to know what it was, and to open its backups.
type Archive struct {
	Cluster   string       `json:"cluster"`
	DeletedAt time.Time    `json:"deletedAt"`
	Spec      cke.Spec     `json:"spec"`
	Identity  cke.Identity `json:"identity"`
	// Ended are the ids of all ended memberships, also of those that Identity leaves out: marks on nodes may name them.
	Ended    []cke.JoinID      `json:"ended,omitempty"`
	HostKeys map[string]string `json:"hostKeys,omitempty"`
	// Dropped are the ids that archives named which this one took the place of: a target may have backups of them, and marks may name them.
	Dropped droppedIDs `json:"dropped,omitzero"`

	// Sealed are the cluster's secrets, sealed as they were.
	Sealed []sealed `json:"sealed,omitempty"`
}

// droppedIDs are what dropped archives add to an identity, the last keptDropped of each kind.
type droppedIDs struct {
	Deleted []string `json:"deleted,omitempty"`
	GaveUp  []string `json:"gaveUp,omitempty"`
}

// archiveTime names archives in the order of time.
const archiveTime = "20060102T150405.000000000Z"

// Deleted returns the archives of all deleted clusters, sorted by name and then by time.
func (s *Store) Deleted(ctx context.Context) ([]Archive, error) {
	archives, err := list[Archive](ctx, s, under(s.keys.deleted()))
	return archives, s.fail("read the archives of deleted clusters", err)
}

// Deleting implements cke.Ledger.
func (t *Term) Deleting(ctx context.Context) (bool, error) {
	spec, _, err := t.spec(ctx)
	return spec.Deleting(), err
}

// spec is what is wanted of the cluster, and the revision of its key; 0: it is not in the store.
func (t *Term) spec(ctx context.Context) (spec cke.Spec, mod int64, err error) {
	key := t.s.keys.spec(t.cluster)
	resp, err := t.read(ctx, "read the cluster file of "+t.cluster, clientv3.OpGet(key))
	if err != nil {
		return spec, 0, err
	}
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		mod, err = kv.ModRevision, decode(key, kv.Value, &spec)
	}
	return spec, mod, err
}

// SealDelete implements cke.Ledger.
func (t *Term) SealDelete(ctx context.Context) error {
	tried := "make the deletion of " + t.cluster + " final"
	return t.retry(ctx, func(ctx context.Context) error {
		spec, mod, err := t.spec(ctx)
		switch {
		case err != nil:
			return err
		case !spec.Deleting():
			return fmt.Errorf("%s: no deletion is requested: %w", tried, cke.ErrConflict)
		case !spec.DeleteSealedAt.IsZero():
			return nil
		}
		spec.DeleteSealedAt = time.Now().UTC()
		key := t.s.keys.spec(t.cluster)
		op, err := put(key, spec)
		if err != nil {
			return err
		}
		return t.write(ctx, tried, []clientv3.Cmp{unchanged(key, mod)}, op)
	})
}

// FinishDelete implements cke.Ledger. SSH keys, records and the log of revisions go with the cluster. ErrConflict: no
// deletion is requested.
func (t *Term) FinishDelete(ctx context.Context) error {
	err := t.retry(ctx, t.finishDelete)
	if err == nil {
		t.depose("the cluster was deleted")
	}
	return err
}

func (t *Term) finishDelete(ctx context.Context) error {
	tried := "archive " + t.cluster
	k, name := t.s.keys, t.cluster
	kept := []keyRange{under(k.cluster(name)), under(k.secrets(name))}
	var reads []clientv3.Op
	for _, r := range kept {
		reads = append(reads, clientv3.OpGet(r.start, r.options()...))
	}
	resp, err := t.read(ctx, tried, reads...)
	if err != nil {
		return err
	}
	a, err := t.s.archive(name, resp)
	if err != nil {
		return fmt.Errorf("%s: %w", tried, err)
	}
	older, dropped, err := t.s.dropArchives(ctx, name)
	if err != nil {
		return t.s.fail(tried, err)
	}
	a.Dropped = dropped
	op, err := put(k.archive(name, a.DeletedAt.Format(archiveTime)), a)
	if err != nil {
		return err
	}
	ops := append(older, op, clientv3.OpDelete(k.status(name)))
	for _, prefix := range []string{k.cluster(name), k.specLog(name), k.secrets(name), k.records(name), k.candidates(name), k.inventories(name)} {
		ops = append(ops, under(prefix).remove())
	}
	var asRead []clientv3.Cmp
	for _, r := range kept {
		asRead = append(asRead, clientv3.Compare(clientv3.ModRevision(r.start).WithRange(r.end), "<", resp.Header.Revision+1))
	}
	return t.commit(ctx, tried, asRead, clientv3.OpDelete(k.term(name)), ops)
}

// archive makes the archive out of what was read of a cluster at one revision.
func (s *Store) archive(cluster string, resp *clientv3.TxnResponse) (Archive, error) {
	a := Archive{Cluster: cluster, DeletedAt: time.Now().UTC(), HostKeys: map[string]string{}}
	var identity []*mvccpb.KeyValue
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		key := string(kv.Key)
		var pinned hostKey
		var err error
		switch {
		case key == s.keys.spec(cluster):
			err = decode(key, kv.Value, &a.Spec)
		case below(key, s.keys.identity(cluster)):
			identity = append(identity, kv)
		case below(key, s.keys.hostKeys(cluster)):
			err = decode(key, kv.Value, &pinned)
			a.HostKeys[pinned.Address] = pinned.Line
		}
		if err != nil {
			return a, err
		}
	}
	if !a.Spec.Deleting() {
		return a, fmt.Errorf("no deletion is requested: %w", cke.ErrConflict)
	}
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		var secret sealed
		if err := decode(string(kv.Key), kv.Value, &secret); err != nil {
			return a, err
		}
		if !isLent(secret.Name) {
			a.Sealed = append(a.Sealed, secret)
		}
	}
	var err error
	a.Identity, _, err = s.decodeIdentity(cluster, identity)
	for _, j := range a.Identity.Ended {
		a.Ended = append(a.Ended, j.ID)
	}
	a.Identity.Ended = bare(a.Identity)
	return a, err
}

// dropArchives returns what removes the archives of a name that one more makes too many, and the ids that only they name.
func (s *Store) dropArchives(ctx context.Context, name string) (remove []clientv3.Op, ids droppedIDs, err error) {
	if remove, err = s.oldest(ctx, s.keys.archives(name), keptArchives-1); err != nil || remove == nil {
		return nil, ids, err
	}
	reads := make([]clientv3.Op, len(remove))
	for i, op := range remove {
		reads[i] = clientv3.OpGet(string(op.KeyBytes()))
	}
	resp, err := s.commit(ctx, nil, reads)
	if err != nil {
		return nil, ids, err
	}
	var id cke.Identity
	for _, r := range resp.Responses {
		if err := addArchived(&id, r.GetResponseRange().Kvs); err != nil { // its ids are unknown to this cke in any case
			s.log.Warn("an archive is dropped that cannot be decoded", "cluster", name, "error", err)
		}
	}
	return remove, droppedIDs{s.newest(name, id.Deleted), s.newest(name, id.GaveUp)}, nil
}

// newest returns the last keptDropped of the ids of deleted clusters.
func (s *Store) newest(name string, ids []string) []string {
	if over := len(ids) - keptDropped; over > 0 {
		s.log.Warn("ids of clusters that were deleted long ago are forgotten: backups of them count as those of another cluster of the name", "cluster", name, "ids", over)
		return ids[over:]
	}
	return ids
}

// addArchived adds to an identity what archives name.
func addArchived(id *cke.Identity, kvs []*mvccpb.KeyValue) error {
	archives, err := decodeAll[struct {
		Identity cke.Identity `json:"identity"`
		Ended    []string     `json:"ended"`
		Dropped  droppedIDs   `json:"dropped"`
	}](kvs)
	for _, a := range archives {
		id.Deleted, id.GaveUp = append(id.Deleted, a.Dropped.Deleted...), append(id.GaveUp, a.Dropped.GaveUp...)
		id.AddArchived(a.Identity, a.Ended...)
	}
	return err
}

// bare are the ended memberships for the archive, of which stores of former versions may hold very many: those that are worth
// keeping, without how their members ran.
func bare(id cke.Identity) []cke.Join {
	kept := slices.DeleteFunc(id.Without(id.Forgettable()).Ended, func(j cke.Join) bool { return !j.RemovedAt.IsZero() })
	for i := range kept {
		kept[i].Etcd = cke.EtcdOptions{}
	}
	return kept
}
