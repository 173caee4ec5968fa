package storage

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// Bounds of what is kept below each prefix of one cluster, checked where it grows. docs/store.md lists them by key.
const (
	// keptRecords is how many records of operations are kept.
	keptRecords = 500
	// keptRevisions is how many revisions of the spec are kept beside the present one.
	keptRevisions = 200
	// keptArchives is how many deletions of clusters of one name are kept.
	keptArchives = 20
	// keptDropped is how many ids an archive keeps of those that were dropped for it, of each kind: with about five ids of a deletion, the
	// archives of a name know its last 20,000 deletions.
	keptDropped = 5000
	// keptHostKeys is how many host keys of addresses are kept, pinned ones and offered ones each.
	keptHostKeys = 2000
	// maxRequests is how many requests of people may wait for the leader.
	maxRequests = 200
	// maxOps is how many operations a transaction has at most. etcd takes 128 (max-txn-ops) unless it is told otherwise.
	maxOps = 100
)

// batches splits operations into transactions that etcd takes.
func batches(ops []clientv3.Op) [][]clientv3.Op { return slices.Collect(slices.Chunk(ops, maxOps)) }

// room refuses what would be one too many below a prefix; another value of a key that is there is none more.
func (s *Store) room(ctx context.Context, prefix, key string, most int, what string) error {
	r := under(prefix)
	resp, err := s.txn(ctx, nil, []clientv3.Op{
		clientv3.OpGet(r.start, r.options(clientv3.WithCountOnly())...), clientv3.OpGet(key, clientv3.WithCountOnly())})
	if err != nil {
		return err
	}
	if resp.Responses[0].GetResponseRange().Count < int64(most) || resp.Responses[1].GetResponseRange().Count > 0 {
		return nil
	}
	return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("the store holds %d %s, which is the limit", most, what), Unchanged: true}
}

// oldest returns the keys below a prefix that are too many, those first that were written first.
func (s *Store) oldest(ctx context.Context, prefix string, most int) ([]clientv3.Op, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	r := under(prefix)
	resp, err := s.client.Get(ctx, r.start, r.options(clientv3.WithKeysOnly(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend))...)
	if err != nil {
		return nil, err
	}
	var ops []clientv3.Op
	for i := 0; i < len(resp.Kvs)-most && i < maxOps; i++ {
		ops = append(ops, clientv3.OpDelete(string(resp.Kvs[i].Key)))
	}
	return ops, nil
}
