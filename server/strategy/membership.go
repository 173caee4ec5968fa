package strategy

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"cke"
	"cke/op"
)

// Bounds of what a learner may take.
const (
	// withdrawAfter is how often adding a member may fail before its learner is withdrawn and a new one is tried, and how
	// often that one may fail.
	withdrawAfter = 5
)

// listUnknown: what follows needs a member list that was read through a quorum.
func listUnknown(in *Input) verdict {
	if in.Seen.Etcd.MembersSource == cke.MembersLinearizable {
		return pass()
	}
	return wait("no member list could be read through a quorum yet")
}

// endedMembership: a member was in the member list and has left it. Either cke removed it and was interrupted, or
// somebody else did; its data no longer counts. Without a member id on record, adding it continues.
func endedMembership(in *Input) verdict {
	for _, j := range in.Identity.Joins { // a list that a serving member is missing from ends nobody
		if _, there := in.listed(j); there {
			continue
		}
		if e, _ := in.Seen.Etcd.Endpoint(j.ID); !in.Identity.PutAside(j.ID) && e.MemberID == j.MemberID && e.Serves(in.Identity.Incarnation.ClusterID) {
			return wait(fmt.Sprintf("the member of %s is not in the member list that was read, but serves: its membership stays active while it does", j.Node.Name()),
				cke.Problem{Code: cke.CodeSplitBrain, Node: j.Node.Name(), Message: "it serves, but is not in the member list that another member returns", Remedy: cke.WayOut(cke.CodeSplitBrain)})
		}
	}
	for _, j := range in.Identity.Joins {
		// Without an id on record, who is at its peer URL may be its member, as far as the list reports.
		stands := slices.ContainsFunc(in.Seen.Etcd.Members, func(m cke.Member) bool {
			return m.Of(j) || !j.StartedAt.IsZero() && op.MayBe(m, j) && in.joinOf(m) == nil
		})
		if stands || j.StartedAt.IsZero() && j.MemberID == "" && declaredFree(in, j) {
			continue
		}
		// A store that is older than the cluster has voters without a start: only where no volume is left there is nothing to keep.
		n := in.node(j.Node)
		_, volume := n.VolumeOf(j)
		j.NeverVoted = j.NeverVoted || j.StartedAt.IsZero() && n.Answered() && !volume
		end := op.EndMembership{Join: j, Silent: in.silent(j), Agreed: in.leavers(j)}
		if missing := op.Unproved(in.Seen.Etcd.Members, in.Identity, end.Agreed); missing != nil && (len(in.Identity.Joins) > 1 || in.importing() != nil) {
			var problems []cke.Problem
			for _, m := range missing {
				first := ""
				if _, wanted := in.declared(m); !wanted {
					first = fmt.Sprintf("name it in the cluster file again, with the address %s, then ", m.Node.Address)
				}
				problems = append(problems, cke.Problem{Code: cke.CodeSplitBrain, Node: m.Node.Name(), Message: "the member list that was read lacks it, and has no quorum of the members on record: a second cluster may serve",
					Remedy: fmt.Sprintf("`ckecli cluster evidence` shows what each member answers; if it was removed from the list on purpose: %sckecli replace %s", first, m.Node.Name())})
			}
			return wait(fmt.Sprintf("the member list that was read lacks %s, and has no quorum of the members on record: it may be that of a second cluster", namesOf(missing)), problems...)
		}
		if !in.Identity.OthersVote(in.Seen.Etcd.Members, j.ID) {
			return wait(fmt.Sprintf("etcd lists no voter on record: the membership of %s is not ended, since cke could reach no other member", j.Node.Name()),
				in.noOtherVotes(j, "its member is not in the member list, and no other membership on record votes"))
		}
		had, v := in.awaitElection()
		if v.given() {
			return v
		}
		end.Leaderless = had
		return act(end, fmt.Sprintf("the member of %s is no longer in the member list", j.Node.Name())).alone()
	}
	return pass()
}

// lastOnRecord reports whether foreign members vote and no membership on record but one: without it cke could reach no member.
func (in *Input) lastOnRecord(j cke.Join, m cke.Member) bool {
	return (in.votes() > 1 || m.Learner) && !in.Identity.OthersVote(in.Seen.Etcd.Members, j.ID)
}

func (in *Input) noOtherVotes(j cke.Join, message string) cke.Problem {
	return cke.Problem{Code: cke.CodeStranger, Node: j.Node.Name(), Message: message,
		Remedy: fmt.Sprintf("bring back a newer copy of the store; or store the newest cluster file, then: ckecli cluster reclaim %s; or, for a member that another tool added: ckecli etcd adopt NODE", in.Spec.Name)}
}

