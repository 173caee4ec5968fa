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
)

// Quota is the size at which a member's database is full, in bytes.
func (o EtcdOptions) Quota() int64 {
	quota := int64(DefaultQuota)
	for _, arg := range o.ExtraArgs {
		text, is := strings.CutPrefix(strings.TrimLeft(arg, "-"), "quota-backend-bytes=")
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case !is || err != nil || n == 0:
		case n < 0:
			quota = noQuota
		default:
			quota = n
		}
	}
	return quota
}
