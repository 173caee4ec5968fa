package strategy

import (
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/op"
)

// noteReturned: nodes that the order of the restore under way calls destroyed were seen with a member. That goes on record whatever else
// decides: it changes nothing but the record, and what is seen while the restore waits counts as well.
func noteReturned(in *Input) verdict {
	inc := in.Identity.Incarnation
	var nodes []string
	if inc != nil && inc.State == cke.Restoring && inc.Restore != nil {
		nodes = in.Identity.SeenSince(inc.Restore)
		for _, name := range in.seenBeside(inc.Restore) {
			if !slices.Contains(nodes, name) {
				nodes = append(nodes, name)
			}
		}
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
		facts, away := factsOf(now), factsOf(in.awaySince(t.ID, t.Restore.Destroyed, now))
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

// Sightings returns what the observation adds to what was seen of nodes since orders were given that call them destroyed: of orders that
// wait, of restores under way and those that they replace, and of a deletion. over are those on record whose orders are over.
func (in *Input) Sightings() (seen, over []cke.Sighting) {
	open := append([]string{in.Deletion}, in.Requests.Unread...)
	note := func(order string, all []cke.Sighting) {
		for _, s := range all {
			s.Order, s.At = order, in.Seen.ObservedAt
			if !slices.ContainsFunc(slices.Concat(in.Identity.Sighted, seen), s.Same) {
				seen = append(seen, s)
			}
		}
	}
	for _, t := range in.Requests.Tasks {
		if t.Kind == cke.TaskRestore && t.Restore != nil {
			open = append(open, t.ID)
			note(t.ID, in.seenThough(*t.Restore))
		}
	}
	for _, id := range in.Requests.Unread { // whichever nodes it names
		for _, names := range in.names() {
			note(id, in.seenThough(cke.RestoreOrder{Destroyed: names}))
		}
	}
	if in.Deleting && !in.Sealed {
		note(in.Deletion, in.seenThough(in.deletion()))
	}
	var count []cke.Sighting // not on the record of their restores yet
	for inc := in.Identity.Incarnation; inc != nil && inc.State == cke.Restoring && inc.Restore != nil; inc = inc.Restore.Before {
		for _, name := range in.Identity.SeenSince(inc.Restore) {
			count = append(count, cke.Sighting{Order: inc.Restore.ID, Node: name})
		}
		var all []cke.Sighting
		for _, name := range in.seenBeside(inc.Restore) {
			all = append(all, cke.Sighting{Node: name, What: name + " was seen with a member"})
		}
		note(inc.Restore.ID, all)
	}
	for _, s := range in.Identity.Sighted {
		if !slices.Contains(open, s.Order) && !slices.ContainsFunc(count, s.Same) {
			over = append(over, s)
		}
	}
	return seen, over
}

// names are all names that an order may have: those of nodes, with the ids of members, and those of members. Where an order has both, the id counts.
func (in *Input) names() [][]string {
	var ids, names []string
	for _, n := range in.Seen.Nodes {
		ids = append(ids, n.Node.Name())
	}
	for _, j := range in.Identity.MayRun() {
		ids = append(ids, j.Node.Name())
	}
	for _, m := range in.named() {
		ids, names = append(ids, m.ID), append(names, m.Name)
	}
	return [][]string{ids, names}
}

// awaySince is what was seen of nodes since an order was given that calls them destroyed, and is not seen now.
func (in *Input) awaySince(order string, destroyed []string, now []cke.Sighting) (away []cke.Sighting) {
	for _, s := range in.Identity.Sightings(order) {
		if slices.Contains(destroyed, s.Node) && !slices.ContainsFunc(now, func(o cke.Sighting) bool { return o.Node == s.Node }) {
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

// seenBeside names the nodes that the order of a restore under way calls destroyed, and that are seen: they answer with a container that a
// restore has to stop, or only their members answer. Those on record as returned are left out, unless they were fenced since.
func (in *Input) seenBeside(rest *cke.Restoration) (nodes []string) {
	destroyed := rest.Believed().Destroyed
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
	for _, f := range in.unstopped(in.recorded(rest, rest.Believed())) {
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
	for _, f := range in.Identity.Unstopped(cke.MembersIn(slices.Concat(in.lastLists(), in.formerLists()))) {
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
