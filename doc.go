// Package cke defines the terms of cke: what the operator declares (Cluster), what is observed (Observation),
// what is reported (Status), what was done (Record), which cluster it is (Incarnation, Join), and the ports
// through which the other packages reach nodes, etcd and the store.
//
// It imports no other package of this module. Everything else imports it; see docs/architecture.md.
package cke
