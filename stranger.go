package cke

import (
	"net"
	"net/netip"
	"net/url"
	"slices"

	"cke/quorum"
)

// MaxStrangers bounds how many members that no membership names are probed in one observation.
const MaxStrangers = quorum.MostVoters

// StrangerURL returns where a member that no membership names may be probed: a client URL from etcd's own member
// list, never a made-up one. It must be https with an IP address that means the same machine everywhere, other than
// that of a known member. known are the cluster's memberships; false: there is no such URL.
func StrangerURL(m Member, known []Join) (string, bool) {
	for _, text := range m.ClientURLs {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" || u.Port() == "" || u.User != nil {
			continue
		}
		a, err := netip.ParseAddr(u.Hostname())
		if err != nil || a.Zone() != "" || !mayDial(a, known) {
			continue
		}
		dial := "https://" + net.JoinHostPort(a.String(), u.Port())
		if !slices.ContainsFunc(known, func(j Join) bool { return j.ClientURL() == dial }) {
			return dial, true
		}
	}
	return "", false
}

// mayDial leaves out addresses that mean the machine itself or nobody. Loopback is an address as any other only where
// the cluster's own nodes have such.
func mayDial(a netip.Addr, known []Join) bool {
	a = a.Unmap()
	switch {
	case a.IsUnspecified(), a.IsMulticast(), a.IsLinkLocalUnicast():
		return false
	case a.IsLoopback():
		return slices.ContainsFunc(known, func(j Join) bool {
			n, err := netip.ParseAddr(j.Node.Address)
			return err == nil && n.IsLoopback()
		})
	}
	return true
}
