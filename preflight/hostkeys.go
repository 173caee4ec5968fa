package preflight

import (
	"context"
	"maps"
	"sync"

	"cke"
	"cke/etcdnode"
)

// HostKeys compares host keys with those that are known, and stores none. It implements etcdnode.HostKeys.
type HostKeys struct {
	// Known are the host keys that are known, by address.
	Known map[string]string
	// Strict: connect to no node whose key is not known.
	Strict bool

	mu    sync.Mutex
	shown map[string]string // those that were seen for the first time
}

var _ etcdnode.HostKeys = (*HostKeys)(nil)

// Pinned implements etcdnode.HostKeys.
func (k *HostKeys) Pinned(address string) (string, bool) {
	line, ok := k.Known[address]
	return line, ok
}

// Pin implements etcdnode.HostKeys.
func (k *HostKeys) Pin(_ context.Context, address, line string) error {
	if k.Strict {
		return &cke.Error{Code: cke.CodeHostKey, What: "no host key of " + address + " is known yet"}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.shown == nil {
		k.shown = map[string]string{}
	}
	k.shown[address] = line
	return nil
}

// Offered implements etcdnode.HostKeys.
func (*HostKeys) Offered(context.Context, string, string) {}

// Seen returns what is known of host keys by now. blind: those that cke knows could not be read.
func (k *HostKeys) Seen(blind bool) Keys {
	k.mu.Lock()
	defer k.mu.Unlock()
	return Keys{Known: k.Known, Shown: maps.Clone(k.shown), Blind: blind}
}
