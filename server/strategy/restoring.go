package strategy

import (
	"fmt"
	"slices"

	"cke"
	"cke/op"
	"cke/quorum"
)

// toFence returns the memberships that may run and every other container on record that is seen on a node that answers,
// apart from those of the bootstrap members. A member is where its container is seen, if that is not where it is on record: machines
// that moved may have the addresses of each other. Another container of the same membership, as on a copy of its disk, comes after it.
func toFence(in *Input, founders []cke.Join) []cke.Join {
	var joins []cke.Join
	add := func(j cke.Join) {
		if !in.silent(j) && !hasJoin(founders, j.ID) && !slices.ContainsFunc(joins, func(o cke.Join) bool { return o.ID == j.ID && o.Node.Address == j.Node.Address }) {
			joins = append(joins, j)
		}
	}
	for _, j := range in.Identity.MayRun() {
		add(in.carrier(in.reached(j)))
	}
	for _, n := range in.Seen.Nodes {
		for _, c := range n.Containers {
			if c.Cluster != in.Spec.Name || !in.Identity.OnRecord(c.Incarnation, c.Join) {
				continue
			}
			j, recorded := in.Identity.Join(c.Join)
			if !recorded {
				j = cke.Join{ID: c.Join, Incarnation: c.Incarnation, Volume: c.Name}
			}
			j.Node = n.Node
			add(j)
		}
	}
	return joins
}

// carrier is a membership at the node that has its container, if the one on which it is on record answers and has nothing of it.
func (in *Input) carrier(j cke.Join) cke.Join {
	at := in.node(j.Node)
	_, there := at.Of(j.ID)
	if _, volume := at.VolumeOf(j); there || volume || !at.Answered() {
		return j
	}
	for _, n := range in.Seen.Nodes {
		if _, there := n.Of(j.ID); there && n.Answered() {
			j.Node = n.Node
			break
		}
	}
	return j
}

// answering are the nodes of the cluster that answer.
func answering(in *Input) (nodes []cke.Node) {
	for _, n := range in.Seen.Nodes {
		if n.Answered() {
			nodes = append(nodes, n.Node)
		}
	}
	return nodes
}

// awaitsRestore reports whether the cluster was declared to be restored, and no restore has started.
func (in *Input) awaitsRestore() bool {
	inc := in.Identity.Incarnation
	return inc != nil && inc.State == cke.Awaiting
}

