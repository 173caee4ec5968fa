package keep

import (
	"maps"
	"slices"

	"cke"
	"cke/sabakan"
)

// noteRolledBack finds changes that the operator has undone: the machine that had to go is back, the new one is gone, or a node is
// described as before. That is dated, so it waits while the clock may be wrong: nothing is changed meanwhile.
func (w *work) noteRolledBack(k cke.InventoryWanted) {
	if sabakan.ClockDoubt(k.Status) != "" {
		return
	}
	spec, now, changes := k.Spec, w.c.Now().UTC(), slices.Clone(w.after.Changes)
	for i := range changes {
		c := &changes[i]
		if c.RolledBackAt.IsZero() && spec.Generation > c.Generation && !reversed(*c, changes[i+1:]) && undone(*c, changes[i+1:], spec.Cluster) {
			c.RolledBackAt = now
		}
	}
	w.after.Changes, w.past.Changes = changes, changes
}

// reversed reports whether later changes of the inventory took the new machine away, or brought the old one back. One that moved is
// where it was.
func reversed(c cke.InventoryChange, later []cke.InventoryChange) bool {
	return slices.ContainsFunc(later, func(o cke.InventoryChange) bool {
		return o.Cause != cke.CauseMoved && (o.Old != "" && o.Old == c.New || o.New != "" && o.New == c.Old)
	})
}

// undone reports whether a cluster file is as it was before a change, as far as the machines of that change go. What later changes of
// the inventory replaced says nothing.
func undone(c cke.InventoryChange, later []cke.InventoryChange, now cke.Cluster) bool {
	declared := func(serial string) (declared, carries bool) {
		for _, n := range now.Nodes {
			if serial != "" && (n.Annotations[cke.AnnotationSerial] == serial || n.Hostname == serial) {
				return true, n.ControlPlane
			}
		}
		return false, false
	}
	isOld, oldCarries := declared(c.Old)
	isNew, newCarries := declared(c.New)
	switch c.Cause {
	case cke.CauseBootstrap, cke.CauseTemplate:
		return false
	case cke.CauseDescribed, cke.CauseMoved:
		return restored(c, later, now)
	case cke.CauseSpare:
		return (c.New == "" || !isNew) && (c.Old == "" || isOld)
	}
	return (c.New == "" || !newCarries) && (c.Old == "" || oldCarries)
}

// fields are what an inventory says of a node that is declared, by name.
func fields(n cke.Node) map[string]string {
	all := map[string]string{"address": n.Address, "zone": n.Zone}
	for key, value := range n.Labels {
		all["labels."+key] = value
	}
	for key, value := range n.Annotations {
		all["annotations."+key] = value
	}
	return all
}

// replaced returns what a change replaces of nodes, by their names before: see InventoryChange.Before.
func replaced(was, is cke.Cluster) map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, n := range is.Nodes {
		serial := n.Annotations[cke.AnnotationSerial]
		i := slices.IndexFunc(was.Nodes, func(old cke.Node) bool {
			return n.Name() == old.Name() || serial != "" && serial == old.Annotations[cke.AnnotationSerial]
		})
		if i < 0 {
			all[n.Name()] = map[string]string{}
			continue
		}
		before, now := fields(was.Nodes[i]), fields(n)
		for field := range now {
			before[field] += "" // where there was none
		}
		maps.DeleteFunc(before, func(field, value string) bool { return now[field] == value })
		if len(before) > 0 {
			all[was.Nodes[i].Name()] = before
		}
	}
	return all
}

// restored reports whether a field of a node is as it was before a change, and none of the later ones did that.
func restored(c cke.InventoryChange, later []cke.InventoryChange, now cke.Cluster) bool {
	for _, n := range now.Nodes {
		is := fields(n)
		for field, value := range c.Before[n.Name()] {
			again := func(o cke.InventoryChange) bool {
				before, changed := o.Before[n.Name()]
				_, replaces := before[field]
				return changed && (replaces || len(before) == 0)
			}
			if is[field] == value && !slices.ContainsFunc(later, again) {
				return true
			}
		}
	}
	return false
}
