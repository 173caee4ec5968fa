package strategy

import (
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/op"
)

// noteReturned: nodes that the order of the restore under way calls destroyed are seen with a member. That goes on record whatever else
// decides: it changes nothing but the record, and what is seen while the restore waits counts as well.
func noteReturned(in *Input) verdict {
	inc := in.Identity.Incarnation
	var nodes []string
	if inc != nil && inc.State == cke.Restoring && inc.Restore != nil {
		nodes = returned(in)
	}
	if nodes == nil {
		return contradicted(in)
	}
	return act(op.NoteReturned{Incarnation: inc.ID, Nodes: nodes}, fmt.Sprintf("%s: named as destroyed, and seen with a member since; a node that was seen is waited for", and(nodes)))
}

// contradicted: an order waits, whatever for, and nodes that it calls destroyed are seen with a member, or were since it was given. The order
// is refused at once. One that is carried out now counts them; but what is away again cannot be counted.
func contradicted(in *Input) verdict {
	if newlyOlder(in) {
		return pass()
	}
	for _, t := range in.Requests.Tasks {
		if t.Kind != cke.TaskRestore || t.Restore == nil {
			continue
		}
		now := in.seenThough(*t.Restore)
		facts, away := factsOf(now), factsOf(in.awaySince(t.ID, now))
		if facts == nil && away == nil || away == nil && in.decidesNow(t) || in.Seen.Partial && facts == nil {
			continue
		}
		d := refuse(t, &cke.Error{Code: cke.CodeFence, What: "cannot restore: while the order waited, what --destroyed names was seen, and may have served", Facts: append(facts, away...), Unchanged: true,
			Try: "switch it off, or restore without naming it"})
		if due(in, d.Operation) {
			d.Task = t.ID
			return decides(d)
		}
	}
	return pass()
}

// seenThough returns what is seen of members on nodes that an order calls destroyed.
func (in *Input) seenThough(o cke.RestoreOrder) (seen []cke.Sighting) {
	for _, n := range in.Seen.Nodes {
		if slices.Contains(o.Destroyed, n.Node.Name()) && in.stillRuns(n) {
			seen = append(seen, cke.Sighting{Node: n.Node.Name(), What: n.Node.Name() + " answers, and runs a member"})
		}
	}
	for _, j := range in.Identity.MayRun() {
		name, e := in.Identity.NameIn(o.Destroyed, j), in.reply(j)
		if name != "" && (in.answersAs(e.MemberID) || in.answersBeside(j)) {
			seen = append(seen, cke.Sighting{Node: name, What: fmt.Sprintf("the member on %s answers at %s", name, j.ClientURL())})
		}
	}
	for _, f := range in.unstopped(o) {
		if in.seesFormer(f) {
			seen = append(seen, cke.Sighting{Node: f.Name, What: fmt.Sprintf("member %s answers at %s", f.Name, f.URL)})
		}
	}
	return seen
}

// sighted is what was seen of nodes since orders were given that call them destroyed, by the observations up to this one: of orders that wait
// or are carried out, and of restores under way. Whatever runs meanwhile, and whichever daemon leads, it counts once something is decided.
func (in *Input) sighted() (all []cke.Sighting) {
	var orders []string
	add := func(order string, seen []cke.Sighting, counts func(cke.Sighting) bool) {
		orders = append(orders, order)
		for _, s := range slices.Concat(in.Before.Sighted, seen) {
			if s.Order == "" {
				s.Order, s.At = order, in.Seen.ObservedAt
			}
			known := slices.ContainsFunc(all, func(o cke.Sighting) bool { return o.Order == order && o.Node == s.Node })
			if s.Order == order && !known && counts(s) {
				all = append(all, s)
			}
		}
	}
	for _, t := range in.Requests.Tasks {
		if t.Kind == cke.TaskRestore && t.Restore != nil {
			add(t.ID, in.seenThough(*t.Restore), func(cke.Sighting) bool { return true })
		}
	}
	for inc := in.Identity.Incarnation; inc != nil && inc.State == cke.Restoring && inc.Restore != nil; inc = inc.Restore.Before {
		var seen []cke.Sighting
		if inc == in.Identity.Incarnation {
			for _, name := range returned(in) {
				seen = append(seen, cke.Sighting{Node: name, What: name + " was seen with a member"})
			}
		}
		add(inc.Restore.ID, seen, func(s cke.Sighting) bool { return slices.Contains(inc.Restore.Believed().Destroyed, s.Node) })
	}
	for _, s := range in.Before.Sighted { // a daemon that has just started to lead may not know of the order yet
		if !slices.Contains(orders, s.Order) && in.Seen.ObservedAt.Sub(s.At) < orderLasts {
			all = append(all, s)
		}
	}
	return all
}

