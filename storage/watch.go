package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"cke"
)

// ClusterState is the input of a cluster's loop, from one revision of the store.
type ClusterState struct {
	// Spec has generation 0 if there is no such cluster, or no longer.
	Spec     cke.Spec
	Identity cke.Identity
	// HostKeys are the pinned host keys by node address; OfferedKeys those that nodes presented instead.
	HostKeys    map[string]string
	OfferedKeys map[string]OfferedKey
	// SSHKeyRevision changes whenever an SSH key that may concern the cluster was set or deleted.
	SSHKeyRevision int64
	// BackupCredentialsRevision changes whenever credentials for the cluster's backup target were set or deleted.
	BackupCredentialsRevision int64
	// Inventory is what operators say about the inventory; nil: nothing.
	Inventory *cke.InventorySettings
	// Requests are the current requests, by kind.
	Requests map[string]Request
}

// ResignRequested reports whether the leader daemon of this term was asked to resign.
func (s ClusterState) ResignRequested(term int64) bool {
	var asked resignRequest
	r, ok := s.Requests[requestResign]
	return ok && json.Unmarshal(r.Args, &asked) == nil && asked.Term == term
}

// Order returns the request to apply a change that the inventory leads to; nil: there is none.
func (s ClusterState) Order() *cke.InventoryOrder {
	r, ok := s.Requests[requestInventory]
	if !ok {
		return nil
	}
	o := cke.InventoryOrder{}
	if json.Unmarshal(r.Args, &o) != nil {
		return &cke.InventoryOrder{By: r.By, At: r.At} // no change has its hash
	}
	return &o
}

// Asked returns the requests; of those that cannot be decoded it has what their keys say.
func (s ClusterState) Asked() cke.Requests {
	var asked cke.Requests
	for _, kind := range slices.Sorted(maps.Keys(s.Requests)) {
		if s.Requests[kind].into(&asked) != nil {
			asked.Undecoded = append(asked.Undecoded, kind)
		}
	}
	slices.SortStableFunc(asked.Tasks, func(a, b cke.Task) int { return a.At.Compare(b.At) })
	return asked
}

// WatchClusters delivers the sorted names of all clusters: at once, and whenever the set has changed. A slow reader
// misses what lies between, never the newest. The channel closes when ctx or the store is done.
func (s *Store) WatchClusters(ctx context.Context) <-chan []string {
	return latest(ctx, s, func(ctx context.Context, emit func([]string)) {
		var last []string
		mirror{s: s, ranges: []keyRange{under(s.keys.clusters())}, keysOnly: true,
			changed: func(kvs map[string]*mvccpb.KeyValue, _ []string, _ int64) {
				names := []string{}
				for key := range kvs {
					if name, rest := clusterOf(key, s.keys.clusters()); rest == "spec" {
						names = append(names, name)
					}
				}
				slices.Sort(names)
				if last == nil || !slices.Equal(names, last) {
					last = names
					emit(slices.Clone(names))
				}
			}}.run(ctx)
	})
}

// WatchCluster delivers the cluster's state: at once, and after every change to any of it. A slow reader misses what
// lies between, never the newest. The channel closes when ctx or the store is done.
func (s *Store) WatchCluster(ctx context.Context, cluster string) <-chan ClusterState {
	return latest(ctx, s, func(ctx context.Context, emit func(ClusterState)) { s.mirrorOf(cluster, emit).run(ctx) })
}

// FollowCluster is WatchCluster for one who is never slow: it calls changed with each state, one after the other, until ctx or the store
// is done.
func (s *Store) FollowCluster(ctx context.Context, cluster string, changed func(ClusterState)) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(s.ctx, cancel)
	following := s.spawn(func() {
		defer cancel()
		defer unhook()
		s.mirrorOf(cluster, changed).run(ctx)
	})
	if !following {
		cancel()
	}
}

// mirrorOf is a mirror of all that a cluster's state consists of.
func (s *Store) mirrorOf(cluster string, changed func(ClusterState)) mirror {
	return mirror{s: s, ranges: []keyRange{under(s.keys.cluster(cluster)), one(s.keys.globalSSHKey()), one(s.keys.globalBackupCredentials())},
		changed: func(kvs map[string]*mvccpb.KeyValue, _ []string, _ int64) { changed(s.clusterState(cluster, kvs)) }}
}

