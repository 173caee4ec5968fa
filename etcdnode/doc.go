// Package etcdnode reaches the nodes, and etcd on them.
//
// A Fleet holds one cluster's access: one SSH connection to each node, through it the node's Docker engine, and one
// gRPC connection to each member. It implements cke.Machines and cke.Etcd, and observes: each node and each member
// is probed in a separate goroutine, so that one that hangs does not delay the others.
//
//	fleet ─► link (SSH, kept up) ─► session (one SSH connection) ─► docker (its engine)
//	      └► endpoint (gRPC with mutual TLS, kept up)
//
// It never uses a shell: the key on the node may be restricted to forwarding (docs/nodes.md).
package etcdnode
