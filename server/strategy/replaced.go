package strategy

import (
	"fmt"
	"slices"

	"cke"
	"cke/quorum"
)

// lastToRun is the newest incarnation on record that a restore of a declared cluster replaces, and of which a member was started, by the
// record or by what nodes show. What was before it is over, also where the copied record has members of it.
func (in *Input) lastToRun() string {
	lives := in.Identity.Incarnation.BeforeRestores().Replaced
	if at := in.Identity.LastStarted(lives, in.everRan); at >= 0 {
		return lives[at]
	}
	return ""
}

// everRan reports whether a node that answers has a container of an incarnation that was started.
func (in *Input) everRan(life string) bool {
	return slices.ContainsFunc(in.Seen.Nodes, func(n cke.NodeStatus) bool {
		return n.Answered() && slices.ContainsFunc(n.Containers, func(c cke.Container) bool {
			return c.Cluster == in.Spec.Name && c.Incarnation == life && c.EverRan()
		})
	})
}

// isOver reports whether a mark on a node that answers names an incarnation as over.
func (in *Input) isOver(life string) bool {
	return slices.ContainsFunc(in.Seen.Nodes, func(n cke.NodeStatus) bool { return n.Answered() && in.Identity.Incarnation.OverBy(n.Over, life) })
}

// precedes reports whether an incarnation that only nodes know of came before the last one on record that ran. A quorum of that runs: what
// had replaced it would have stopped it, and marked it as over. Otherwise either may be the later one.
func (in *Input) precedes(life string) bool {
	last, members, running := in.lastToRun(), 0, 0
	for _, j := range in.Identity.MayRun() {
		if j.Incarnation != last || j.StartedAt.IsZero() {
			continue
		}
		members++
		if runs(in, j) {
			running++
		}
	}
	return members > 0 && running >= quorum.Of(members) && !in.isOver(last) && !in.servesBeside(life)
}

// servesBeside reports whether a member of an incarnation that only nodes know of serves, by a member list without any member on record.
func (in *Input) servesBeside(life string) bool {
	known := func(m cke.Member) bool {
		return slices.ContainsFunc(slices.Concat(in.Identity.Joins, in.Identity.Ended), func(j cke.Join) bool { return j.MemberID == m.ID })
	}
	return slices.ContainsFunc(in.Seen.Etcd.Elsewhere, func(e cke.Elsewhere) bool {
		return e.Source == cke.MembersLinearizable && !slices.ContainsFunc(e.Members, known) && slices.ContainsFunc(in.Seen.Nodes, func(n cke.NodeStatus) bool {
			c, there := n.Of(e.Join)
			return there && n.Answered() && c.Place == e.Place && c.Incarnation == life
		})
	})
}

// endedBefore reports whether a restore under way has an incarnation on record as earlier than another one.
func (in *Input) endedBefore(life, other string) bool {
	replaced := in.Identity.Incarnation.Replaced
	return slices.Index(replaced, life) < slices.Index(replaced, other)
}

// replacedSince is why the last incarnation on record that ran is over, or may be; "": nothing says so.
func (in *Input) replacedSince(last string) (why string, over bool) {
	inc := in.Identity.Incarnation
	if in.isOver(last) {
		return "a mark on a node names its incarnation as over", true
	}
	for _, life := range inc.Replaced[slices.Index(inc.Replaced, last)+1:] {
		switch {
		case inc.BeforeRestores().WasReplaced(life):
			if in.mayHaveStarted(life) {
				why = fmt.Sprintf("incarnation %s, whose nodes do not answer, may have been started since %s", life, last)
			}
		case in.servesBeside(life):
			return fmt.Sprintf("incarnation %s serves, which is not on record", life), true
		case in.everRan(life) || slices.ContainsFunc(in.Seen.Nodes, func(n cke.NodeStatus) bool { return !n.Answered() && !in.isDestroyed(n.Node) }):
			why = fmt.Sprintf("incarnation %s, which only nodes have, may be newer than %s", life, last)
		}
	}
	return why, false
}

// mayHaveStarted reports whether a quorum of an incarnation on record is on nodes that do not answer: it may have served since the copied
// record was made, in which it was prepared.
func (in *Input) mayHaveStarted(life string) bool {
	members, silent := 0, 0
	for _, j := range in.Identity.Superseded() {
		if j.Incarnation == life {
			members++
			if in.silent(j) && !in.isDestroyed(j.Node) {
				silent++
			}
		}
	}
	return members > 0 && silent >= quorum.Of(members)
}

// isDestroyed reports whether the order of the restore under way says that a machine is gone for good.
func (in *Input) isDestroyed(n cke.Node) bool {
	return slices.Contains(in.Identity.Incarnation.Restore.Believed().Destroyed, n.Name())
}

// mayHaveServed reports whether a volume is of a membership that is not on record, and that a restore of a declared cluster may have stopped:
// of the incarnation that was copied, or of one that only the nodes knew of. A member on record may have ended before it.
func (in *Input) mayHaveServed(v cke.Volume, last string) bool {
	inc := in.Identity.Incarnation
	copied := slices.ContainsFunc(in.Identity.Superseded(), func(j cke.Join) bool { return j.Incarnation == v.Incarnation })
	return !in.Identity.Has(v.Join) && inc.WasReplaced(v.Incarnation) && (copied || !inc.Restore.Before.WasReplaced(v.Incarnation)) && !in.endedBefore(v.Incarnation, last)
}