// restoring: a restore was started and is resumed until the restored members serve. A cluster that was declared to be
// restored waits for an operator: it is never bootstrapped.
func restoring(in *Input) verdict {
	inc := in.Identity.Incarnation
	switch {
	case inc == nil:
		return pass()
	case inc.State == cke.Awaiting:
		p := cke.Problem{Code: cke.CodeAwaiting, Message: "the cluster was declared to be restored, and nothing was restored yet", Remedy: "ckecli restore --from TARGET, or ckecli cluster delete"}
		return wait(p.Message, p)
	case inc.State != cke.Restoring:
		return pass()
	}
	started := in.Identity.Started()
	founders, blockers := restoredMembers(in)
	if started {
		if left := withoutLost(in, founders); left != nil {
			founders, blockers = left, nil
		}
	}
	if len(in.Identity.Joins) == 0 { // a copy of the store may lack them: without members nothing is restored, and nobody is stopped
		blockers = append(blockers, cke.Problem{Code: cke.CodeAwaiting, Message: "no member of the restored cluster is on record", Remedy: "restore again: ckecli restore"})
	}
	for _, u := range in.mayServe() { // it could serve beside the restored members
		blockers = append(blockers, unrecordedProblem(u))
	}
	switch {
	case !started, inc.OnlyCopied() && startedBefore(in) == nil: // what such a cluster had may be removed only now
		blockers = append(blockers, silentBefore(in, func(cke.Join) bool { return true })...)
	case RunningMembers(in) < quorum.Of(len(in.Identity.Joins)): // what was seen again may serve, and the restored members do not
		blockers = append(blockers, silentBefore(in, func(j cke.Join) bool {
			return slices.Contains(inc.Restore.Returned, j.Node.Name()) && !inc.Restore.IsFenced(j)
		})...)
	}
	if !started {
		if why := in.Requests.MayCallOff(); why != "" {
			p := cke.Problem{Code: cke.CodeRecord, Message: why, Remedy: "ckecli task cancel " + in.Requests.Unread[0]}
			if in.Unclosed != nil {
				p.Message, p.Remedy = why+"; "+in.Unclosed.Message, in.Unclosed.Remedy
			}
			blockers = append(blockers, p)
		}
		blockers = append(blockers, startedBefore(in)...)
		if p := in.removedUnless(inc.Restore.Order.Destroyed, "restore again: ckecli restore"); p != nil {
			blockers = append(blockers, *p)
		}
		if outdated := outdatedRestore(in); outdated != nil {
			o, why := cancellation(in)
			if why == nil {
				return act(o, fmt.Sprintf("the %s is canceled: %s", inc.Restore.Order.Kind(), outdated.Message))
			}
			outdated.Remedy = fmt.Sprintf("cke cancels the %s once that is possible: %s", inc.Restore.Order.Kind(), why)
			blockers = append(blockers, *outdated)
		}
	}
	if v := startWithdrawn(in); v.given() {
		return v
	}
	fence := toFence(in, in.Identity.Joins)
	if started && blockers == nil && !in.hasAny(fence) { // what was declared when the restore started may be why they do not start
		if v := in.startAsDeclared(); v.given() && due(in, v.Operation) {
			return v
		}
	}
	if o, stopped := writesStopped(in); stopped && (blockers != nil || due(in, o)) { // if nobody serves, the restore continues
		return act(o, "the restore was interrupted while writes are stopped; clients can write until it stops the members").blocked(blockers)
	}
	if blockers != nil {
		return in.waitsBeside("the restore waits: "+list(blockers), blockers)
	}
	return act(op.Restore{Incarnation: inc.ID, Founders: founders, Fence: fence, Gone: gone(in, in.recorded(inc.Restore, inc.Restore.Order), fence), Called: in.calls(inc.Restore), Known: in.readSince(), Started: started}, "the cluster continues from "+inc.Restore.Order.Describe())
}

// restoredMembers are those of a restore under way, and why the rest can do nothing now.
func restoredMembers(in *Input) (left []cke.Join, lost []cke.Problem) {
	for _, j := range in.Identity.Joins {
		n := in.node(j.Node)
		if !n.Answered() {
			lost = append(lost, *n.Problem)
		} else if p := forgotten(n, j); p != nil && !madeAgain(n, j) {
			p.Remedy = "restore again: ckecli restore"
			lost = append(lost, *p)
		} else {
			left = append(left, in.reached(j))
		}
	}
	return left, lost
}

// withoutLost returns the restored members that answer, if they are a quorum and the rest was waited for: all that was restored
// is served then, and the rest is healed as in any cluster. nil: it is to be waited for. Where only a member does not answer,
// a restore must have failed for it.
func withoutLost(in *Input, founders []cke.Join) []cke.Join {
	all := in.Identity.Joins
	since := in.Seen.ObservedAt.Sub(all[0].StartedAt)
	if since < fencePatience && !wasSetBack(since) {
		return nil
	}
	left := founders
	if f := in.Failures[FailureKey(op.Restore{Founders: founders, Started: true})]; f.Count > 0 {
		left = slices.DeleteFunc(slices.Clone(founders), func(j cke.Join) bool {
			e, asked := in.Seen.Etcd.Endpoint(j.ID)
			failed := slices.ContainsFunc(f.Problems, func(p cke.Problem) bool { return p.Node == j.Node.Name() })
			return failed || asked && (e.Problem != "" || !e.Linearizable)
		})
	}
	if len(left) == len(all) || len(left) < quorum.Of(len(all)) {
		return nil
	}
	return left
}

