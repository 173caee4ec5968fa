package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cke"
)

var (
	_ cke.Machines = machines{}
	_ cke.Machine  = machine{}
)

// machines is a daemon's way to nodes.
type machines struct{ d *Daemon }

// Machine implements cke.Machines.
func (m machines) Machine(n cke.Node) cke.Machine { return machine{d: m.d, declared: n} }

// machine is a daemon's way to one node.
type machine struct {
	d        *Daemon
	declared cke.Node
}

// call goes to the node's engine; do sees an engine that answers.
func (m machine) call(ctx context.Context, name string, writes bool, do effect) error {
	return m.callOn(ctx, "", name, writes, do)
}

// callOn is call for what is done to one container, or by one; empty: to none.
func (m machine) callOn(ctx context.Context, container, name string, writes bool, do effect) error {
	n := m.d.world.at(m.declared.Address)
	if n == nil {
		return &cke.Error{Code: cke.CodeUnreachable, What: "no such machine", Err: cke.ErrUnreachable}
	}
	c := Call{Port: "node", Node: n.name, Name: name, Writes: writes}
	if writes && container != "" {
		c.of = n.bind(container)
	}
	return m.d.call(ctx, c, n, m.declared, func(half bool) error { return do(n, half) })
}

// effect does one thing on a node. With half set it does only the first of the two things that it consists of.
type effect func(n *Node, half bool) error

func noRoom(n *Node) error {
	if !n.full {
		return nil
	}
	return &cke.Error{Code: cke.CodeDiskFull, What: "no space left on device"}
}

// EnsureImage implements cke.Machine.
func (m machine) EnsureImage(ctx context.Context, ref string, _ func(string)) error {
	return m.call(ctx, "EnsureImage", true, func(n *Node, _ bool) error {
		if n.images[ref] {
			return nil
		}
		if err := noRoom(n); err != nil {
			return err
		}
		n.images[ref] = true
		return nil
	})
}

// EnsureVolume implements cke.Machine.
func (m machine) EnsureVolume(ctx context.Context, s cke.MemberSpec) error {
	return m.call(ctx, "EnsureVolume", true, func(n *Node, _ bool) error {
		if v := n.volumes[s.Join.Volume]; v != nil {
			if v.cluster != s.Cluster || v.incarnation != s.Join.Incarnation || v.join != s.Join.ID {
				return fmt.Errorf("volume %s on %s: %w", v.name, n.name, cke.ErrConflict)
			}
			return nil
		}
		if err := noRoom(n); err != nil {
			return err
		}
		n.volumes[s.Join.Volume] = &volume{name: s.Join.Volume, cluster: s.Cluster, incarnation: s.Join.Incarnation, join: s.Join.ID,
			createdAt: n.world.now(), files: map[string]bool{}}
		return nil
	})
}

// EnsureContainer implements cke.Machine. Half done, the one before is removed and the new one not made.
func (m machine) EnsureContainer(ctx context.Context, s cke.MemberSpec) error {
	return m.callOn(ctx, s.Join.Volume, "EnsureContainer", true, func(n *Node, half bool) error {
		c := n.containers[s.Join.Volume]
		switch {
		case n.volumes[s.Join.Volume] == nil:
			return fmt.Errorf("volume %s on %s: %w", s.Join.Volume, n.name, cke.ErrDataMissing)
		case c != nil && c.Description == describe(s) && s.Join.Etcd.Resources.Of(c.Container) && c.MadeWith(s.Join.Etcd):
			c.keep = s.Mode == cke.StartOwnData
			return nil
		case c != nil && (c.Running() || c.State == cke.ContainerRestarting):
			return fmt.Errorf("container %s on %s runs with another description: %w", c.Name, n.name, cke.ErrConflict)
		case !n.images[s.Join.Etcd.Image]:
			return &cke.Error{Code: cke.CodeImage, What: "no image " + s.Join.Etcd.Image}
		case n.full:
			return noRoom(n)
		}
		delete(n.containers, s.Join.Volume)
		if slices.ContainsFunc(s.Join.Etcd.ExtraBinds, func(b cke.Bind) bool { return b.Source == MissingDirectory }) {
			return fmt.Errorf("invalid mount config: bind source path does not exist: %s", MissingDirectory)
		}
		if c == nil || !half {
			n.containers[s.Join.Volume] = newContainer(n, s)
		}
		return nil
	})
}

