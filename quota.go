package cke

import (
	"strconv"
	"strings"
)

const (
	// DefaultQuota is etcd's, in bytes. Source: etcd, server/storage/quota.go.
	DefaultQuota = 2 << 30
	// noQuota is more than any database has: etcd takes a negative quota for none.
	noQuota = 1 << 50
	// defaultRequest is the size of the largest request that etcd takes, in bytes; moreOfRequest is what gRPC takes beyond
	// it. Source: etcd, embed.DefaultMaxRequestBytes, grpcOverheadBytes.
	defaultRequest, moreOfRequest = 3 << 19, 1 << 20
	// defaultOps is how many operations a transaction has at most, and costOfOp what etcd counts for each beside its key and
	// value. Source: etcd, embed.DefaultMaxTxnOps, kvOverhead.
	defaultOps, costOfOp = 128, 256
)

// Quota returns the size at which a member's database is full, in bytes.
func (o EtcdOptions) Quota() int64 {
	switch n := o.number("quota-backend-bytes"); {
	case n == 0:
		return DefaultQuota
	case n < 0:
		return noQuota
	default:
		return n
	}
}

// number returns the last value other than 0 that the arguments give a flag; 0: there is none.
func (o EtcdOptions) number(flag string) (last int64) {
	for _, arg := range o.ExtraArgs {
		text, is := strings.CutPrefix(strings.TrimLeft(arg, "-"), flag+"=")
		if n, err := strconv.ParseInt(text, 10, 64); is && err == nil && n != 0 {
			last = n
		}
	}
	return last
}

// MayFill reports whether one request could bring a database of this size, in bytes, to its quota.
func (o EtcdOptions) MayFill(size int64) bool {
	request := max(defaultRequest, o.number("max-request-bytes")) + moreOfRequest + costOfOp*max(defaultOps, o.number("max-txn-ops"))
	return size+request >= o.Quota()
}
