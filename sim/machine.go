package sim

import (
	"context"
	"errors"
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

// call makes a method that consists of one request.
func (m machine) call(ctx context.Context, name string, writes bool, do effect) error {
	r := m.method(ctx, name)
	r.begun = !writes
	return r.request("", writes, nil, do)
}

func noMachine() error {
	return &cke.Error{Code: cke.CodeUnreachable, What: "no such machine", Err: cke.ErrUnreachable}
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
	r, present := m.method(ctx, "EnsureImage"), false
	err := r.request("inspect", false, nil, func(n *Node, _ bool) error { present = n.images[ref]; return nil })
	if err != nil || present {
		return err
	}
	return r.request("", true, nil, func(n *Node, _ bool) error {
		if err := noRoom(n); err != nil {
			return err
		}
		n.images[ref] = true
		return nil
	})
}

// TryOptions implements cke.Machine. What the node is short of, and what the member's data says, it cannot notice.
func (m machine) TryOptions(ctx context.Context, s cke.MemberSpec) error {
	return m.call(ctx, "TryOptions", true, func(n *Node, _ bool) error {
		refused := func(why string) error {
			return &cke.Error{Code: cke.CodeOptions, What: fmt.Sprintf("the member on %s could not run with the declared options: %s", n.name, why), Unchanged: true}
		}
		switch {
		case !n.images[s.Join.Etcd.Image]:
			return &cke.Error{Code: cke.CodeImage, What: "no image " + s.Join.Etcd.Image}
		case n.full:
			return noRoom(n)
		case slices.ContainsFunc(s.Join.Etcd.ExtraBinds, func(b cke.Bind) bool { return b.Source == MissingDirectory }):
			return refused("bind source path does not exist: " + MissingDirectory)
		case slices.Contains(s.Join.Etcd.ExtraArgs, WrongArgument):
			return refused("flag provided but not defined: " + WrongArgument)
		}
		return nil
	})
}

// EnsureVolume implements cke.Machine.
func (m machine) EnsureVolume(ctx context.Context, s cke.MemberSpec) error {
	return m.call(ctx, "EnsureVolume", true, func(n *Node, _ bool) error {
		if v := n.volumes[s.Join.Volume]; v != nil {
			if shown := v.shown(); !shown.Of(s.Join) || shown.Cluster != s.Cluster && shown.Cluster != "" {
				return fmt.Errorf("volume %s on %s: %w", v.name, n.name, cke.ErrConflict)
			}
			return nil
		}
		if err := noRoom(n); err != nil {
			return err
		}
		n.world.wasMade(n)
		n.volumes[s.Join.Volume] = &volume{name: s.Join.Volume, cluster: s.Cluster, incarnation: s.Join.Incarnation, join: s.Join.ID,
			createdAt: n.world.now(), files: map[string]bool{}}
		return nil
	})
}

// MarkOver implements cke.Machine.
func (m machine) MarkOver(ctx context.Context, cluster string, over []string) error {
	return m.call(ctx, "MarkOver", true, func(n *Node, _ bool) error {
		if err := noRoom(n); err != nil {
			return err
		}
		n.over[cluster], _ = cke.Marked(n.over[cluster], over)
		return nil
	})
}

// EnsureContainer implements cke.Machine. The engine finds out that it lacks the image, or room, when the container before
// has been removed.
func (m machine) EnsureContainer(ctx context.Context, s cke.MemberSpec) error {
	r, keep := m.method(ctx, "EnsureContainer"), s.Mode == cke.StartOwnData
	var c inspected
	err := r.request("inspect", false, nil, func(n *Node, _ bool) (err error) {
		v := n.volumes[s.Join.Volume]
		switch {
		case v == nil:
			return fmt.Errorf("volume %s on %s: %w", s.Join.Volume, n.name, cke.ErrDataMissing)
		case !v.shown().Of(s.Join):
			return fmt.Errorf("volume %s on %s carries the labels of another membership: %w", v.name, n.name, cke.ErrConflict)
		}
		if c, err = n.inspect(s.Join); err != nil && !errors.Is(err, cke.ErrNotFound) {
			return err
		}
		replaces := err == nil && c.State != cke.ContainerRestarting && !c.Running() && !(s.Join.StartedAt.IsZero() && c.EverRan())
		if owner := n.portOwner(s.Join); owner != "" && owner != s.Cluster && !n.world.crowded && (err != nil || replaces && !c.StandsAt(s.Join)) {
			return &cke.Error{Code: cke.CodePortTaken, What: "a port belongs to the member of cluster " + owner}
		}
		return nil
	})
	if err == nil && keep {
		err = r.mayRun(s.Join)
	}
	switch {
	case err != nil:
		return err
	case c.id == nil:
	case s.Join.StartedAt.IsZero() && c.EverRan():
		return cke.StartedOffRecord(s.Join.Node.Name(), c.Container)
	case c.Description == describe(s) && s.Join.Etcd.Resources.Of(c.Container) && c.MadeWith(s.Join.Etcd):
		if c.keep == keep {
			return nil
		}
		return r.request("", true, c.id, func(*Node, bool) error { c.id.keep = keep; return nil })
	case c.Running() || c.State == cke.ContainerRestarting:
		return fmt.Errorf("container %s runs with another description: %w", c.Name, cke.ErrConflict)
	default:
		if err := r.request("remove", true, c.id, c.id.remove); err != nil {
			return err
		}
	}
	return r.request("", true, nil, func(n *Node, _ bool) error { return n.create(s) })
}

// create makes a container.
func (n *Node) create(s cke.MemberSpec) error {
	switch {
	case n.containers[s.Join.Volume] != nil:
		return fmt.Errorf("the name %s is in use on %s: %w", s.Join.Volume, n.name, cke.ErrConflict)
	case n.volumes[s.Join.Volume] == nil: // the engine would make one; nobody does, and takes it away again
		return fmt.Errorf("volume %s on %s: %w", s.Join.Volume, n.name, cke.ErrDataMissing)
	case !n.images[s.Join.Etcd.Image]:
		return &cke.Error{Code: cke.CodeImage, What: "no image " + s.Join.Etcd.Image}
	case n.full:
		return noRoom(n)
	case slices.ContainsFunc(s.Join.Etcd.ExtraBinds, func(b cke.Bind) bool { return b.Source == MissingDirectory }):
		return fmt.Errorf("invalid mount config: bind source path does not exist: %s", MissingDirectory)
	}
	n.containers[s.Join.Volume] = newContainer(n, s)
	n.world.sharesPort(n.containers[s.Join.Volume])
	return nil
}

// remove takes a container away that does not run.
func (c *container) remove(n *Node, _ bool) error {
	if c.Running() || c.State == cke.ContainerRestarting {
		return fmt.Errorf("container %s on %s runs: %w", c.Name, n.name, cke.ErrConflict)
	}
	n.world.isTouched("a container on "+n.name, c.Cluster, c.Incarnation, c.Join)
	delete(n.containers, c.Name)
	return nil
}

// of runs do with the join's container. What changes something is another request than the observation for the container, and names
// that one.
func (m machine) of(ctx context.Context, j cke.Join, name string, writes bool, do func(n *Node, c *container, half bool) error) error {
	if !writes {
		return m.call(ctx, name, false, func(n *Node, half bool) error {
			c, err := n.inspect(j)
			if err != nil {
				return err
			}
			return do(n, c.id, half)
		})
	}
	r := m.method(ctx, name)
	c, err := r.inspect(j)
	if err != nil {
		return err
	}
	return r.request("", true, c.id, func(n *Node, half bool) error { return do(n, c.id, half) })
}

// PutFiles implements cke.Machine. Half done, the first file is replaced and the others are as they were.
func (m machine) PutFiles(ctx context.Context, j cke.Join, files []cke.File) error {
	return m.of(ctx, j, "PutFiles", true, func(n *Node, c *container, half bool) error {
		if err := noRoom(n); err != nil {
			return err
		}
		v := c.volume()
		v.putFiles(files, half)
		v.late = n.world.stale
		c.unsure = c.unsure || v.late
		return nil
	})
}

// PutFounder implements cke.Machine. Half done, the first file is there, and no log.
func (m machine) PutFounder(ctx context.Context, s cke.MemberSpec, files []cke.File) error {
	return m.of(ctx, s.Join, "PutFounder", true, func(n *Node, c *container, half bool) error {
		if err := noRoom(n); err != nil {
			return err
		}
		if !c.StartedAt.IsZero() {
			return fmt.Errorf("container %s on %s was started before: %w", c.Name, n.name, cke.ErrConflict)
		}
		v := c.volume()
		v.putFiles(files, half)
		if v.late = n.world.stale; !half {
			v.wal, v.unborn = foundedMember(s, nil), true
		}
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
	r := m.method(ctx, "StartContainer")
	c, err := r.inspect(j)
	if err != nil || c.State == cke.ContainerRunning {
		return err
	}
	if err := r.mayRun(j); err != nil {
		return err
	}
	return r.request("", true, c.id, func(n *Node, _ bool) error {
		switch c.id.State {
		case cke.ContainerRunning, cke.ContainerRestarting:
			return nil
		case cke.ContainerPaused:
			return fmt.Errorf("container %s on %s is paused: %w", c.Name, n.name, cke.ErrConflict)
		}
		if id := n.world.store.identity; id.Incarnation != nil && c.Incarnation == id.Incarnation.ID {
			n.world.startsRestored(r.d, actorOf(ctx), id)
		}
		c.id.run()
		return nil
	})
}

// KeepAll removes what keeps engines from starting members that could start empty.
func (w *World) KeepAll() { w.keepsAll = true }

// KeepRunning implements cke.Machine.
func (m machine) KeepRunning(ctx context.Context, j cke.Join) error {
	r := m.method(ctx, "KeepRunning")
	c, err := r.inspect(j)
	if err != nil {
		return err
	}
	if err := r.mayRun(j); err != nil || c.keep {
		return err
	}
	if c.StartsEmpty && !m.d.world.keepsAll {
		return fmt.Errorf("container %s could start on an empty volume: %w", c.Name, cke.ErrConflict)
	}
	return r.request("", true, c.id, func(*Node, bool) error { c.id.keep = true; return nil })
}

// mayRun reads the marks on the node.
func (r *method) mayRun(j cke.Join) error {
	return r.request("marks", false, nil, func(n *Node, _ bool) error {
		for _, over := range n.over {
			if slices.Contains(over, string(j.ID)) {
				return cke.EndedByMark(j)
			}
		}
		return nil
	})
}

// StopContainer implements cke.Machine. The engine's own restarts end first.
func (m machine) StopContainer(ctx context.Context, j cke.Join, _ time.Duration) error {
	r := m.method(ctx, "StopContainer")
	c, err := r.inspect(j)
	if errors.Is(err, cke.ErrNotFound) {
		return nil
	}
	if err == nil && c.keep {
		err = r.request("update", true, c.id, func(n *Node, _ bool) error {
			n.world.isTouched("a container on "+n.name, c.Cluster, c.Incarnation, c.Join)
			c.id.keep = false
			return nil
		})
	}
	if err != nil || !c.Running() && c.State != cke.ContainerRestarting {
		return err
	}
	return r.request("", true, c.id, func(n *Node, _ bool) error {
		n.world.isTouched("a container on "+n.name, c.Cluster, c.Incarnation, c.Join)
		c.id.stoppedByHand = true
		c.id.ends(0, "")
		return nil
	})
}

// RemoveContainer implements cke.Machine.
func (m machine) RemoveContainer(ctx context.Context, j cke.Join) error {
	r := m.method(ctx, "RemoveContainer")
	c, err := r.inspect(j)
	if errors.Is(err, cke.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.request("", true, c.id, c.id.remove)
}

// RemoveVolume implements cke.Machine.
func (m machine) RemoveVolume(ctx context.Context, j cke.Join) error {
	r, there := m.method(ctx, "RemoveVolume"), false
	err := r.request("inspect", false, nil, func(n *Node, _ bool) error {
		v := n.volumes[j.Volume]
		if there = v != nil; there && !v.shown().Of(j) {
			return fmt.Errorf("volume %s on %s carries the labels of another membership: %w", v.name, n.name, cke.ErrConflict)
		}
		return nil
	})
	if err != nil || !there {
		return err
	}
	return r.request("", true, nil, func(n *Node, _ bool) error {
		if slices.ContainsFunc(n.sorted(), func(c *container) bool { return c.Name == j.Volume || c.spec.Join.Volume == j.Volume }) {
			return fmt.Errorf("volume %s on %s is in use: %w", j.Volume, n.name, cke.ErrConflict)
		}
		n.world.isRemoved(n, n.volumes[j.Volume])
		if v := n.volumes[j.Volume]; v != nil {
			n.world.isTouched("a volume on "+n.name, v.cluster, v.incarnation, v.join)
		}
		delete(n.volumes, j.Volume)
		return nil
	})
}

// Container implements cke.Machine.
func (m machine) Container(ctx context.Context, j cke.Join) (seen cke.Container, err error) {
	var of *container
	m.d.asks(func(o cke.Join) bool { return o.ID == j.ID })
	err = m.of(ctx, j, "Container", false, func(_ *Node, c *container, _ bool) error {
		seen, of = c.seen(), c
		return nil
	})
	if err == nil {
		m.d.saw(of)
	}
	return seen, err
}