// clusterState reads the state out of a mirror. What cannot be read is logged and left out; of requests there is what their keys say.
func (s *Store) clusterState(cluster string, kvs map[string]*mvccpb.KeyValue) ClusterState {
	state := ClusterState{HostKeys: map[string]string{}, OfferedKeys: map[string]OfferedKey{}, Requests: map[string]Request{}}
	s.read(kvs, s.keys.spec(cluster), &state.Spec)
	state.Identity = s.identityOf(cluster, kvs)
	var inventory cke.InventorySettings
	if s.read(kvs, s.keys.inventory(cluster), &inventory) {
		state.Inventory = &inventory
	}
	for _, key := range sortedKeys(kvs, s.keys.hostKeys(cluster)) {
		var k hostKey
		if s.read(kvs, key, &k) {
			state.HostKeys[k.Address] = k.Line
		}
	}
	for _, key := range sortedKeys(kvs, s.keys.offeredKeys(cluster)) {
		var k OfferedKey
		if s.read(kvs, key, &k) {
			state.OfferedKeys[k.Address] = k
		}
	}
	for _, key := range sortedKeys(kvs, s.keys.requests(cluster)) {
		r, err := s.decodeRequest(cluster, kvs[key])
		if err != nil {
			s.log.Error("unreadable document in the store", "error", err)
		}
		state.Requests[r.Kind] = r
	}
	state.SSHKeyRevision = s.sshKeyRevision(cluster, kvs)
	state.BackupCredentialsRevision = revisionOf(kvs, s.keys.globalBackupCredentials(), s.keys.backupCredentials(cluster))
	return state
}

// sshKeyRevision is a digest, since a deleted key leaves no revision behind.
func (s *Store) sshKeyRevision(cluster string, kvs map[string]*mvccpb.KeyValue) int64 {
	return revisionOf(kvs, append(sortedKeys(kvs, s.keys.sshKeys(cluster)), s.keys.globalSSHKey())...)
}

// revisionOf is another one whenever one of the keys was set or deleted.
func revisionOf(kvs map[string]*mvccpb.KeyValue, keys ...string) int64 {
	digest := fnv.New64a()
	for _, key := range keys {
		if kv := kvs[key]; kv != nil {
			fmt.Fprintf(digest, "%s %d\n", key, kv.ModRevision)
		}
	}
	return int64(digest.Sum64())
}

func (s *Store) identityOf(cluster string, kvs map[string]*mvccpb.KeyValue) cke.Identity {
	var id cke.Identity
	var inc cke.Incarnation
	if s.read(kvs, s.keys.incarnation(cluster), &inc) {
		id.Incarnation = &inc
	}
	for _, key := range sortedKeys(kvs, s.keys.joins(cluster)) {
		var j cke.Join
		if s.read(kvs, key, &j) {
			id.Joins = append(id.Joins, j)
		}
	}
	sortJoins(id.Joins)
	sorted := cke.NewIdentity(id.Incarnation, id.Joins)
	var freeze cke.Freeze
	if s.read(kvs, s.keys.freeze(cluster), &freeze) {
		sorted.Freeze = &freeze
	}
	var compared cke.Comparison
	if s.read(kvs, s.keys.compared(cluster), &compared) {
		sorted.Compared = &compared
	}
	s.read(kvs, s.keys.authorities(cluster), &sorted.Authorities)
	for _, key := range sortedKeys(kvs, s.keys.sightings(cluster)) {
		sorted.Sighted = append(sorted.Sighted, s.sighting(cluster, kvs[key]))
	}
	return sorted
}

// read decodes the document at key into v and reports whether it could.
func (s *Store) read(kvs map[string]*mvccpb.KeyValue, key string, v any) bool {
	kv := kvs[key]
	if kv == nil {
		return false
	}
	if err := decode(key, kv.Value, v); err != nil {
		s.log.Error("unreadable document in the store", "error", err)
		return false
	}
	return true
}
