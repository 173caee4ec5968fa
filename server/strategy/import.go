package strategy

import (
	"cmp"
	"fmt"
	"slices"

	"cke"
	"cke/op"
	"cke/quorum"
)

// importing returns the import that is under way; nil: none is.
func (in *Input) importing() *cke.Import { return in.Identity.Incarnation.Importing() }

// oldSilent are the members of an old cluster that do not answer, apart from those that a list through a quorum lacks: they may
// serve clients, and their votes count.
func (in *Input) oldSilent() (silent []cke.Problem) {
	old := in.importing()
	if old == nil {
		return nil
	}
	left := in.Seen.Etcd.MembersSource == cke.MembersLinearizable
	for _, o := range old.Members {
		if left && !o.In(in.Seen.Etcd.Members) {
			continue
		}
		why := "it was not asked yet"
		for _, e := range in.replies() {
			if e.URL == o.URL {
				why = e.Problem
			}
		}
		if why == "" {
			continue
		}
		silent = append(silent, cke.Problem{Code: cke.CodeOldCluster, Node: o.Name, Message: fmt.Sprintf("member %s of the old cluster does not answer at %s: %s", o.Name, o.URL, why),
			Remedy: "bring it back, or let this management host reach it"})
	}
	return silent
}

// importOver: the last member of the old cluster has left the list.
func importOver(in *Input) verdict {
	old := in.importing()
	if old == nil || old.In(in.Seen.Etcd.Members) != nil || !in.Identity.OthersVote(in.Seen.Etcd.Members) {
		return pass()
	}
	return act(op.EndImport{}, "no member of the old cluster is in the member list any more")
}

// oldLeave: the members of the old cluster leave one after the other, the leader last, once each declared node has a voter that serves.
func oldLeave(in *Input) verdict {
	old := in.importing()
	if old == nil || old.Reverting {
		return pass()
	}
	left := old.In(in.Seen.Etcd.Members)
	if left == nil {
		return pass()
	}
	healthy := func(m cke.Member) bool { return healthyMember(in, m) }
	if why := op.OldStays(old, in.Seen.Etcd.Members, in.Identity.Joins, in.Spec.ControlPlane(), healthy); why != "" {
		p := cke.Problem{Code: cke.CodeOldCluster, Message: why, Remedy: stayRemedy(in, left)}
		return note(fmt.Sprintf("the members of the old cluster stay: %s", why), p)
	}
	turn := func(m cke.Member) int {
		switch {
		case slices.ContainsFunc(in.replies(), func(e cke.EndpointStatus) bool { return e.LeaderID == m.ID }): // one that is silent may lead
			return 2
		case healthyMember(in, m):
			return 1
		}
		return 0
	}
	m := slices.MinFunc(left, func(a, b cke.Member) int { return cmp.Compare(turn(a), turn(b)) })
	if g := mayRemove(in, m); g != open {
		return wait(fmt.Sprintf("member %s of the old cluster cannot leave: %s", nameOf(m), g), append([]cke.Problem{{Code: cke.CodeQuorum, Node: nameOf(m), Message: string(g)}}, in.oldSilent()...)...)
	}
	return act(op.RemoveMember{Member: m, Declared: in.Spec.ControlPlane()}, fmt.Sprintf("the members of cke vote, so member %s of the old cluster leaves, %s", nameOf(m), leftAfter(in, m, len(left)-1))).voluntary()
}

// stayRemedy is what lets the first old member leave where that does not come about by itself; "": it does.
func stayRemedy(in *Input, left []cke.Member) string {
	if in.importing().KeepOld {
		return fmt.Sprintf("ckecli cluster import %s --continue", in.Spec.Name)
	}
	for _, m := range left {
		if remedy := whereOldIs(in, m); remedy != "" {
			return remedy
		}
	}
	voters := cke.CountVoters(in.Seen.Etcd.Members)
	if has, need := len(in.Spec.ControlPlane()), quorum.Of(voters-1); has < need {
		return fmt.Sprintf("declare at least %d control-plane nodes, until the old members have left; the file has %d", need, has)
	}
	return ""
}

// whereOldIs is what to do about a node that is declared at the address of an old member: neither can take the place of the other.
func whereOldIs(in *Input, m cke.Member) string {
	for _, n := range in.Spec.ControlPlane() {
		if _, carries := in.Identity.On(n); hostOf(m) == n.Address && !carries {
			return fmt.Sprintf("take %s out of the cluster file until old member %s, which is at its address, has left: ckecli cluster set FILE", n.Name(), nameOf(m))
		}
	}
	return ""
}

// leftAfter says what is left, and what of that may fail, once a voter has left.
func leftAfter(in *Input, m cke.Member, old int) string {
	t := tallyOf(in)
	if healthyMember(in, m) {
		t.Healthy--
	}
	t.Voters--
	return fmt.Sprintf("%s of it and %s are left, which can lose %s", cke.Count(old, "member"), cke.Count(t.Voters-old, "other voter"), more(t.Tolerance()))
}

// importReverted: all members of cke have left the old cluster again.
func importReverted(in *Input) verdict {
	if old := in.importing(); old == nil || !old.Reverting || len(in.Identity.Joins) > 0 {
		return pass()
	}
	p := cke.Problem{Code: cke.CodeOldCluster, Message: "the import is reverted: the old cluster has no member of cke any more",
		Remedy: fmt.Sprintf("ckecli cluster delete %s, or ckecli cluster import %s --continue", in.Spec.Name, in.Spec.Name)}
	return wait(p.Message, p)
}

