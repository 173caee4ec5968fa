// Package pages reads, checks and writes the pages of bbolt's database files. It knows the layout of a file and the rules
// of its trees, but not what a file holds: no etcd, no revision, no backup.
//
//	Walk    checks every number that bbolt would follow
//	Sieve   keeps few pages of a database that is streamed
//	Loader  builds a tree from elements in the order of their keys; Join joins two trees
//	Writer  appends pages to a file, and completes a database
//
// Source of the layout: bbolt, internal/common (page.go, meta.go, bucket.go) and internal/freelist/shared.go.
package pages
