package storage

import (
	"fmt"
	"net/url"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// schema names every key of the store. Nothing else builds keys. docs/store.md describes each.
//
// What WatchCluster delivers is below clusters/NAME/; what changes often, or is only read when asked for,
// stands apart, so that it wakes nobody.
type schema struct{ prefix string }

// version holds the schema of the store.
func (k schema) version() string { return k.prefix + "schema" }

// sealedWith holds the public key that secrets are sealed for.
func (k schema) sealedWith() string { return k.prefix + "sealed-with" }

// globalSSHKey holds the sealed SSH key for all clusters.
func (k schema) globalSSHKey() string { return k.prefix + "ssh-keys/default" }

// globalBackupCredentials holds the sealed credentials for the backup targets of all clusters.
func (k schema) globalBackupCredentials() string { return k.prefix + "backup-credentials/default" }

// backupCredentials are those of a cluster, or of all ("").
func (k schema) backupCredentials(name string) string {
	if name == "" {
		return k.globalBackupCredentials()
	}
	return k.cluster(name) + "backup-credentials"
}

func (k schema) clusters() string { return k.prefix + "clusters/" }

// cluster is the prefix of what WatchCluster delivers.
func (k schema) cluster(name string) string { return k.clusters() + name + "/" }

func (k schema) spec(name string) string     { return k.cluster(name) + "spec" }
func (k schema) identity(name string) string { return k.cluster(name) + "identity/" }
func (k schema) incarnation(name string) string {
	return k.identity(name) + "incarnation"
}
func (k schema) freeze(name string) string   { return k.identity(name) + "freeze" }
func (k schema) compared(name string) string { return k.identity(name) + "compared" }
func (k schema) authorities(name string) string {
	return k.identity(name) + "authorities"
}
func (k schema) sightings(name string) string { return k.identity(name) + "sighted/" }
func (k schema) sighting(name, order, node string) string {
	return k.sightings(name) + escape(order) + "/" + escape(node)
}
func (k schema) joins(name string) string    { return k.identity(name) + "joins/" }
func (k schema) join(name, id string) string { return k.joins(name) + escape(id) }

func (k schema) hostKeys(name string) string { return k.cluster(name) + "host-keys/" }
func (k schema) hostKey(name, address string) string {
	return k.hostKeys(name) + escape(address)
}
func (k schema) offeredKeys(name string) string { return k.cluster(name) + "offered-keys/" }
func (k schema) offeredKey(name, address string) string {
	return k.offeredKeys(name) + escape(address)
}

// sshKeys holds the sealed SSH keys of one cluster: "default", and those of nodes below "nodes/".
func (k schema) sshKeys(name string) string { return k.cluster(name) + "ssh-keys/" }

// sshKey is the key of a node, of a cluster (no node), or of all clusters (neither).
func (k schema) sshKey(name, node string) string {
	switch {
	case name == "":
		return k.globalSSHKey()
	case node == "":
		return k.sshKeys(name) + "default"
	default:
		return k.sshKeys(name) + "nodes/" + escape(node)
	}
}

// inventory is what operators say about the inventory of a cluster; it may be there before the cluster is.
func (k schema) inventory(name string) string { return k.cluster(name) + "inventory" }

// inventories holds what leaders know of the inventory of one cluster.
func (k schema) inventories(name string) string   { return k.prefix + "inventories/" + name + "/" }
func (k schema) inventoryPast(name string) string { return k.inventories(name) + "past" }
func (k schema) inventoryLog(name string) string  { return k.inventories(name) + "log" }

// inventoryTurn is written whenever a cluster gets machines of an inventory.
func (k schema) inventoryTurn() string { return k.prefix + "inventory-turn" }

func (k schema) requests(name string) string      { return k.cluster(name) + "requests/" }
func (k schema) request(name, kind string) string { return k.requests(name) + escape(kind) }

// drains is the prefix of the requests that are maintenance leases.
func (k schema) drains(name string) string { return k.requests(name) + escape(drainOf("")) }

// specLog holds the revisions of the spec that were replaced.
func (k schema) specLog(name string) string { return k.prefix + "spec-log/" + name + "/" }
func (k schema) specRevision(name string, generation int64) string {
	return k.specLog(name) + number(generation)
}

func (k schema) allSecrets() string                { return k.prefix + "secrets/" }
func (k schema) secrets(name string) string        { return k.allSecrets() + name + "/" }
func (k schema) secret(name, secret string) string { return k.secrets(name) + escape(secret) }

func (k schema) status(name string) string { return k.prefix + "status/" + name }

func (k schema) records(name string) string { return k.prefix + "records/" + name + "/" }
func (k schema) record(name string, id int64) string {
	return k.records(name) + number(id)
}

// leaders holds the queues of candidates of all clusters: one leased key per candidate, the eldest leads.
func (k schema) leaders() string                       { return k.prefix + "leaders/" }
func (k schema) candidates(name string) string         { return k.leaders() + name + "/" }
func (k schema) candidate(name, session string) string { return k.candidates(name) + session }

// daemons holds the live daemons: one leased key for each session.
func (k schema) daemons() string              { return k.prefix + "daemons/" }
func (k schema) daemon(session string) string { return k.daemons() + session }

// balance is a request to all daemons; leased, it expires by itself.
func (k schema) balance() string { return k.prefix + "balance" }

// term holds the last elected leader, with the term's number; it outlives the leader.
func (k schema) term(name string) string { return k.prefix + "terms/" + name }

func (k schema) deleted() string { return k.prefix + "deleted/" }
func (k schema) archives(name string) string {
	return k.deleted() + name + "/"
}
func (k schema) archive(name, time string) string { return k.archives(name) + time }

// number keeps the order of non-negative numbers in the order of keys.
func number(n int64) string { return fmt.Sprintf("%020d", n) }

// escape keeps a part of a key from containing a slash.
func escape(part string) string { return url.PathEscape(part) }

// keyRange is a key (end is empty) or all keys in [start, end).
type keyRange struct{ start, end string }

func one(key string) keyRange      { return keyRange{start: key} }
func under(prefix string) keyRange { return keyRange{prefix, clientv3.GetPrefixRangeEnd(prefix)} }

// from is what is below prefix, from key on.
func from(key, prefix string) keyRange {
	return keyRange{key, clientv3.GetPrefixRangeEnd(prefix)}
}

// remove is the operation that deletes all keys in it.
func (r keyRange) remove() clientv3.Op { return clientv3.OpDelete(r.start, r.options()...) }

func (r keyRange) options(more ...clientv3.OpOption) []clientv3.OpOption {
	if r.end != "" {
		more = append(more, clientv3.WithRange(r.end))
	}
	return more
}

// clusterOf returns the cluster in a key below prefix, and the rest of the key.
func clusterOf(key, prefix string) (name, rest string) {
	name, rest, _ = strings.Cut(strings.TrimPrefix(key, prefix), "/")
	return name, rest
}

func below(key, prefix string) bool { return len(key) > len(prefix) && strings.HasPrefix(key, prefix) }
