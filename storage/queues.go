package storage

import (
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// queues is this process's view of who leads and who waits, in all clusters. It only says when to look: what
// decides is a transaction.
type queues struct {
	mu sync.Mutex
	// rev is the revision that the view is of.
	rev int64
	// candidates are the create revisions of all candidates' keys, by cluster and key.
	candidates map[string]map[string]int64
	// changed is closed, and replaced, when the queue of a cluster has changed.
	changed map[string]chan struct{}
}

func (s *Store) watchQueues() *queues {
	q := &queues{candidates: map[string]map[string]int64{}, changed: map[string]chan struct{}{}}
	m := mirror{s: s, ranges: []keyRange{under(s.keys.leaders())}, changed: func(kvs map[string]*mvccpb.KeyValue, keys []string, rev int64) {
		q.update(s.keys.leaders(), kvs, keys, rev)
	}}
	s.spawn(func() { m.run(s.ctx) })
	return q
}

func (q *queues) update(prefix string, kvs map[string]*mvccpb.KeyValue, keys []string, rev int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	touched := map[string]bool{}
	if q.rev = max(q.rev, rev); keys == nil {
		q.rev = rev // also of a store that went back
		for cluster := range q.candidates {
			touched[cluster] = true
		}
		clear(q.candidates)
		for key := range kvs {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		cluster, _ := clusterOf(key, prefix)
		touched[cluster] = true
		kv := kvs[key]
		if kv == nil {
			delete(q.candidates[cluster], key)
			continue
		}
		if q.candidates[cluster] == nil {
			q.candidates[cluster] = map[string]int64{}
		}
		q.candidates[cluster][key] = kv.CreateRevision
	}
	for cluster := range touched {
		if c := q.changed[cluster]; c != nil {
			close(c)
			delete(q.changed, cluster)
		}
	}
}

// of returns the keys of all candidates that contain part.
func (q *queues) of(part string) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var keys []string
	for _, candidates := range q.candidates {
		for key := range candidates {
			if strings.Contains(key, part) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// place is where a candidate is in its cluster's queue.
type place int

const (
	waiting place = iota
	first
	gone
)

// look tells where the candidate stands whose key was created at rev. changed closes when the queue is another one.
func (q *queues) look(cluster, key string, rev int64) (p place, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.changed[cluster] == nil {
		q.changed[cluster] = make(chan struct{})
	}
	p = first
	for _, other := range q.candidates[cluster] {
		if other < rev {
			p = waiting
		}
	}
	if q.candidates[cluster][key] != rev {
		p = gone
		if q.rev < rev {
			p = waiting // the view is older than the candidate
		}
	}
	return p, q.changed[cluster]
}