// awaySince is what was seen of nodes since an order was given, and is not seen now.
func (in *Input) awaySince(order string, now []cke.Sighting) (away []cke.Sighting) {
	for _, s := range in.Before.Sighted {
		if s.Order == order && !slices.ContainsFunc(now, func(o cke.Sighting) bool { return o.Node == s.Node }) {
			s.What = fmt.Sprintf("%s, at %s", s.What, s.At.UTC().Format(time.RFC3339))
			away = append(away, s)
		}
	}
	return away
}

func factsOf(seen []cke.Sighting) (facts []string) {
	for _, s := range seen {
		facts = append(facts, s.What)
	}
	return facts
}

// decidesNow reports whether an order is carried out or refused by what was just seen, or as soon as all was.
func (in *Input) decidesNow(t cke.Task) bool {
	v := restoreAsked(in)
	asked := v.Task == t.ID && v.Operation != nil && due(in, v.Operation)
	return !in.Deleting && (asked || in.Seen.Partial && !in.held())
}

// returned names the nodes that the order of the restore under way calls destroyed, and that are seen, or were: they answer with a container
// that a restore has to stop, or only their members answer. Those on record as returned are left out, unless they were fenced since.
func returned(in *Input) (nodes []string) {
	rest := in.Identity.Incarnation.Restore
	destroyed := rest.Believed().Destroyed
	for _, s := range in.Before.Sighted {
		if s.Order == rest.ID && slices.Contains(destroyed, s.Node) && !slices.Contains(nodes, s.Node) {
			nodes = append(nodes, s.Node)
		}
	}
	add := func(j cke.Join) {
		name := in.Identity.NameIn(destroyed, j)
		if name == "" && rest.IsFenced(j) {
			name = j.Node.Name()
		}
		if name != "" && !slices.Contains(nodes, name) {
			nodes = append(nodes, name)
		}
	}
	for _, j := range toFence(in, in.Identity.Joins) {
		if c, there := in.node(j.Node).Of(j.ID); there && c.EverRan() {
			add(j)
		}
	}
	for _, j := range in.Identity.Superseded() {
		if in.answersBeside(j) {
			add(j)
		}
	}
	for _, f := range in.unstopped(rest.Believed()) {
		if in.seesFormer(f) && !slices.Contains(nodes, f.Name) {
			nodes = append(nodes, f.Name)
		}
	}
	return nodes
}

// answersBeside reports whether the member of a membership answers that the restore under way replaces.
func (in *Input) answersBeside(j cke.Join) bool {
	return slices.ContainsFunc(in.Seen.Etcd.Superseded, func(e cke.EndpointStatus) bool {
		return e.Join == j.ID && in.Identity.Former(j).Answers(e, in.Identity.Incarnation.ClusterID)
	})
}

// seesFormer reports whether a member answers that no membership names.
func (in *Input) seesFormer(f cke.Former) bool {
	next := ""
	if inc := in.Identity.Incarnation; inc != nil && inc.State == cke.Restoring {
		next = inc.ClusterID
	}
	return slices.ContainsFunc(slices.Concat(in.replies(), in.Seen.Etcd.Superseded), func(e cke.EndpointStatus) bool {
		return (e.Join == "" && e.URL == f.URL || e.MemberID == f.ID) && f.Answers(e, next)
	})
}

// gone are the members that may run and that an order calls destroyed, apart from those that are stopped: they are asked before any
// restored member is started.
func gone(in *Input, o cke.RestoreOrder, fence []cke.Join) (all []cke.Former) {
	for _, j := range in.Identity.MayRun() {
		if name := in.Identity.NameIn(o.Destroyed, j); name != "" && !hasJoin(fence, j.ID) {
			f := in.Identity.Former(in.reached(j))
			f.Name = name
			all = append(all, f)
		}
	}
	return append(all, in.unstopped(o)...)
}

// unstopped are the members that an order calls destroyed and that no restore stops: of an old cluster, and foreign ones.
func (in *Input) unstopped(o cke.RestoreOrder) (all []cke.Former) {
	for _, f := range in.Identity.Unstopped(in.lastList()) {
		stops := slices.ContainsFunc(in.allListed(), func(m cke.Member) bool {
			_, stops := in.stopped(m)
			return m.ID == f.ID && stops
		})
		if f.Name = in.calledDestroyed(o, f.ID); f.Name != "" && !stops {
			all = append(all, f)
		}
	}
	return all
}

// stillRuns reports whether a node that an order calls destroyed answers, and runs a member of the cluster.
func (in *Input) stillRuns(n cke.NodeStatus) bool {
	return n.Answered() && slices.ContainsFunc(n.Containers, func(c cke.Container) bool {
		return c.Cluster == in.Spec.Name && (c.Running() || c.State == cke.ContainerRestarting)
	})
}