// startedBefore are restored members that were started. Where no start is on record, the store was brought back from a copy that is
// older than the restored cluster.
func startedBefore(in *Input) []cke.Problem {
	var all []cke.Problem
	for _, j := range in.Identity.Joins {
		n := in.node(j.Node)
		if c, there := n.Of(j.ID); there && n.Answered() && c.EverRan() {
			e := cke.StartedOffRecord(j.Node.Name(), c)
			e.Try += fmt.Sprintf("; only if it was started manually, and the restored cluster has never served: on %s: docker rm -f %s", j.Node.Address, c.Name)
			all = append(all, cke.Problem{Code: e.Code, Node: j.Node.Name(), Message: e.What, Remedy: e.Try})
		}
	}
	return all
}

// ranSince is that a member of the incarnation before was started after the survivor of a recovery was copied; nil: none was.
// What was observed before the copy was made says nothing.
func ranSince(in *Input) *cke.Problem {
	rest := in.Identity.Incarnation.Restore
	for _, j := range in.Identity.Superseded() {
		c, there := in.node(j.Node).Of(j.ID)
		if there && in.node(j.Node).Answered() && rest.RanSince(j, c) && c.StartedAt.After(rest.Ran[j.ID]) {
			return &cke.Problem{Code: cke.CodeFence, Node: j.Node.Name(), Message: cke.StartedSinceCopied(j.Node.Name())}
		}
	}
	return nil
}

// silentBefore are those nodes that may run a member of the incarnation before, and do not answer, and members that no restore stops and that
// were seen.
func silentBefore(in *Input, which func(cke.Join) bool) []cke.Problem {
	var silent []cke.Problem
	rest := in.Identity.Incarnation.Restore
	for _, j := range in.Identity.Superseded() {
		n := in.node(j.Node)
		if n.Answered() || !which(j) || rest.Believed().Excuses(j.Node.Name()) ||
			slices.ContainsFunc(silent, func(p cke.Problem) bool { return p.Node == n.Problem.Node }) {
			continue
		}
		p := *n.Problem
		if slices.Contains(rest.Returned, j.Node.Name()) {
			p.Message += "; it was named as destroyed, and has answered since with its member, which is stopped first"
		}
		if in.Identity.Started() || slices.Contains(rest.Returned, j.Node.Name()) { // it can no longer be canceled, or an operator may know better
			if p.Remedy != "" {
				p.Remedy += "; "
			}
			p.Remedy += "if the machine is gone for good, restore again: ckecli restore --destroyed " + j.Node.Name()
			if in.Identity.Started() { // nothing on record says whether they served
				p.Remedy += "; what the restored members acknowledged since they were started, and no backup has, is lost then"
			}
		}
		silent = append(silent, p)
	}
	for _, f := range in.unstopped(in.recorded(rest, rest.Order)) {
		if slices.Contains(rest.Returned, f.Name) {
			silent = append(silent, cke.Problem{Code: cke.CodeFence, Node: f.Name, Message: fmt.Sprintf("it was named as destroyed, and its member has answered since at %s: no restore stops it", f.URL),
				Remedy: "switch it off, and restore again: ckecli restore --destroyed " + f.Name})
		}
	}
	return silent
}

// due reports whether an operation is not held back after a failure.
func due(in *Input, o op.Operation) bool {
	_, wait := holdBack(in, o, 0)
	return wait <= 0
}

// hasAny reports whether a node that answers has a container of one of these memberships. While one of those to be fenced is there, none
// of the restored members has been started yet.
func (in *Input) hasAny(joins []cke.Join) bool {
	return slices.ContainsFunc(in.Seen.Nodes, func(n cke.NodeStatus) bool {
		return n.Answered() && slices.ContainsFunc(joins, func(j cke.Join) bool { _, there := n.Of(j.ID); return there })
	})
}
