package strategy

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"cke"
	"cke/op"
)

// deleteCluster: an operator asked for it. It needs every member's node, since a member that continues running would be
// a cluster that nobody knows of. An abandoned incarnation is none: too few of its bootstrap members are left to have a quorum.
func deleteCluster(in *Input) verdict {
	if !in.Deleting || newlyOlder(in) || replacedUnseen(in) {
		return pass()
	}
	inc := in.Identity.Incarnation
	if in.awaitsRestore() {
		return act(op.DeleteCluster{}, "deletion was requested; the cluster was declared to be restored, and what its nodes carry stays as it is")
	}
	if why := notWhileImporting(in, "a deletion"); why != nil && len(in.Identity.Joins) > 0 {
		p := cke.Problem{Code: why.Code, Message: why.What, Remedy: fmt.Sprintf("ckecli cluster delete %s --cancel; then %s", in.Spec.Name, why.Try)}
		return wait("the deletion waits: "+p.Message, p)
	}
	if in.awaitsComparison(in.DeletionAt) {
		return decides(Decision{Reason: "the deletion waits until what lies beside the backups was compared with the store", Again: time.Second})
	}
	var blockers []cke.Problem
	var gone []cke.Join
	var joins []cke.Join
	if inc != nil { // else memberships on record are another incarnation's: a restore that was cut off left them
		joins = toFence(in, nil)
	}
	var served []cke.Problem
	for _, j := range append(in.Identity.MayRun(), in.mayBeLeft()...) {
		switch n := in.node(j.Node); {
		case n.Answered():
		case inc == nil || inc.State == cke.Abandoned: // no member is stopped, or none served
		case in.destroyed(n.Node.Name()) || in.destroyed(j.Node.Name()): // the operator confirmed that its machine is gone for good
			gone = append(gone, in.reached(j))
			served = append(served, in.seenServing(n.Node.Name(), j.Node.Name())...)
			if e := in.reply(j); (in.answersAs(e.MemberID) || in.answersBeside(j)) && !in.Sealed { // without SSH, so it would continue to run
				served = append(served, cke.Problem{Code: cke.CodeFence, Node: j.Node.Name(), Message: fmt.Sprintf("it was named as destroyed, and its member answers at %s", j.ClientURL()),
					Remedy: fmt.Sprintf("switch it off, or let cke reach its sshd; or ckecli cluster delete %s --cancel", in.Spec.Name)})
			}
		default:
			p := *n.Problem
			p.Remedy = fmt.Sprintf("bring it back; if its machine is destroyed: ckecli cluster delete %s --destroyed %s", in.Spec.Name, j.Node.Name())
			blockers = append(blockers, p)
		}
	}
	foreign, couldServe := in.leftByDeletion(joins)
	if fact := in.quorumOf(in.goneIn(in.deletion()), in.foreignGone(in.deletion())); fact != "" && served == nil && !slices.ContainsFunc(foreign, func(p cke.Problem) bool { return p.Code == cke.CodeFence }) && !in.Sealed {
		served = append(served, cke.Problem{Code: cke.CodeFence, Message: "what --destroyed names still serves: " + fact,
			Remedy: fmt.Sprintf("switch it off; or ckecli cluster delete %s --cancel", in.Spec.Name)})
	}
	if couldServe { // else they can serve nothing once the rest is stopped
		blockers = slices.Concat(blockers, served, foreign)
	}
	if f := olderStore(in); f != nil && (len(in.mayServe()) > 0 || in.Identity.VotesElsewhere(in.Seen.Etcd)) { // its members would continue running
		if v := reclaimAnswer(in); v.given() {
			return v
		}
		p := f.problem
		for _, u := range append(in.mayServe(), in.elsewhere()...) { // what cannot serve any more is not waited for
			p.Remedy += fmt.Sprintf("; if that is refused, on %s: docker update --restart=no %s && docker stop %s", u.Node.Address, u.Name, u.Name)
		}
		blockers = append(blockers, p)
	}
	if p := in.removedUnless(in.Destroyed, "ckecli cluster delete "+in.Spec.Name); p != nil && !in.Sealed {
		blockers = append(blockers, *p)
	}
	if blockers != nil {
		return in.waitsBeside("deletion waits: "+list(blockers), blockers)
	}
	del := op.DeleteCluster{Joins: joins, Nodes: answering(in), Gone: gone, Deletion: in.Deletion, Down: in.downFor(joins), Sealed: in.Sealed}
	del.Foreign, del.Excused = in.unstopped(in.deletion()), in.excused()
	del.Listed = in.foreignListed()
	if gone != nil || del.Foreign != nil {
		del.CouldServe = couldServe
	}
	return act(del, "deletion was requested; volumes are kept")
}

