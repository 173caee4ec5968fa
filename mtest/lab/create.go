package lab

import (
	"context"
	"fmt"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
)

// nodeCapabilities suffice for a Docker engine inside; a host may refuse more, such as --privileged.
var (
	nodeCapabilities = []string{"ALL"}
	refusedOnHosts   = []string{"SYS_RESOURCE"}
)

// create makes a node's container with its keys in place, and does not start it.
func (l *Lab) create(ctx context.Context, s state, n nodeState) error {
	docker, err := l.engine(ctx)
	if err != nil {
		return err
	}
	authorized, err := l.authorizedKeys()
	if err != nil {
		return err
	}
	hostKey, hostPublic, err := l.hostKey(n.Name, false)
	if err != nil {
		return err
	}
	config := &container.Config{
		Hostname: n.Name,
		Image:    n.Image,
		Cmd:      []string{"run"},
		Labels:   l.labels(),
		Env:      []string{fmt.Sprintf("LAB_DISK=%d", n.Disk)},
	}
	networking := &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{
		l.networkName(): {IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: n.Address}},
	}}
	_, err = docker.ContainerCreate(ctx, config, nodeHostConfig(l.networkName()), networking, nil, n.Name)
	if cerrdefs.IsConflict(err) {
		return fmt.Errorf("%w: container %s exists: choose one with --name: %w", errNameTaken, n.Name, err)
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", n.Name, err)
	}
	rules, err := cutRules(s, n)
	if err != nil {
		return err
	}
	return l.putFiles(ctx, n.Name,
		file{Name: "etc/ssh/ssh_host_ed25519_key", Mode: 0o600, Data: hostKey},
		file{Name: "etc/ssh/ssh_host_ed25519_key.pub", Mode: 0o644, Data: []byte(hostPublic + "\n")},
		file{Name: "home/cke/.ssh/authorized_keys", Mode: 0o644, Data: []byte(authorized)},
		file{Name: "lab/cuts.rules", Mode: 0o644, Data: []byte(rules)},
	)
}

// nodeHostConfig is what a container needs to be a machine.
func nodeHostConfig(networkName string) *container.HostConfig {
	return &container.HostConfig{
		NetworkMode:  container.NetworkMode(networkName),
		CapAdd:       nodeCapabilities,
		CapDrop:      refusedOnHosts,
		SecurityOpt:  []string{"seccomp=unconfined", "apparmor=unconfined", "label=disable"},
		CgroupnsMode: container.CgroupnsModePrivate,
		// Empty, not nil: nothing of /proc and /sys is masked (systempaths=unconfined on the command line).
		MaskedPaths:   []string{},
		ReadonlyPaths: []string{},
		Tmpfs:         map[string]string{"/run": "exec", "/tmp": "exec"},
		LogConfig:     container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "10m"}},
		Resources: container.Resources{
			// Loop devices, for the disk.
			DeviceCgroupRules: []string{"b 7:* rwm", "c 10:237 rwm"},
		},
	}
}
