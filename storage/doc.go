// Package storage keeps in etcd what cke must not forget: the declared clusters, their identity, sealed secrets, and
// what was done. The etcd is embedded in the daemon, or an existing one.
//
// Every client may read and request (Store). Only the daemon that leads a cluster may write what a leader writes:
// these writes are methods of Term, each a transaction guarded by the leader key.
//
// Every key is named in schema.go; docs/store.md describes its content.
package storage