// importedAuthority: members have certificates of the old cluster's authority, which has signed for others than cke. It is replaced as on
// request.
func importedAuthority(in *Input) verdict {
	inc := in.Identity.Incarnation
	peer := in.Identity.Authorities.Peer
	if !in.Formed() || inc.Import == nil || in.importing() != nil || !inc.Import.PeerAuthority || peer.Current.Generation > 0 || peer.Next != nil {
		return pass()
	}
	if others := in.strangers(); others != nil {
		return note(fmt.Sprintf("the authority of the old cluster stays: %s would not trust another one", nameOf(others[0])), cke.Problem{Code: cke.CodeStranger, Message: "a foreign member uses the peer authority of the old cluster"})
	}
	return act(op.RotateAuthority{Authority: cke.PeerAuthority, Task: "import-" + inc.ID}, "the old cluster has left, so its peer authority is replaced")
}

// importAsked: an operator wants the members of cke to leave the old cluster again, or not any more.
func importAsked(in *Input, t cke.Task) Decision {
	old := in.importing()
	switch {
	case t.Subject != cke.ImportRevert && t.Subject != cke.ImportContinue:
		return refuse(t, cannot("there is no %q of an import", t.Subject))
	case old == nil:
		return refuse(t, cannot("cluster %s has no member of an old cluster, so no import can be stopped or reverted", in.Spec.Name))
	case old.Turned == t.ID, old.Reverting == (t.Subject == cke.ImportRevert) && !(old.KeepOld && t.Subject == cke.ImportContinue):
		return settled(t, "it is on record")
	case old.In(in.Seen.Etcd.Members) == nil:
		return refuse(t, cannot("the last member of the old cluster has left"))
	}
	turn, to := op.TurnImport{Revert: t.Subject == cke.ImportRevert, Task: t.ID}, "replace those of the old cluster"
	if turn.Revert {
		to = "leave the old cluster"
	}
	return Decision{Operation: turn, Reason: askedFor(t, "members of cke are to "+to)}
}

// notWhileImporting is the refusal of what would stop members that the old cluster needs, or leave it behind as a second cluster.
func notWhileImporting(in *Input, what string) *cke.Error {
	if in.importing() == nil {
		return nil
	}
	return oldVotes(in, what)
}

func oldVotes(in *Input, what string) *cke.Error {
	why := cannot("%s is not possible while members of the old cluster vote", what)
	why.Code, why.Try = cke.CodeOldCluster, fmt.Sprintf("ckecli cluster import %s --revert, or wait until the last of them has left", in.Spec.Name)
	return why
}

// notWanted is why the member of a membership is to leave.
func (in *Input) notWanted(j cke.Join) string {
	if old := in.importing(); old != nil && old.Reverting {
		return "the import is reverted"
	}
	return j.Node.Name() + " is no longer a control-plane node"
}

// besideOld refuses a restore or a recovery that would be a second cluster beside the old one: of each old member that the last list has, the
// operator must say that its machine is gone for good. One that answers is not.
func besideOld(in *Input, o cke.RestoreOrder) *cke.Error {
	var may []cke.OldMember
	var answer []string
	for _, m := range in.oldListed() {
		if in.answersAs(m.ID) {
			answer = append(answer, fmt.Sprintf("%s answers at %s: its machine is not gone", m.Name, m.URL))
		}
		if !in.gone(o, m.ID) {
			may = append(may, m)
		}
	}
	if len(may) == 0 {
		return nil
	}
	why := oldVotes(in, "a restore or a recovery")
	why.Facts = append(answer, "only if its machine is switched off or wiped for good: "+in.flagsOf(o, may))
	return why
}

// gone reports whether an order names a member that no restore stops as one whose machine is gone for good, as a list has it or as it was
// put on record. What has just answered is not.
func (in *Input) gone(o cke.RestoreOrder, id string) bool {
	return in.calledDestroyed(o, id) != "" && !in.answersAs(id)
}

// oldMembers are those of the old cluster of an import that is under way, or was before a restore.
func (in *Input) oldMembers() []cke.OldMember {
	if old := in.Identity.Incarnation.BeforeRestores().Importing(); old != nil {
		return old.Members
	}
	return nil
}

// answersAs reports whether a member of the cluster on record has just answered with this id.
func (in *Input) answersAs(id string) bool {
	return id != "" && slices.ContainsFunc(in.replies(), func(e cke.EndpointStatus) bool { return e.Problem == "" && e.MemberID == id })
}

// oldListed are the members of an old cluster that may serve, see OldListed.
func (in *Input) oldListed() []cke.OldMember {
	inc := in.Identity.Incarnation
	if in.oldMembers() == nil {
		return nil
	}
	return inc.OldListed(in.listsOf(inc.BeforeRestores().ID)[0].Members)
}

// oldStatus says what a member of the old cluster is, in its row.
func oldStatus(in *Input, m cke.Member, serves bool) string {
	s := "a member of the old cluster; it leaves once those of cke vote"
	if in.importing().Reverting {
		s = "a member of the old cluster, which stays"
	}
	if !serves {
		s += "; it does not answer, and its vote counts"
	}
	return s
}

func silentOldSentence(silent []cke.Problem) string {
	var names []string
	for _, p := range silent {
		names = append(names, p.Node)
	}
	return "it is not known whether there is a quorum: of the old cluster " + doNotAnswer(names)
}
