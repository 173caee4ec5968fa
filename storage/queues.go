package storage

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"cke"
)

// queues is this process's view of which daemons are alive, who leads and who waits, in all clusters. It only says when to look:
// what decides is a transaction.
type queues struct {
	keys schema

	mu sync.Mutex
	// rev is the revision that the view of the queues is of. What else is watched may be newer, or older.
	rev int64
	// candidates are the create revisions of all candidates' keys, by cluster and key; said is what each says.
	candidates map[string]map[string]int64
	said       map[string]candidacy
	// changed is closed, and replaced, when the queue of a cluster has changed.
	changed map[string]chan struct{}

	daemons map[string]cke.Daemon // by session
	asked   *cke.BalanceRequest
	schema  int
	known   bool
	// news is closed, and replaced, when anything has changed.
	news chan struct{}
}

func newQueues(keys schema) *queues {
	return &queues{keys: keys, candidates: map[string]map[string]int64{}, said: map[string]candidacy{}, changed: map[string]chan struct{}{},
		daemons: map[string]cke.Daemon{}, schema: 1, news: make(chan struct{})}
}

func (q *queues) ranges() []keyRange {
	return []keyRange{under(q.keys.leaders()), under(q.keys.daemons()), one(q.keys.balance()), one(q.keys.version())}
}

// view returns what all campaigns and watches of this process share.
func (s *Store) view() *queues {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	return s.viewLocked()
}

func (s *Store) viewLocked() *queues {
	if s.sessions.queues == nil {
		q := newQueues(s.keys)
		s.sessions.queues = q
		s.spawn(func() { mirror{s: s, ranges: q.ranges(), changed: q.update}.run(s.ctx) })
	}
	return s.sessions.queues
}

// update takes in what has changed; keys is nil: everything is new, also of a store that went back.
func (q *queues) update(kvs map[string]*mvccpb.KeyValue, keys []string, rev int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	touched := map[string]bool{}
	if keys == nil {
		q.rev = rev
		for cluster := range q.candidates {
			touched[cluster] = true
		}
		clear(q.candidates)
		clear(q.said)
		clear(q.daemons)
		keys = append(slices.Collect(maps.Keys(kvs)), q.keys.balance(), q.keys.version()) // which may be gone
	}
	for _, key := range keys {
		switch kv := kvs[key]; {
		case below(key, q.keys.leaders()):
			cluster, _ := clusterOf(key, q.keys.leaders())
			touched[cluster] = true
			q.rev = max(q.rev, rev)
			q.candidate(cluster, key, kv)
		case below(key, q.keys.daemons()):
			session := strings.TrimPrefix(key, q.keys.daemons())
			if d, ok := document[cke.Daemon](kv); ok {
				d.ID = session
				q.daemons[session] = d
			} else {
				delete(q.daemons, session)
			}
		case key == q.keys.balance():
			if q.asked = nil; kv != nil {
				asked, _ := document[cke.BalanceRequest](kv)
				q.asked = &asked
			}
		case key == q.keys.version():
			is, _ := document[StoreSchema](kv)
			q.schema = max(1, is.Version)
		}
	}
	for cluster := range touched {
		if c := q.changed[cluster]; c != nil {
			close(c)
			delete(q.changed, cluster)
		}
	}
	q.known = true
	close(q.news)
	q.news = make(chan struct{})
}

// candidate takes in one key of a queue; nil: it is gone. The lock is held.
func (q *queues) candidate(cluster, key string, kv *mvccpb.KeyValue) {
	if kv == nil {
		delete(q.candidates[cluster], key)
		delete(q.said, key)
		return
	}
	if q.candidates[cluster] == nil {
		q.candidates[cluster] = map[string]int64{}
	}
	q.candidates[cluster][key] = kv.CreateRevision
	q.said[key], _ = document[candidacy](kv)
}

// document decodes one; false: there is none, or it cannot be read.
func document[T any](kv *mvccpb.KeyValue) (v T, ok bool) {
	return v, kv != nil && decode(string(kv.Key), kv.Value, &v) == nil
}

// fleet is all that is known; changed closes when something else is.
func (q *queues) fleet() (f cke.Fleet, known bool, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f = cke.Fleet{Schema: q.schema, Asked: q.asked, Daemons: []cke.Daemon{}, Clusters: []cke.Led{}}
	daemons := maps.Clone(q.daemons)
	for _, cluster := range slices.Sorted(maps.Keys(q.candidates)) {
		keys := slices.SortedFunc(maps.Keys(q.candidates[cluster]), func(a, b string) int {
			return cmp.Compare(q.candidates[cluster][a], q.candidates[cluster][b])
		})
		led := cke.Led{Cluster: cluster}
		for i, key := range keys {
			session, said := sessionOf(key), q.said[key]
			if _, ok := daemons[session]; !ok { // of an older cke
				daemons[session] = cke.Daemon{ID: session, Host: said.Host, Schema: max(1, said.Schema)}
			}
			if i == 0 && said.Term > 0 {
				led.Leader, led.By, led.Prefer = said.Leader, session, said.Prefer
			} else {
				led.Waiting = append(led.Waiting, session)
			}
		}
		if len(keys) > 0 {
			f.Clusters = append(f.Clusters, led)
		}
	}
	f.Daemons = slices.SortedFunc(maps.Values(daemons), func(a, b cke.Daemon) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.ID, b.ID))
	})
	return f, q.known, q.news
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
