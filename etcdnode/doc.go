// Package etcdnode reaches the machines that carry etcd, and etcd on them.
//
// A Fleet holds one cluster's access: for every node one SSH connection that is kept, through it the node's Docker
// engine, and for every member one kept gRPC connection. It implements cke.Machines and cke.Etcd, and observes: each
// node and each member is looked at in a goroutine of its own, so that one that hangs holds up nobody.
//
//	fleet ─► link (SSH, kept up) ─► session (one SSH connection) ─► docker (its engine)
//	      └► endpoint (gRPC with mutual TLS, kept up)
//
// No shell is ever used: the key on the node may be restricted to forwarding (docs/nodes.md).
package etcdnode
