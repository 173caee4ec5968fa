// Package backup reads and writes backups of etcd clusters: full snapshots, and deltas that hold every change between
// them. A backup is a set of objects in a Bucket; each is written once, under a name that gives its place, and never
// changed, so a store can be read without other knowledge of cke. docs/backup.md describes the format.
//
// This package works offline and from the store alone: list, verify, extract, copy, prune, compact. No etcd runs for it.
// Package take makes the backups of a running cluster, package target opens object stores by URL.
package backup