func hasJoin(joins []cke.Join, id cke.JoinID) bool {
	return slices.ContainsFunc(joins, func(j cke.Join) bool { return j.ID == id })
}

// markEnded: a membership ended while its node could not be marked, or its member was put aside.
func markEnded(in *Input) verdict {
	for _, j := range in.Identity.Unmarked(in.Seen.Nodes) {
		return markIt(in, j)
	}
	return pass()
}

func markIt(in *Input, j cke.Join) verdict {
	return act(op.MarkEnded{Join: in.reached(j)}, fmt.Sprintf("a mark on %s is missing that its membership %s ended or is put aside", j.Node.Name(), j.ID)).patient(purgeAgain)
}

// declaredFree: the membership was recorded and its node is still wanted, so that adding it continues.
func declaredFree(in *Input, j cke.Join) bool {
	_, wanted := in.declared(j)
	return wanted
}

// removeUnhealthy: an unhealthy member on a node that is no declared control plane, or a learner, which costs nothing.
func removeUnhealthy(in *Input) verdict { return removeUndeclared(in, false) }

// removeHealthy: a healthy one, once there are as many others as are declared; leadership is moved away first.
func removeHealthy(in *Input) verdict { return removeUndeclared(in, true) }

func removeUndeclared(in *Input, healthy bool) verdict {
	stays := pass()
	for j := range inTurn(in) {
		m, there := in.listed(j)
		if _, wanted := in.declared(j); wanted || !there || (!m.Learner && servesAnywhere(in, m)) != healthy {
			continue
		}
		if _, moving := in.moving(j); moving && !m.Learner {
			continue // its data may be on its machine, at another address
		}
		if g := mayRemove(in, m); g != open {
			return wait(fmt.Sprintf("%s, and removing its member waits: %s", in.notWanted(j), g),
				cke.Problem{Code: cke.CodeQuorum, Node: j.Node.Name(), Message: string(g)})
		}
		if missing := lacking(in, m); healthy && missing != nil {
			return wait(fmt.Sprintf("%s is no longer a control-plane node, and its member stays until there is one on %s", j.Node.Name(), nodesOf(missing)), missing...)
		}
		if in.lastOnRecord(j, m) { // adding one below may end that
			stays = note(fmt.Sprintf("%s is no longer a control-plane node, and its member stays: no other membership on record votes", j.Node.Name()),
				in.noOtherVotes(j, "no other membership on record votes"))
			continue
		}
		gone := j
		return act(op.RemoveMember{Member: m, Join: &gone, Silent: in.silent(j), Declared: in.toCarry(m)}, in.notWanted(j)).voluntary()
	}
	return stays
}

// replaceLost: a member's data is provably gone for longer than the grace. Its entry is removed; the node then gets a
// new membership with a volume of its own.
func replaceLost(in *Input) verdict {
	type loss struct {
		join   cke.Join
		member cke.Member
		wait   time.Duration
	}
	var lost []loss
	var gone []cke.Problem
	for j := range inTurn(in) {
		m, there := in.listed(j)
		p := dataProblem(in, j)
		if !there || p == nil || m.Learner { // a learner holds nothing that others do not
			continue
		}
		if in.Spec.Policies.Replace.Mode == cke.ReplaceManual {
			p.Remedy = "bring the volume back, or give it up: ckecli replace " + j.Node.Name()
		}
		gone = append(gone, *p)
		lost = append(lost, loss{j, m, time.Duration(in.Spec.Policies.Replace.Grace) - in.missingFor(j)})
	}
	if lost == nil {
		return pass()
	}
	told := "the data of a member is gone, and it is never started empty: " + list(gone)
	if in.Spec.Policies.Replace.Mode == cke.ReplaceManual {
		return note(told+"; it is replaced when an operator requests it (replace: manual)", gone...)
	}
	if why := ClocksIn(in.Seen).Why(); why != "" {
		return note(told+"; for how long is not known: "+why, gone...)
	}
	slices.SortStableFunc(lost, func(a, b loss) int { return cmp.Compare(a.wait, b.wait) })
	first := lost[0]
	if first.wait > 0 {
		return note(fmt.Sprintf("%s; %s is replaced in %s unless its data comes back", told, first.join.Node.Name(), first.wait.Round(time.Second)), gone...).again(min(first.wait, lastRetry))
	}
	why := ""
	for _, l := range lost { // what one waits for may be another one
		if l.wait > 0 {
			break
		}
		name, g, missing := l.join.Node.Name(), mayRemove(in, l.member), lacking(in, l.member)
		switch {
		case missing != nil && hollow(in, l.member): // it serves: it stays while others are fewer than declared
			why = cmp.Or(why, fmt.Sprintf("%s stays until there is a member on %s, or `ckecli replace %s` is requested", name, nodesOf(missing), name))
		case g != open:
			why = cmp.Or(why, fmt.Sprintf("replacing %s waits: %s", name, g))
		case in.lastOnRecord(l.join, l.member):
			why = cmp.Or(why, fmt.Sprintf("%s is not replaced: no other membership on record votes", name))
			gone = append(gone, in.noOtherVotes(l.join, "no other membership on record votes"))
		default:
			return act(op.RemoveMember{Member: l.member, Join: &l.join, Silent: in.silent(l.join), Repair: declaredFree(in, l.join), Declared: in.toCarry(l.member)}, fmt.Sprintf("the data of %s is gone; a new member takes its place", name))
		}
	}
	return note(told+"; "+why, gone...)
}

