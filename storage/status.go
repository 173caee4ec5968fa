package storage

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// Status returns what the leader daemon last reported. ErrNotFound: no report yet.
func (s *Store) Status(ctx context.Context, cluster string) (cke.Status, error) {
	var status cke.Status
	if err := checkName(cluster); err != nil {
		return status, err
	}
	_, err := s.get(ctx, s.keys.status(cluster), &status)
	return status, s.fail("read the status of "+cluster, err)
}

// Statuses returns what the leader daemons last reported, as it is stored: a cke.Status in JSON for each cluster that has one.
func (s *Store) Statuses(ctx context.Context) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	prefix := s.keys.status("")
	r := under(prefix)
	resp, err := s.client.Get(ctx, r.start, r.options()...)
	if err != nil {
		return nil, s.fail("read the statuses", err)
	}
	texts := make(map[string][]byte, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		texts[strings.TrimPrefix(string(kv.Key), prefix)] = kv.Value
	}
	return texts, nil
}

// WatchStatus delivers the status at once, if there is one, and then whenever the leader daemon has reported another.
// A slow reader misses what lies between, never the newest. The channel closes when ctx or the store is done.
func (s *Store) WatchStatus(ctx context.Context, cluster string) <-chan cke.Status {
	return latest(ctx, s, func(ctx context.Context, emit func(cke.Status)) {
		key := s.keys.status(cluster)
		mirror{s: s, ranges: []keyRange{one(key)}, changed: func(kvs map[string]*mvccpb.KeyValue, _ []string, _ int64) {
			var status cke.Status
			if s.read(kvs, key, &status) {
				emit(status)
			}
		}}.run(ctx)
	})
}

// Records returns the n newest records, newest first; n ≤ 0: all.
func (s *Store) Records(ctx context.Context, cluster string, n int) ([]cke.Record, error) {
	if err := checkName(cluster); err != nil {
		return nil, err
	}
	kvs, err := s.records(ctx, cluster, n)
	if err != nil {
		return nil, err
	}
	records := make([]cke.Record, 0, len(kvs))
	for _, kv := range kvs {
		r, err := s.decodeRecord(cluster, kv)
		if err != nil {
			s.log.Warn("a record is left out that cannot be decoded", "cluster", cluster, "record", r.ID, "error", err)
			continue
		}
		records = append(records, r)
	}
	return records, nil
}

// records reads the last n records, newest first; 0: all.
func (s *Store) records(ctx context.Context, cluster string, n int) ([]*mvccpb.KeyValue, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	r := under(s.keys.records(cluster))
	resp, err := s.client.Get(ctx, r.start, r.options(newestFirst(), clientv3.WithLimit(int64(max(n, 0))))...)
	if err != nil {
		return nil, s.fail("read the records of "+cluster, err)
	}
	return resp.Kvs, nil
}

// lastRecord returns the newest record, if there is one. Of one that cannot be decoded only the id is known.
func (s *Store) lastRecord(ctx context.Context, cluster string) (last []cke.Record, err error) {
	kvs, err := s.records(ctx, cluster, 1)
	for _, kv := range kvs {
		r, _ := s.decodeRecord(cluster, kv)
		last = append(last, r)
	}
	return last, err
}

// decodeRecord also returns the id and the cluster of a record that cannot be decoded.
func (s *Store) decodeRecord(cluster string, kv *mvccpb.KeyValue) (r cke.Record, err error) {
	key := string(kv.Key)
	if err := decode(key, kv.Value, &r); err != nil {
		id, _ := strconv.ParseInt(strings.TrimPrefix(key, s.keys.records(cluster)), 10, 64)
		return cke.Record{ID: id, Cluster: cluster}, err
	}
	return r, nil
}

// Record returns one record. ErrNotFound: there is none of that id, or no longer.
func (s *Store) Record(ctx context.Context, cluster string, id int64) (cke.Record, error) {
	var r cke.Record
	if err := checkName(cluster); err != nil {
		return r, err
	}
	_, err := s.get(ctx, s.keys.record(cluster, id), &r)
	return r, s.fail(fmt.Sprintf("read record %d of %s", id, cluster), err)
}

// WatchRecords delivers every record with a greater id than after: as it is now, in order of ids, and then again
// whenever it has changed. A slow reader misses what lies between two states of one record, never its newest, and
// never a record. The channel closes when ctx or the store is done.
func (s *Store) WatchRecords(ctx context.Context, cluster string, after int64) <-chan cke.Record {
	queue := func(pending []cke.Record, r cke.Record) []cke.Record {
		if i := slices.IndexFunc(pending, func(p cke.Record) bool { return p.ID == r.ID }); i >= 0 {
			pending[i] = r
			return pending
		}
		return append(pending, r)
	}
	return deliver(ctx, s, queue, func(ctx context.Context, emit func(cke.Record)) {
		prefix := s.keys.records(cluster)
		seen := map[string]int64{} // mod revisions, for lists after the first
		mirror{s: s, ranges: []keyRange{from(s.keys.record(cluster, after+1), prefix)},
			changed: func(kvs map[string]*mvccpb.KeyValue, keys []string, _ int64) {
				if keys == nil {
					keys = sortedKeys(kvs, prefix)
				}
				for _, key := range keys {
					var r cke.Record
					if kv := kvs[key]; kv != nil && kv.ModRevision > seen[key] && s.read(kvs, key, &r) {
						seen[key] = kv.ModRevision
						emit(r)
					}
				}
			}}.run(ctx)
	})
}
