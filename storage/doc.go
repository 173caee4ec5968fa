// Package storage keeps what cke must not forget in etcd: what people want, who the clusters are, sealed
// secrets, and what was done. The etcd is embedded in the daemon, or an existing one.
//
// Anybody may read and ask (Store). Only the daemon that leads a cluster may write what a leader writes:
// those writes are methods of Term, each a transaction guarded by the leader key.
//
// Every key is named in schema.go; docs/store.md tells what each holds.
package storage
