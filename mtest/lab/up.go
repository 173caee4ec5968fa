package lab

import (
	"context"
	"fmt"

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

// upLock is held while nodes are made. It is the first file of a lab.
const upLock = "up.lock"

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
	release, err := lockFile(ctx, l.path(upLock))
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
	return l.Progress.step("Start "+countNodes(len(s.Nodes)), func() error {
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
