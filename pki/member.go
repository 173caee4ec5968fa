package pki

import (
	"context"
	"crypto/x509"
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

// Paths within a member's volume of what MemberFiles returns.
const (
	PeerCAFile   = "pki/peer-ca.crt"
	PeerCertFile = "pki/peer.crt"
	PeerKeyFile  = "pki/peer.key"

	// ClientCAFile holds every CA that the client port trusts.
	ClientCAFile = "pki/client-ca.crt"

	ServerCertFile = "pki/server.crt"
	ServerKeyFile  = "pki/server.key"
	ServerCAFile   = "pki/server-ca.crt"
)

// MemberFiles implements cke.Authority. Keys are fresh with every call and have mode 0600, certificates 0644.
func (a *Authority) MemberFiles(ctx context.Context, j cke.Join) ([]cke.File, error) {
	names, addresses, err := altNames(j)
	if err != nil {
		return nil, fmt.Errorf("issue certificates for %s of %s: %w", j.Node.Name(), a.cluster, err)
	}
	cas, err := a.get(ctx)
	if err != nil {
		return nil, err
	}
	r := request{
		commonName: a.cluster + " " + j.Node.Name(), life: leafLife, dnsNames: names, addresses: addresses,
		// A member is server and client to its peers. It is its own client too: the gateway for HTTP and JSON dials the
		// member itself with the server's certificate. Source: etcd-io/etcd #9785.
		usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	peer, err := a.issue(cas.peer, r)
	if err != nil {
		return nil, err
	}
	server, err := a.issue(cas.server, r)
	if err != nil {
		return nil, err
	}
	// The gateway shows the server's certificate to the client port, which must trust it as well. A server's key opens
	// nothing that its member, which writes by way of its peers, could not do anyway.
	clients := slices.Concat(cas.client.pem, cas.server.pem)
	return []cke.File{
		{Path: PeerCAFile, Mode: 0o644, Data: cas.peer.pem},
		{Path: PeerCertFile, Mode: 0o644, Data: peer.certPEM},
		{Path: PeerKeyFile, Mode: 0o600, Data: peer.keyPEM},
		{Path: ClientCAFile, Mode: 0o644, Data: clients},
		{Path: ServerCertFile, Mode: 0o644, Data: server.certPEM},
		{Path: ServerKeyFile, Mode: 0o600, Data: server.keyPEM},
		{Path: ServerCAFile, Mode: 0o644, Data: cas.server.pem},
	}, nil
}

// altNames are the names and addresses that a member is reached by. Other members check that its connections come
// from one of them. Source: etcd docs, transport security model.
func altNames(j cke.Join) (names []string, addresses []net.IP, err error) {
	address, err := netip.ParseAddr(j.Node.Address)
	if err != nil {
		return nil, nil, fmt.Errorf("the node's address %q is no IP address", j.Node.Address)
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
