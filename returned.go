package cke

import "slices"

// Believed returns the order without what was seen to be wrong in it: a node that answered with its member is not destroyed.
func (r *Restoration) Believed() RestoreOrder {
	o := r.Order
	o.Destroyed = slices.DeleteFunc(slices.Clone(o.Destroyed), func(node string) bool { return slices.Contains(r.Returned, node) })
	return o
}

// Noted returns the restoration once nodes that its order names as destroyed were seen with a member.
func (r Restoration) Noted(nodes ...string) Restoration {
	for _, n := range nodes {
		switch {
		case n == "":
		case !slices.Contains(r.Returned, n):
			r.Returned = With(r.Returned, n)
		case len(r.Fenced) > 0:
			r.Reappeared = With(r.Reappeared, n)
		}
	}
	return r
}

// IsFenced reports whether a membership on a node that was named as destroyed, and answered since, is known to serve no client.
func (r *Restoration) IsFenced(j Join) bool {
	return slices.Contains(r.Fenced, j.ID) && !slices.Contains(r.Reappeared, j.Node.Name())
}

// With returns a set with more in it.
func With[T comparable](all []T, more ...T) []T {
	for _, one := range more {
		if !slices.Contains(all, one) {
			all = append(slices.Clone(all), one)
		}
	}
	return all
}

// NeverRan reports whether a container of a restored member is the one that was there when the start was put on record, and has not run: a
// container that was made again since says nothing of the one before it.
func (r *Restoration) NeverRan(c Container) bool {
	return c.ID != "" && r.Prepared[c.Join] == c.ID && !c.EverRan()
}
