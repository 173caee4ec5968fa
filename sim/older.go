package sim

import (
	"fmt"
	"slices"

	"cke"
)

// BecomeOlder makes the daemon one of an earlier version of cke, which does not know fields that were added to documents since.
// The store carries these over when it writes. Source: storage/carry.go.
func (d *Daemon) BecomeOlder() {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	d.older = true
	d.world.log("daemon %d is of an earlier version", d.number)
}

// SetSpecEarlier stores a cluster file with a ckecli of an earlier version: version and image are left open, and follow from what
// runs.
func (s *Store) SetSpecEarlier(c cke.Cluster) {
	s.world.change("the operator sets the cluster file with an earlier ckecli", func() {
		if s.world.refusesFile(c) {
			return
		}
		s.spec.Cluster, s.spec.Etcd, s.spec.SetAt = c, cke.Release{}, s.world.now()
		s.spec.Generation++
	})
}

// LetOlderLead lets daemons lead that do not know of members that are put aside, or none of them. Source: storage, SchemaVersion.
func (s *Store) LetOlderLead(may bool) {
	s.world.change(fmt.Sprintf("older daemons may lead: %v", may), func() { s.olderLead = may })
}

// IsOlder reports whether the daemon is one of an earlier version.
func (d *Daemon) IsOlder() bool { return d.older }

// DropUnknown lets older daemons erase what they do not know.
func (s *Store) DropUnknown() {
	s.world.change("the store carries nothing over", func() { s.drops = true })
}

// known is what a daemon knows of an identity.
func (d *Daemon) known(id cke.Identity) cke.Identity {
	if !d.older {
		return id
	}
	for _, joins := range [][]cke.Join{id.Joins, id.Ended} {
		for i := range joins {
			joins[i] = carried(joins[i], cke.Join{})
		}
	}
	return id
}

// carry is what becomes of a membership that a daemon writes, where others are stored.
func (d *Daemon) carry(stored []cke.Join, j cke.Join) cke.Join {
	i := slices.IndexFunc(stored, func(o cke.Join) bool { return o.ID == j.ID })
	switch {
	case !d.older:
		return j
	case i < 0 || d.world.store.drops:
		return carried(j, cke.Join{})
	}
	return carried(j, stored[i])
}

// carried is a membership with what older daemons do not know as it is in another one.
func carried(j, from cke.Join) cke.Join {
	j.Made, j.Newest = from.Made, from.Newest
	return j
}

// wereCarried looks for what an older daemon erased.
func (c *checker) wereCarried(by *Daemon, before, after cke.Identity) {
	for _, j := range slices.Concat(before.Joins, before.Ended) {
		for _, next := range slices.Concat(after.Joins, after.Ended) {
			if by.older && next.ID == j.ID && (j.Made != nil && next.Made == nil || next.Newest < j.Newest) {
				c.violated("a daemon of an earlier version erases what a later one put on record of %s", j.Node.Name())
			}
		}
	}
}