// foreignListed are the members of all lists that are known that may be foreign, with the ids of the clusters in which a quorum may confirm others. Once
// the members of a restore were started, it has answered for what it replaces.
func (in *Input) foreignListed() (all []cke.MemberList) {
	inc := in.Identity.Incarnation
	if inc == nil {
		return nil
	}
	of, ours := inc.ClusterID, slices.Concat(in.Identity.MayRun(), in.Identity.Ended)
	add := func(lists ...cke.MemberList) {
		for _, l := range lists {
			if l.ClusterID == "" || in.Identity.Started() {
				l.ClusterID = of
			}
			l.Members = slices.DeleteFunc(slices.Clone(l.Members), func(m cke.Member) bool {
				return slices.ContainsFunc(ours, func(j cke.Join) bool { return in.Identity.Certainly(m, j) })
			})
			if len(l.Members) > 0 {
				all = append(all, l)
			}
		}
	}
	add(in.lastLists()...)
	if !in.Identity.Started() {
		of = inc.BeforeRestores().ClusterID
	}
	add(in.formerLists()...)
	for ; inc.State == cke.Restoring && inc.Restore != nil && inc.Restore.Before != nil; inc = inc.Restore.Before {
		add(cke.MemberList{Members: inc.Restore.Members})
		add(inc.Restore.Outside...)
	}
	return all
}

// seenServing is what was seen since the deletion was requested of a node that it calls destroyed, by its names, and that is away again.
func (in *Input) seenServing(names ...string) (served []cke.Problem) {
	for _, s := range in.Identity.Sightings(in.Deletion) {
		if slices.Contains(names, s.Node) && !in.Sealed {
			e := s.Contradicts(in.Spec.Name)
			served = append(served, cke.Problem{Code: e.Code, Node: s.Node, Message: e.What, Remedy: e.Try})
		}
	}
	return served
}

// leftByDeletion reports whether the voters that etcd listed last could be a quorum, in any incarnation that may run, without those that a
// deletion stops. foreign are those of them that nobody named as destroyed, or that answer all the same.
func (in *Input) leftByDeletion(stops []cke.Join) (foreign []cke.Problem, couldServe bool) {
	lives := map[string][]cke.Join{}
	for _, j := range in.Identity.MayRun() {
		lives[j.Incarnation] = append(lives[j.Incarnation], j)
	}
	for _, life := range slices.Sorted(maps.Keys(lives)) {
		left := slices.ContainsFunc(lives[life], func(j cke.Join) bool { return !hasJoin(stops, j.ID) })
		for _, l := range in.listsOf(life) {
			b, strange := in.leftOf(l, lives[life], stops)
			if l.Members == nil && left || b.of() > 0 {
				foreign, couldServe = append(foreign, strange...), true
			}
		}
	}
	if in.Sealed {
		foreign = nil
	}
	return foreign, couldServe
}

// leftOf is who could continue by one member list; foreign is why a deletion waits for those of them that no membership names.
func (in *Input) leftOf(l cke.MemberList, joins, stops []cke.Join) (b ballot, foreign []cke.Problem) {
	b.changing = l.Source != cke.MembersLinearizable
	for _, m := range l.Members {
		ours, down := in.downAs(m, joins, stops)
		b.count(nameOf(m), !m.Learner, !down)
		if p := in.foreignLeft(m); !ours && !down && !m.Learner && p != nil {
			foreign = append(foreign, *p)
		}
	}
	return b, foreign
}

// downAs reports whether a listed member is of cke, by these memberships and those that ended, and whether it cannot serve after a deletion.
func (in *Input) downAs(m cke.Member, joins, stops []cke.Join) (ours, down bool) {
	_, down = in.stopped(m)
	down = down || in.staysDown(m)
	for _, j := range slices.Concat(joins, in.Identity.Ended) {
		if in.is(m, j) {
			ours, down = true, down || hasJoin(stops, j.ID)
		}
	}
	return ours, down
}