// of runs do with the join's container.
func (m machine) of(ctx context.Context, j cke.Join, name string, writes bool, do func(n *Node, c *container, half bool) error) error {
	return m.callOn(ctx, j.Volume, name, writes, func(n *Node, half bool) error {
		c := n.containers[j.Volume]
		if c == nil {
			return fmt.Errorf("container %s on %s: %w", j.Volume, n.name, cke.ErrNotFound)
		}
		return do(n, c, half)
	})
}

// PutFiles implements cke.Machine. Half done, the first file is there and the second one cut off.
func (m machine) PutFiles(ctx context.Context, j cke.Join, files []cke.File) error {
	return m.of(ctx, j, "PutFiles", true, func(n *Node, c *container, half bool) error {
		if err := noRoom(n); err != nil {
			return err
		}
		v := c.volume()
		v.putFiles(files, half)
		v.late = n.world.stale
		return nil
	})
}

// Clock implements cke.Machine.
func (m machine) Clock(ctx context.Context) (now time.Time, err error) {
	err = m.call(ctx, "Clock", false, func(n *Node, _ bool) error {
		now = n.clock()
		return nil
	})
	return now, err
}

// Data implements cke.Machine.
func (m machine) Data(ctx context.Context, j cke.Join) (state cke.DataState, err error) {
	err = m.of(ctx, j, "Data", false, func(_ *Node, c *container, _ bool) error {
		state = c.data()
		return nil
	})
	return state, err
}

// StartContainer implements cke.Machine.
func (m machine) StartContainer(ctx context.Context, j cke.Join) error {
	return m.of(ctx, j, "StartContainer", true, func(n *Node, c *container, _ bool) error {
		switch c.State {
		case cke.ContainerRunning, cke.ContainerRestarting:
			return nil
		case cke.ContainerPaused:
			return fmt.Errorf("container %s on %s is paused: %w", c.Name, n.name, cke.ErrConflict)
		}
		c.run()
		return nil
	})
}

// KeepRunning implements cke.Machine.
func (m machine) KeepRunning(ctx context.Context, j cke.Join) error {
	return m.of(ctx, j, "KeepRunning", true, func(_ *Node, c *container, _ bool) error {
		c.keep = true
		return nil
	})
}

// StopContainer implements cke.Machine. Half done, the engine's own restarts are off and etcd still runs.
func (m machine) StopContainer(ctx context.Context, j cke.Join, _ time.Duration) error {
	return m.callOn(ctx, j.Volume, "StopContainer", true, func(n *Node, half bool) error {
		c := n.containers[j.Volume]
		if c == nil {
			return nil
		}
		c.keep = false
		if half {
			return nil
		}
		c.stoppedByHand = true
		c.ends(0, "")
		return nil
	})
}

// RemoveContainer implements cke.Machine.
func (m machine) RemoveContainer(ctx context.Context, j cke.Join) error {
	return m.callOn(ctx, j.Volume, "RemoveContainer", true, func(n *Node, _ bool) error {
		c := n.containers[j.Volume]
		if c == nil {
			return nil
		}
		if c.Running() || c.State == cke.ContainerRestarting {
			return fmt.Errorf("container %s on %s runs: %w", c.Name, n.name, cke.ErrConflict)
		}
		delete(n.containers, c.Name)
		return nil
	})
}

// RemoveVolume implements cke.Machine.
func (m machine) RemoveVolume(ctx context.Context, j cke.Join) error {
	return m.call(ctx, "RemoveVolume", true, func(n *Node, _ bool) error {
		if c := n.containers[j.Volume]; c != nil {
			return fmt.Errorf("volume %s on %s is in use: %w", j.Volume, n.name, cke.ErrConflict)
		}
		n.world.isRemoved(n, n.volumes[j.Volume])
		delete(n.volumes, j.Volume)
		return nil
	})
}

// Container implements cke.Machine.
func (m machine) Container(ctx context.Context, j cke.Join) (seen cke.Container, err error) {
	err = m.of(ctx, j, "Container", false, func(_ *Node, c *container, _ bool) error {
		seen = c.seen()
		return nil
	})
	return seen, err
}
