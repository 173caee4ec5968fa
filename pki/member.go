package pki

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"

	"cke"
)

var (
	dnsName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)
)

// MemberFiles implements cke.Authority. Every call generates new keys, with mode 0600; certificates have 0644.
func (a *Authority) MemberFiles(ctx context.Context, j cke.Join, rec cke.Authorities) ([]cke.File, error) {
	return a.memberFiles(ctx, j, rec, nil)
}

// RenewMember implements cke.Authority. Unchanged files are left out.
func (a *Authority) RenewMember(ctx context.Context, j cke.Join, rec cke.Authorities, have []cke.File) ([]cke.File, error) {
	byPath := map[string][]byte{}
	for _, f := range have {
		byPath[f.Path] = f.Data
	}
	files, err := a.memberFiles(ctx, j, rec, byPath)
	return slices.DeleteFunc(files, func(f cke.File) bool { return f.Data == nil || bytes.Equal(byPath[f.Path], f.Data) }), err
}

// memberFiles issues certificates for the keys in have, and for fresh ones where it has none that can be read. A key
// that is kept has no data.
func (a *Authority) memberFiles(ctx context.Context, j cke.Join, rec cke.Authorities, have map[string][]byte) ([]cke.File, error) {
	names, addresses, err := altNames(j)
	if err != nil {
		return nil, fmt.Errorf("issue certificates for %s of %s: %w", j.Node.Name(), a.cluster, err)
	}
	cas, err := a.get(ctx, rec)
	if err != nil {
		return nil, err
	}
	issue := func(c *ca, key string) (*leaf, error) {
		return a.issue(c, request{
			commonName: a.cluster + " " + j.Node.Name(), life: leafLife, dnsNames: names, addresses: addresses,
			// A member is server and client to its peers. It is its own client too: the gateway for HTTP and JSON dials the
			// member itself with the server's certificate. Source: etcd-io/etcd #9785.
			usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
			key:   publicKey(have[key]),
		})
	}
	peer, err := issue(cas.peer.signs, cke.PeerKeyFile)
	if err != nil {
		return nil, err
	}
	server, err := issue(cas.server.signs, cke.ServerKeyFile)
	if err != nil {
		return nil, err
	}
	files := cas.bundles()
	return []cke.File{
		files[0],
		{Path: cke.PeerCertFile, Mode: 0o644, Data: peer.certPEM},
		{Path: cke.PeerKeyFile, Mode: 0o600, Data: peer.keyPEM},
		files[1],
		{Path: cke.ServerCertFile, Mode: 0o644, Data: server.certPEM},
		{Path: cke.ServerKeyFile, Mode: 0o600, Data: server.keyPEM},
		files[2],
	}, nil
}

// Bundles implements cke.Authority.
func (a *Authority) Bundles(ctx context.Context, rec cke.Authorities) ([]cke.File, error) {
	cas, err := a.get(ctx, rec)
	if err != nil {
		return nil, err
	}
	return cas.bundles(), nil
}

// bundles are the files that tell whom to trust: of peers, of clients, and for clients of the member.
//
// The gateway shows the server's certificate to the client port, which must trust it as well. A server's key opens
// nothing that its member, which writes by way of its peers, could not do anyway.
func (c *authorities) bundles() []cke.File {
	return []cke.File{
		{Path: cke.PeerCAFile, Mode: 0o644, Data: c.peer.bundle()},
		{Path: cke.ClientCAFile, Mode: 0o644, Data: append(c.client.bundle(), c.server.bundle()...)},
		{Path: cke.ServerCAFile, Mode: 0o644, Data: c.server.bundle()},
	}
}

// publicKey is that of a member's key; nil: it is none of those that are issued here.
func publicKey(keyPEM []byte) crypto.PublicKey {
	block, rest := pem.Decode(keyPEM)
	if block == nil || block.Type != keyBlock || len(bytes.TrimSpace(rest)) > 0 {
		return nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil
	}
	if key, ok := parsed.(*ecdsa.PrivateKey); ok && key.Curve == elliptic.P256() {
		return key.Public()
	}
	return nil
}

// altNames are the names and addresses that a member is reached by. Other members check that its connections come
// from one of them. Source: etcd docs, transport security model.
func altNames(j cke.Join) (names []string, addresses []net.IP, err error) {
	address, err := netip.ParseAddr(j.Node.Address)
	if err != nil {
		return nil, nil, fmt.Errorf("the node's address %q is not an IP address", j.Node.Address)
	}
	all := []netip.Addr{address.Unmap()}
	for _, a := range []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()} {
		if a != all[0] {
			all = append(all, a)
		}
	}
	for _, a := range all {
		addresses = append(addresses, a.AsSlice())
	}
	names = []string{"localhost"}
	if h := j.Node.Hostname; isDNSName(h) && h != names[0] {
		names = append(names, h)
	}
	return names, addresses, nil
}

func isDNSName(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil || len(s) > 253 {
		return false
	}
	return dnsName.MatchString(s)
}