// missingFor is for how long looks have told that the member's data is missing.
func (in *Input) missingFor(j cke.Join) time.Duration {
	for _, m := range in.Before.Members {
		if m.Join == j.ID && m.State == "missing" {
			return in.watched(m)
		}
	}
	return 0
}

// finishAdding: a membership was started on a declared node, and its member is not there yet. It goes before everything
// that a change in flight keeps waiting; what the member list holds already goes before what was only recorded.
func finishAdding(in *Input) verdict {
	var all []verdict
	for _, inList := range []bool{true, false} {
		for _, j := range in.Identity.Joins {
			n, wanted := in.declared(j)
			if _, there := in.listed(j); !wanted || there != inList {
				continue
			}
			if v := resumeAdding(in, n, j); v.given() {
				all = append(all, v)
			}
		}
	}
	return firstFree(in, all)
}

// firstFree returns the first verdict with an operation that is not held back after a failure, else the first one with
// an operation, else the first one.
func firstFree(in *Input, all []verdict) verdict {
	if all == nil {
		return pass()
	}
	rank := func(v verdict) int {
		if v.Operation == nil {
			return 2
		}
		if _, wait := holdBack(in, v.Operation, 0); wait > 0 {
			return 1
		}
		return 0
	}
	return slices.MinFunc(all, func(a, b verdict) int { return cmp.Compare(rank(a), rank(b)) })
}

// addMember: a declared control-plane node carries no member. One that cannot take a member does not keep others
// waiting.
func addMember(in *Input) verdict {
	if in.Identity.ImportsFirst() {
		if blockers := bootstrapGate(in); blockers != nil {
			return note("no member is added to the old cluster yet: "+list(blockers), blockers...)
		}
	}
	var all []verdict
	for _, n := range in.Spec.ControlPlane() {
		if _, carries := in.Identity.On(n); carries || in.awaits(n) || strangerGoes(in, n) {
			continue
		}
		v := addOn(in, n)
		if p, again := in.triedInVain(n); p != nil && v.Operation != nil {
			v = note(p.Message, *p).again(again)
		}
		if v.given() {
			all = append(all, v)
		}
	}
	v := firstFree(in, all)
	v.Operation = asOthersRun(in, v.Operation)
	return v
}

// repaired returns the last membership that ended on a node, if it was removed for lost data or did not start: the
// member that takes its place is no change that anybody asked for.
func (in *Input) repaired(n cke.Node) (cke.Join, bool) {
	var last cke.Join
	for _, j := range in.Identity.Ended {
		if j.Node.Address == n.Address && in.Identity.Incarnation.Life(j.Incarnation) && !j.EndedAt.Before(last.EndedAt) {
			last = j
		}
	}
	return last, last.Repair
}

// asOthersRun lets a member that takes the place of a lost one run as the leader's does while the file waits for consent:
// what the file declares is not agreed to yet. Its volume and its ports are as they were.
func asOthersRun(in *Input, o op.Operation) op.Operation {
	add, is := o.(op.AddMember)
	if !is {
		return o
	}
	lost, repairs := in.repaired(add.Node)
	if why, _ := noConsent(in); !repairs || why == "" {
		return o
	}
	for j := range inTurn(in) { // the leader's is the last one
		add.Etcd = op.Lasting(j.Etcd)
	}
	add.Etcd = add.Etcd.PlacedAs(lost.Etcd)
	return add
}

// strangerGoes reports whether a node carries a foreign member that is to be removed: it takes no member before.
func strangerGoes(in *Input, n cke.Node) bool {
	return slices.ContainsFunc(in.strangersAt(n.Address), func(m cke.Member) bool {
		return in.Spec.Policies.Foreign == cke.ForeignRemove || in.onceOurs(m)
	})
}

