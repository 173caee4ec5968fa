package lab

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"golang.org/x/sync/errgroup"
)

// UpOptions say what a lab should have. The zero value is one node with the defaults.
type UpOptions struct {
	Nodes int      // how many nodes there should be at least; 0 is 1. Labs grow, they do not shrink
	Disk  int64    // bytes of each new node's disk; 0 is DefaultDisk, Unbounded leaves it to this machine's disk
	Etcd  []string // etcd versions whose images new nodes carry from their first boot
}

// Sizes of disks, in bytes. A disk takes room on this machine only as it is written.
const (
	DefaultDisk int64 = 8 << 30
	Unbounded   int64 = -1
	minDisk     int64 = 256 << 20
)

// Up makes the lab, or grows it, and switches on what is off, frozen or missing. It returns when every node's sshd and
// engine accept connections. Cables that are cut stay cut. The node image is built first if this machine lacks it.
func (l *Lab) Up(ctx context.Context, o UpOptions) error {
	o.Nodes = max(o.Nodes, 1)
	if o.Nodes > maxNodes {
		return fmt.Errorf("%d nodes: a lab has at most %d", o.Nodes, maxNodes)
	}
	switch {
	case o.Disk == 0:
		o.Disk = DefaultDisk
	case o.Disk < 0:
		o.Disk = 0
	case o.Disk < minDisk:
		return fmt.Errorf("disk of %d bytes: want at least %d, room for an engine and an image", o.Disk, minDisk)
	}
	if _, err := l.engine(ctx); err != nil {
		return err
	}
	image, err := l.ensureImages(ctx, o.Etcd)
	if err != nil {
		return err
	}
	release, err := lockFile(ctx, l.path("up.lock"))
	if err != nil {
		return err
	}
	defer release()
	if err := l.prepareKeys(); err != nil {
		return err
	}
	subnet, err := l.ensureNetwork(ctx)
	if err != nil {
		return err
	}
	err = l.update(ctx, func(s *state) error {
		s.Subnet = subnet.String()
		for i := len(s.Nodes); i < o.Nodes; i++ {
			n := nodeState{Name: fmt.Sprintf("%s-n%d", l.name, i+1), Address: hostAddress(subnet, firstHost+i).String(), Image: image, Disk: o.Disk}
			_, n.HostKey, err = l.hostKey(n.Name, true)
			if err != nil {
				return err
			}
			s.Nodes = append(s.Nodes, n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s, err := l.load()
	if err != nil {
		return err
	}
	return l.Progress.step(fmt.Sprintf("Bring up %d nodes", len(s.Nodes)), func() error {
		g, ctx := errgroup.WithContext(ctx)
		for _, n := range s.Nodes {
			g.Go(func() error { return l.bringUp(ctx, s, n) })
		}
		return g.Wait()
	})
}

// bringUp makes a node run, whatever it does now.
func (l *Lab) bringUp(ctx context.Context, s state, n nodeState) error {
	state, err := l.stateOf(ctx, n.Name)
	if err != nil {
		return err
	}
	switch state {
	case Paused:
		return l.Unpause(ctx, n.Name)
	case Missing:
		if err := l.create(ctx, s, n); err != nil {
			return err
		}
		return l.powerOn(ctx, n.Name)
	case Stopped:
		return l.powerOn(ctx, n.Name)
	}
	return l.waitBooted(ctx, n.Name)
}

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
		return fmt.Errorf("%w: container %s exists: choose one with --name: %w", ErrNameTaken, n.Name, err)
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

// WipeOptions say what survives a wipe.
type WipeOptions struct {
	KeepHostKey bool // false: a new host key, as after an installation from scratch
}

// Wipe replaces a node by a blank machine with the same name, address and cables, which carries the images it was made
// with and nothing else. It returns when the machine is up.
func (l *Lab) Wipe(ctx context.Context, node string, o WipeOptions) error {
	n, err := l.node(node)
	if err != nil {
		return err
	}
	if err := l.remove(ctx, n.Name); err != nil {
		return err
	}
	if !o.KeepHostKey {
		err := l.update(ctx, func(s *state) error {
			_, public, err := l.hostKey(n.Name, true)
			if found := s.find(l.name, n.Name); found != nil {
				found.HostKey = public
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	s, err := l.load()
	if err != nil {
		return err
	}
	return l.bringUp(ctx, s, *s.find(l.name, n.Name))
}

// remove deletes a container and its volumes. One that is not there is fine.
func (l *Lab) remove(ctx context.Context, containerName string) error {
	docker, err := l.engine(ctx)
	if err != nil {
		return err
	}
	err = docker.ContainerRemove(ctx, containerName, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !cerrdefs.IsNotFound(err) {
		return fmt.Errorf("remove %s: %w", containerName, err)
	}
	return nil
}

// Down removes the lab: nodes, their disks, the network and the state. Images stay. A lab that is not there is fine,
// and so is one whose state was lost.
func (l *Lab) Down(ctx context.Context) error {
	docker, err := l.engine(ctx)
	if err != nil {
		return err
	}
	found, err := docker.ContainerList(ctx, container.ListOptions{All: true, Filters: l.mine()})
	if err != nil {
		return fmt.Errorf("list the nodes of lab %s: %w", l.name, err)
	}
	err = l.Progress.step(fmt.Sprintf("Remove %d nodes", len(found)), func() error {
		g, ctx := errgroup.WithContext(ctx)
		for _, c := range found {
			g.Go(func() error { return l.remove(ctx, c.ID) })
		}
		return g.Wait()
	})
	if err != nil {
		return err
	}
	networks, err := docker.NetworkList(ctx, network.ListOptions{Filters: l.mine()})
	if err != nil {
		return fmt.Errorf("list the networks of lab %s: %w", l.name, err)
	}
	for _, n := range networks {
		if err := docker.NetworkRemove(ctx, n.ID); err != nil && !cerrdefs.IsNotFound(err) {
			return fmt.Errorf("remove network %s: %w", n.Name, err)
		}
	}
	if _, err := os.Stat(l.path("lab.json")); err == nil {
		if err := os.RemoveAll(l.dir); err != nil {
			return fmt.Errorf("remove the state: %w", err)
		}
		removeIfEmpty(l.path(".."))
	}
	return nil
}

// removeIfEmpty removes a directory that holds nothing any more.
func removeIfEmpty(dir string) {
	if entries, err := fs.ReadDir(os.DirFS(dir), "."); err == nil && len(entries) == 0 {
		os.Remove(dir)
	}
}
