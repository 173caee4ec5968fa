package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/docker/docker/api/types/network"
)

// SpareAddress returns an address of the lab's network that no node has.
func (l *Lab) SpareAddress() (string, error) {
	s, err := l.load()
	if err != nil {
		return "", err
	}
	subnet, err := netip.ParsePrefix(s.Subnet)
	if err != nil {
		return "", fmt.Errorf("subnet of the lab: %w", err)
	}
	for i := firstHost + maxNodes + 3; i > firstHost+len(s.Nodes); i-- { // from the end: labs grow from the beginning
		if a := hostAddress(subnet, i).String(); s.find(l.name, a) == nil {
			return a, nil
		}
	}
	return "", errors.New("no spare address")
}

// Readdress gives a running node another address of the lab's network in place of its own, which it keeps over power
// cycles and Wipe, and returns the node as it is then. Its cable is pulled for a moment; what ran on under the old
// address goes nowhere.
func (l *Lab) Readdress(ctx context.Context, node, address string) (Node, error) {
	n, err := l.node(node)
	if err != nil {
		return Node{}, err
	}
	if err := l.needRunning(ctx, n.Name); err != nil {
		return Node{}, err
	}
	docker, err := l.engine(ctx)
	if err != nil {
		return Node{}, err
	}
	if err := docker.NetworkDisconnect(ctx, l.networkName(), n.Name, false); err != nil {
		return Node{}, fmt.Errorf("pull the cable of %s: %w", n.Name, err)
	}
	endpoint := &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: address}}
	if err := docker.NetworkConnect(ctx, l.networkName(), n.Name, endpoint); err != nil {
		return Node{}, fmt.Errorf("give %s the address %s: %w", n.Name, address, err)
	}
	var all state
	err = l.update(ctx, func(s *state) error {
		s.find(l.name, n.Name).Address = address
		all = *s
		return nil
	})
	if err != nil {
		return Node{}, err
	}
	for _, other := range all.Nodes { // rules have the addresses of those that a node is cut off from
		if slices.ContainsFunc(other.Cuts, func(c Cut) bool { return c.From == n.Name }) {
			if err := l.applyCuts(ctx, all, other); err != nil {
				return Node{}, err
			}
		}
	}
	return l.Node(n.Name)
}
