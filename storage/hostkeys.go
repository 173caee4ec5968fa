package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// hostKey is a pinned host key of a node.
type hostKey struct {
	Address string `json:"address"`
	// Line is "TYPE BASE64", as in known_hosts without the host.
	Line     string    `json:"line"`
	PinnedAt time.Time `json:"pinnedAt"`
}

// OfferedKey is a host key that a node presented and that was not accepted yet.
type OfferedKey struct {
	Address string `json:"address"`
	// Line is "TYPE BASE64".
	Line string `json:"line"`
	// SeenAt is when it was first seen.
	SeenAt time.Time `json:"seenAt"`
}

// hostKeyLine drops the comment of a line; two lines with the same key are the same.
func hostKeyLine(line string) (string, error) {
	f := strings.Fields(line)
	if len(f) < 2 {
		return "", &cke.Error{Code: cke.CodeHostKey, What: fmt.Sprintf("%q is not a host key", line),
			Facts: []string{"write TYPE BASE64, as in ssh_host_ed25519_key.pub"}, Unchanged: true}
	}
	return f[0] + " " + f[1], nil
}

// HostKeys returns the pinned host keys of a cluster by node address.
func (s *Store) HostKeys(ctx context.Context, cluster string) (map[string]string, error) {
	if err := checkName(cluster); err != nil {
		return nil, err
	}
	keys, err := list[hostKey](ctx, s, under(s.keys.hostKeys(cluster)))
	lines := map[string]string{}
	for _, k := range keys {
		lines[k.Address] = k.Line
	}
	return lines, s.fail("read the host keys of "+cluster, err)
}

// PinHostKey pins a node's host key at the first connection. Pinning the pinned key again changes nothing.
// ErrConflict: another one is pinned.
func (s *Store) PinHostKey(ctx context.Context, cluster, address, line string) error {
	return s.pinHostKey(ctx, cluster, address, line, nil)
}

// PinHostKey is Store.PinHostKey for the leader daemon of the cluster.
func (t *Term) PinHostKey(ctx context.Context, address, line string) error {
	return t.s.pinHostKey(ctx, t.cluster, address, line, t)
}

// pinHostKey is guarded by the term, if any.
func (s *Store) pinHostKey(ctx context.Context, cluster, address, line string, t *Term) error {
	if err := checkName(cluster); err != nil {
		return err
	}
	line, err := hostKeyLine(line)
	if err != nil {
		return err
	}
	key := s.keys.hostKey(cluster, address)
	if err := s.room(ctx, s.keys.hostKeys(cluster), key, keptHostKeys, "host keys of "+cluster); err != nil {
		return err
	}
	pin, err := put(key, hostKey{Address: address, Line: line, PinnedAt: time.Now().UTC()})
	if err != nil {
		return err
	}
	tried := fmt.Sprintf("pin the host key of %s in %s", address, cluster)
	if t != nil {
		err = t.write(ctx, tried, []clientv3.Cmp{absent(key)}, pin)
	} else {
		var resp *clientv3.TxnResponse
		resp, err = s.txn(ctx, []clientv3.Cmp{absent(key), present(s.keys.spec(cluster))}, []clientv3.Op{pin})
		if err == nil && !resp.Succeeded {
			err = errChanged
		}
	}
	if !errors.Is(err, errChanged) {
		return s.fail(tried, err)
	}
	var pinned hostKey
	if _, err := s.get(ctx, key, &pinned); errors.Is(err, cke.ErrNotFound) {
		return noCluster(cluster)
	} else if err != nil {
		return s.fail(tried, err)
	}
	if pinned.Line != line {
		return fmt.Errorf("%s: %w", tried, cke.ErrConflict)
	}
	return nil
}

// OfferHostKey keeps a host key that a node presented in place of the pinned one, for the operator to judge. Offering
// the same again changes nothing.
func (t *Term) OfferHostKey(ctx context.Context, address, line string) error {
	line, err := hostKeyLine(line)
	if err != nil {
		return err
	}
	tried := fmt.Sprintf("keep the host key that %s presents", address)
	key := t.s.keys.offeredKey(t.cluster, address)
	var known OfferedKey
	if _, err := t.s.get(ctx, key, &known); err != nil && !errors.Is(err, cke.ErrNotFound) {
		return t.s.fail(tried, err)
	}
	if known.Line == line {
		return t.Check()
	}
	op, err := put(key, OfferedKey{Address: address, Line: line, SeenAt: time.Now().UTC()})
	if err != nil {
		return err
	}
	older, err := t.s.oldest(ctx, t.s.keys.offeredKeys(t.cluster), keptHostKeys-1)
	if err != nil {
		return t.s.fail(tried, err)
	}
	return t.write(ctx, tried, nil, append(slices.DeleteFunc(older, func(o clientv3.Op) bool { return string(o.KeyBytes()) == key }), op)...)
}

// OfferedHostKey returns the host key that the node presented and that was not accepted. ErrNotFound: there is none.
func (s *Store) OfferedHostKey(ctx context.Context, cluster, address string) (OfferedKey, error) {
	var k OfferedKey
	if err := checkName(cluster); err != nil {
		return k, err
	}
	_, err := s.get(ctx, s.keys.offeredKey(cluster, address), &k)
	return k, s.fail(fmt.Sprintf("read the host key that %s in %s presents", address, cluster), err)
}

// AcceptHostKey pins exactly this host key in place of any other, and deletes the offered one.
func (s *Store) AcceptHostKey(ctx context.Context, cluster, address, line string) error {
	if err := checkName(cluster); err != nil {
		return err
	}
	line, err := hostKeyLine(line)
	if err != nil {
		return err
	}
	pin, err := put(s.keys.hostKey(cluster, address), hostKey{Address: address, Line: line, PinnedAt: time.Now().UTC()})
	if err != nil {
		return err
	}
	resp, err := s.txn(ctx, []clientv3.Cmp{present(s.keys.spec(cluster))},
		[]clientv3.Op{pin, clientv3.OpDelete(s.keys.offeredKey(cluster, address))})
	if err != nil {
		return s.fail(fmt.Sprintf("accept the host key of %s in %s", address, cluster), err)
	}
	if !resp.Succeeded {
		return noCluster(cluster)
	}
	return nil
}
