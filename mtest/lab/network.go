package lab

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/network"
)

// maxNodes is how many addresses a lab's /24 has from firstHost on.
const (
	firstHost = 11 // n1 is .11: the gateway and a few spare ones come before
	maxNodes  = 240
)

// subnetTries bounds how often a subnet is chosen again because another lab took it in the meantime.
const subnetTries = 20

// subnets are the /24 networks that labs may use, in order of preference.
func subnets(yield func(netip.Prefix) bool) {
	for _, first := range []netip.Addr{
		netip.AddrFrom4([4]byte{10, 213, 0, 0}), netip.AddrFrom4([4]byte{172, 29, 0, 0}), netip.AddrFrom4([4]byte{192, 168, 0, 0}),
	} {
		b := first.As4()
		for i := range 256 {
			if !yield(netip.PrefixFrom(netip.AddrFrom4([4]byte{b[0], b[1], byte(i), 0}), 24)) {
				return
			}
		}
	}
}

// freeSubnet returns the first subnet that overlaps with nothing taken.
func freeSubnet(taken []netip.Prefix) (netip.Prefix, error) {
	for p := range subnets {
		if !slices.ContainsFunc(taken, p.Overlaps) {
			return p, nil
		}
	}
	return netip.Prefix{}, errors.New("no free subnet: all of 10.213.0.0/16, 172.29.0.0/16 and 192.168.0.0/16 is in use here")
}

// hostAddress returns the i-th host of a /24.
func hostAddress(p netip.Prefix, i int) netip.Addr {
	b := p.Addr().As4()
	b[3] = byte(i)
	return netip.AddrFrom4(b)
}

// gateway is this machine's own address in the lab's network.
func gateway(p netip.Prefix) netip.Addr { return hostAddress(p, 1) }

// ensureNetwork returns the subnet of the lab's network, making the network unless it is there.
func (l *Lab) ensureNetwork(ctx context.Context) (netip.Prefix, error) {
	docker, err := l.engine(ctx)
	if err != nil {
		return netip.Prefix{}, err
	}
	var refused []netip.Prefix // a network that is being made has its subnet before the engine lists it
	for try := 1; ; try++ {
		existing, err := docker.NetworkList(ctx, network.ListOptions{})
		if err != nil {
			return netip.Prefix{}, fmt.Errorf("list networks: %w", err)
		}
		taken := append(hostPrefixes(), refused...)
		for _, n := range existing {
			for _, c := range n.IPAM.Config {
				p, err := netip.ParsePrefix(c.Subnet)
				if err != nil {
					continue
				}
				if n.Name == l.networkName() {
					if n.Labels[labelDir] != l.dir {
						return netip.Prefix{}, fmt.Errorf("%w: %s of %s: choose one with --name", errNameTaken, l.name, n.Labels[labelDir])
					}
					return p, nil
				}
				taken = append(taken, p)
			}
		}
		subnet, err := freeSubnet(taken)
		if err != nil {
			return netip.Prefix{}, err
		}
		_, err = docker.NetworkCreate(ctx, l.networkName(), network.CreateOptions{
			Driver:   "bridge",
			Internal: true, // nodes reach this machine and each other, and nothing beyond
			IPAM:     &network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet.String(), Gateway: gateway(subnet).String()}}},
			Labels:   l.labels(),
		})
		if err == nil {
			return subnet, nil
		}
		refused = append(refused, subnet)
		if try == subnetTries {
			return netip.Prefix{}, fmt.Errorf("make network %s with %s: %w", l.networkName(), subnet, err)
		}
	}
}

func (l *Lab) networkName() string { return "cke-lab-" + l.name }

// hostPrefixes are the networks this machine has an address in or a route to.
func hostPrefixes() []netip.Prefix {
	var out []netip.Prefix
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p.Masked())
		}
	}
	routes, err := os.Open("/proc/net/route")
	if err != nil {
		return out
	}
	defer routes.Close()
	for lines := bufio.NewScanner(routes); lines.Scan(); {
		if p, ok := parseRoute(lines.Text()); ok {
			out = append(out, p)
		}
	}
	return out
}

// parseRoute reads a line of /proc/net/route, whose addresses are hexadecimal in the machine's (little-endian) order.
// The default route and the heading are not ok.
func parseRoute(line string) (netip.Prefix, bool) {
	f := strings.Fields(line)
	if len(f) < 8 {
		return netip.Prefix{}, false
	}
	dest, err1 := hex.DecodeString(f[1])
	mask, err2 := hex.DecodeString(f[7])
	if err1 != nil || err2 != nil || len(dest) != 4 || len(mask) != 4 {
		return netip.Prefix{}, false
	}
	slices.Reverse(dest)
	slices.Reverse(mask)
	ones, bits := net.IPMask(mask).Size()
	if bits == 0 || ones == 0 {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte(dest)), ones), true
}