// downFor are the ids of the listed members that cannot serve after a deletion, where none of its memberships has that id.
func (in *Input) downFor(stops []cke.Join) (ids []string) {
	for _, m := range in.allListed() {
		known := slices.Contains(ids, m.ID) || slices.ContainsFunc(stops, func(j cke.Join) bool { return j.MemberID == m.ID })
		if _, down := in.downAs(m, in.Identity.MayRun(), stops); down && !known {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// staysDown reports whether a member is down for good: its container is on a node that answers, does not run, and is not started by its engine.
// One that answers is not, whatever lies on its node. A container that is only known by the peer URLs of the member excuses it only if nothing has that
// port: the member may run outside a container by now.
func (in *Input) staysDown(m cke.Member) bool {
	if slices.ContainsFunc(in.replies(), func(e cke.EndpointStatus) bool {
		return e.Problem == "" && (e.MemberID == m.ID || slices.Contains(m.ClientURLs, e.URL))
	}) {
		return false
	}
	down := false
	for _, n := range in.Seen.Nodes {
		for _, c := range n.Containers {
			if !n.Answered() || !c.Carries(m.PeerURLs) && !in.madeFor(n, c, m) {
				continue
			}
			if known := in.Identity.Has(c.Join); !c.Down() || !known && !in.peerClosed(n, m) {
				return false
			}
			down = true
		}
	}
	return down
}

// peerClosed reports whether nothing listens at the peer URLs of a member on a node, as far as cke looks at ports.
func (in *Input) peerClosed(n cke.NodeStatus, m cke.Member) bool {
	return n.PeerPort == cke.PortClosed && !slices.ContainsFunc(m.PeerURLs, func(url string) bool {
		_, port := cke.HostPort(url)
		return port != in.Spec.Options.Etcd.PeerPort
	})
}

// madeFor reports whether cke made a container for a member: by the member id of its membership, since a foreign member may have the same URLs. Of
// a membership that is not on record the id is not known, so the member has to have the name, too, that cke would give it there.
func (in *Input) madeFor(n cke.NodeStatus, c cke.Container, m cke.Member) bool {
	switch {
	case c.Cluster != in.Spec.Name:
		return false
	case in.Identity.Has(c.Join):
		return slices.ContainsFunc(slices.Concat(in.Identity.Joins, in.Identity.Ended), func(j cke.Join) bool {
			return j.ID == c.Join && j.MemberID != "" && j.MemberID == m.ID
		})
	}
	return m.Name == n.Node.Name() && slices.Contains(m.PeerURLs, c.PeerURL())
}

// foreignLeft is why a deletion waits for a foreign member; nil: it does not.
func (in *Input) foreignLeft(m cke.Member) *cke.Problem {
	name, cancel := in.calledDestroyed(in.deletion(), m.ID), fmt.Sprintf("ckecli cluster delete %s --cancel", in.Spec.Name)
	switch {
	case name == "":
		name = in.nameable(in.deletion(), m)
		return &cke.Problem{Code: cke.CodeStranger, Node: name, Message: fmt.Sprintf("a deletion does not stop the foreign member at %s, which could serve without those that it stops", hostOf(m)),
			Remedy: fmt.Sprintf("remove it with etcdctl; if it is gone for good: ckecli cluster delete %s --destroyed %s; or %s", in.Spec.Name, name, cancel)}
	case in.answersAs(m.ID):
		return &cke.Problem{Code: cke.CodeFence, Node: name, Message: fmt.Sprintf("it was named as destroyed, and the foreign member answers at %s", hostOf(m)),
			Remedy: fmt.Sprintf("switch it off, or remove it with etcdctl; or %s", cancel)}
	}
	if seen := in.seenServing(name); seen != nil {
		return &seen[0]
	}
	return nil
}

// mayBeLeft are memberships that ended, one for each node of the file that does not answer and carries no other one: their containers may be
// left there, and once the cluster is deleted nothing would stop them. A machine whose address was given up is looked at no more.
func (in *Input) mayBeLeft() (left []cke.Join) {
	for _, j := range in.Identity.Ended {
		on := func(o cke.Join) bool { return o.Node.Address == j.Node.Address }
		silent := slices.ContainsFunc(in.Spec.Nodes, func(n cke.Node) bool { return n.Address == j.Node.Address && !in.node(n).Answered() })
		if silent && j.RemovedAt.IsZero() && !slices.ContainsFunc(in.Identity.MayRun(), on) && !slices.ContainsFunc(left, on) {
			left = append(left, j)
		}
	}
	return left
}

// destroyed reports whether the operator who asked for the deletion named a machine as gone for good, by a name that means no other one.
func (in *Input) destroyed(name string) bool {
	return slices.Contains(in.Destroyed, name) && in.misnamed(name) == nil
}