// addOn adds a member on a control-plane node that carries none.
func addOn(in *Input, n cke.Node) verdict {
	s := in.node(n)
	if !s.Answered() || in.drained(n) != nil {
		return pass() // it may hold data, or go down; another node may be added meanwhile
	}
	if found := slices.Concat(strangersOn(in, n), straysOn(in, s), unrecordedOn(in, n), foreign(s, ""), takenPorts(in, s)); len(found) > 0 {
		return note(fmt.Sprintf("%s cannot take a member: %s", n.Name(), list(found)), found...)
	}
	etcd := in.newOptions()
	if why := mayJoin(in, etcd.Version); why != "" {
		return note(fmt.Sprintf("no member is added on %s: %s", n.Name(), why), cke.Problem{Code: cke.CodeNotApplied, Node: n.Name(), Message: why})
	}
	if g := mayAdd(in, 0); g != open {
		return note(fmt.Sprintf("adding a member on %s waits: %s", n.Name(), g), cke.Problem{Code: cke.CodeQuorum, Node: n.Name(), Message: string(g)})
	}
	add := op.AddMember{Node: n, Etcd: etcd}
	if in.Identity.ImportsFirst() {
		add.Target = in.Spec.Backup.Target
	}
	return act(add, fmt.Sprintf("%s is a control-plane node and carries no member", n.Name())).voluntary()
}

func resumeAdding(in *Input, n cke.Node, j cke.Join) verdict {
	m, there := in.listed(j)
	if there && (!m.Learner || m.Name != "" && healthyMember(in, m)) {
		return pass()
	}
	add := op.AddMember{Node: n, Etcd: j.Etcd, Resume: j.ID}
	pending := 0
	if there {
		pending = 1
	}
	if failed := in.Failures[FailureKey(add)].Count; there && failed > 0 && failed%withdrawAfter == 0 {
		gone := j
		return act(op.RemoveMember{Member: m, Join: &gone, Silent: in.silent(j), Repair: true}, fmt.Sprintf("the learner on %s failed to start %d times; a new one is tried", n.Name(), withdrawAfter))
	}
	s := in.node(n)
	if !s.Answered() || in.drained(n) != nil {
		return pass()
	}
	if p := forgotten(s, j); there && p != nil {
		gone := j
		return act(op.RemoveMember{Member: m, Join: &gone, Silent: in.silent(j), Repair: true}, fmt.Sprintf("the learner on %s lost what it had: %s; a new one is tried", n.Name(), p.Message))
	}
	found := straysOn(in, s)
	if !there {
		found = append(found, strangersOn(in, n)...)
	}
	if found != nil && j.StartedAt.IsZero() {
		return note(fmt.Sprintf("%s cannot take a member: %s", n.Name(), list(found)), found...)
	}
	if g := mayAdd(in, pending); g != open {
		return note(fmt.Sprintf("adding a member on %s waits: %s", n.Name(), g), cke.Problem{Code: cke.CodeQuorum, Node: n.Name(), Message: string(g)})
	}
	return act(add, fmt.Sprintf("adding the member on %s is not complete", n.Name()))
}

// foreign are etcd containers on the node that cke did not make, apart from one, and that run or may be started by
// their engine. One that is down for good is no obstacle, nor are our own old volumes and containers: every membership
// has its own.
func foreign(s cke.NodeStatus, except string) []cke.Problem {
	var found []cke.Problem
	for _, c := range s.Containers {
		if c.Cluster != "" || c.Down() || except != "" && c.ID == except {
			continue
		}
		p := cke.Problem{Code: cke.CodeForeignEtcd, Node: s.Node.Name(), Message: fmt.Sprintf("container %s (%s, %s) was not made by cke", c.Name, c.Image, c.State),
			Remedy: foreignRemedy(s, c)}
		if !c.Running() && c.State != cke.ContainerRestarting {
			p.Message += ", and its engine may start it again"
			p.Remedy = fmt.Sprintf("on %s: docker update --restart=no %s, or docker rm %s, if it is not needed", s.Node.Address, c.Name, c.Name)
		}
		found = append(found, p)
	}
	return found
}

// inTurn yields the memberships with the leader's last.
func inTurn(in *Input) iter.Seq[cke.Join] {
	return func(yield func(cke.Join) bool) {
		for turn := range 2 {
			for i := range in.Identity.Joins {
				if leads(in, in.Identity.Joins[i]) == turn && !yield(in.Identity.Joins[i]) {
					return
				}
			}
		}
	}
}

func leads(in *Input, j cke.Join) int {
	if e := in.reply(j); e.LeaderID != "" && e.LeaderID == e.MemberID {
		return 1
	}
	return 0
}

// silent reports whether the node of a membership does not answer.
func (in *Input) silent(j cke.Join) bool {
	n := in.node(j.Node)
	return !n.Answered()
}
