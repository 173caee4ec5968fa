package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
)

// Keep lets the engine keep a foreign container running, as Docker's restart policy always does.
func (n *Node) Keep(name string) {
	n.change("the operator lets the engine keep "+name+" running", func() { n.containers[name].keep = true })
}

// StopOne stops one container as `docker stop` does: the engine does not start it again before the next boot.
func (n *Node) StopOne(name string) {
	n.change("the operator stops "+name, func() { n.containers[name].ends(0, "") })
}

// byID runs do with the container of this id.
func (m machine) byID(ctx context.Context, id, name string, writes bool, do func(n *Node, c *container, half bool) error) error {
	return m.call(ctx, name, writes, func(n *Node, half bool) error {
		for _, c := range n.sorted() {
			if c.ID == id {
				return do(n, c, half)
			}
		}
		return fmt.Errorf("container %s on %s: %w", id, n.name, cke.ErrNotFound)
	})
}

// Foreign implements cke.Machine.
func (m machine) Foreign(ctx context.Context, id string) (found cke.Container, err error) {
	err = m.byID(ctx, id, "Foreign", false, func(_ *Node, c *container, _ bool) error {
		found = c.seen()
		return nil
	})
	return found, err
}

// StopForeign implements cke.Machine. Half done, the engine's own restarts are off and etcd still runs.
func (m machine) StopForeign(ctx context.Context, id string, peerURLs []string, _ time.Duration) error {
	return m.call(ctx, "StopForeign", true, func(n *Node, half bool) error {
		for _, c := range n.sorted() {
			if c.ID != id {
				continue
			}
			if !c.seen().Carries(peerURLs) {
				return fmt.Errorf("container %s on %s is not that of %s: %w", c.Name, n.name, strings.Join(peerURLs, ", "), cke.ErrConflict)
			}
			n.world.isCeased(c)
			c.keep, c.KeptDown = false, true
			if !half {
				c.stoppedByHand = true
				n.ceases(c)
			}
		}
		return nil
	})
}

// ceases ends a container that cke did not make, which lets go of the ports that it was seen to listen on.
func (n *Node) ceases(c *container) {
	if c.foreign {
		clear(n.taken)
	}
	c.ends(0, "")
}

// isCeased observes a container that cke did not make before a daemon stops it: it carries a member that an operator wants
// to be adopted, and that has left the list.
func (c *checker) isCeased(k *container) {
	if k.seen().Down() || c.world.late {
		return // it changes nothing, or was wanted when it was asked for
	}
	carries := ""
	if v := k.volume(); !k.foreign && v != nil && v.wal != nil {
		carries = hexID(v.wal.id)
	}
	if !c.adopted(carries, k.ID) {
		c.violated("container %s is stopped, and no task adopts its member", k.ID)
	}
	if slices.ContainsFunc(c.world.standing().list, func(l listed) bool { return hexID(l.id) == carries }) {
		c.violated("container %s is stopped while its member is in the list", k.ID)
	}
}

// adopted reports whether an operator wants the member with this id to be adopted, or, where nothing reports any more which one it was,
// any; container: what carries it, or empty.
func (c *checker) adopted(member, container string) bool {
	return slices.ContainsFunc(c.world.store.requests.Tasks, func(t cke.Task) bool {
		return t.Kind == cke.TaskAdopt && t.Adopt != nil && (member == "" || t.Adopt.Member.ID == member) && (container == "" || container == t.Adopt.Container)
	})
}
