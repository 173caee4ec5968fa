// Package cke is the vocabulary of cke: what a person wants (Cluster), what is seen (Observation),
// what is told (Status), what was done (Record), who a cluster is (Incarnation, Join), and the ports
// through which the other packages reach nodes, etcd and the store.
//
// It imports no other package of this module. Everything else imports it; see docs/architecture.md.
package cke
