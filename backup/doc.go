// Package backup reads and writes backups of etcd clusters: full snapshots, and deltas that carry every change
// between them. A backup is a set of objects in a Bucket; each is written once, under a name that tells its place, and
// never changed, so that a store can be read without anything else that cke knows. docs/backup.md has the format.
//
// What is here works from the store alone and offline: list, verify, extract, copy, prune, compact. No etcd runs for it.
// Package take makes the backups of a running cluster, package target opens object stores by URL.
package backup
