package strategy

import (
	"fmt"
	"slices"
	"strings"

	"cke"
	"cke/quorum"
)

// unseen is the ballot of those of which nothing says whether they serve now: they do not answer, and no engine says that
// they do not run. Foreign voters count, unless they answer.
func (in *Input) unseen() ballot {
	return in.ballot(in.listsOf(in.Identity.Incarnation.ID)[0], in.Identity.Joins, func(j cke.Join) bool { return !down(in, j) }, func(m cke.Member) bool {
		return !slices.ContainsFunc(in.Seen.Etcd.Endpoints, func(e cke.EndpointStatus) bool { return e.MemberID == m.ID && e.Problem == "" })
	})
}

// down reports whether a member is known not to serve, where no linearizable read succeeds through any: it answers and knows no
// leader of this cluster, or an engine says that it does not run. Where it knows one, reads may only be slow: a leader without a quorum steps down.
// The engine is that of the machine which has its container: machines may have the addresses of each other.
func down(in *Input, j cke.Join) bool {
	e, _ := in.Seen.Etcd.Endpoint(j.ID)
	n := in.node(in.carrier(j).Node)
	c, there := n.Of(j.ID)
	return e.Problem == "" && e.MemberID != "" && (e.LeaderID == "" || in.Identity.OfAnother(e)) || n.Answered() && (!there || c.State != cke.ContainerRunning)
}

// quorumUnknown reports whether no read proves a quorum, and the members that cannot be seen, or that are not on record, could form one.
func (in *Input) quorumUnknown() bool {
	return in.Formed() && !in.Seen.Etcd.Quorate && (in.oldSilent() != nil || allBlank(in) == nil && in.unseen().of() > 0 || removedProblem(in) != nil)
}

// votes is the number of voters, foreign ones included.
func (in *Input) votes() int { return len(in.voters()) + len(in.foreignVoters()) }

// foreignVoters are those that etcd lists, as far as any member said last, and that cke does not know.
func (in *Input) foreignVoters() (all []cke.Member) {
	for _, m := range in.lastList() {
		if !m.Learner && in.joinOf(m) == nil && !in.onceOurs(m) {
			all = append(all, m)
		}
	}
	return all
}

// unknownVoters describes the foreign voters: their votes count, and who added them has to bring them back.
func unknownVoters(in *Input) (all []string) {
	for _, m := range in.foreignVoters() {
		all = append(all, fmt.Sprintf("%s at %s", nameOf(m), strings.Join(m.PeerURLs, ", ")))
	}
	return all
}

// unseenSentence says that the cluster may serve although no member shows that it does.
func unseenSentence(in *Input) string {
	if p := removedProblem(in); p != nil {
		return p.Message
	}
	if silent := in.oldSilent(); silent != nil {
		return silentOldSentence(silent)
	}
	b := in.unseen()
	names := b.out()
	slow := slices.ContainsFunc(in.replies(), func(e cke.EndpointStatus) bool { return e.Problem == "" && e.LeaderID != "" })
	switch {
	case slow:
		return "it is not known whether there is a quorum: " + doNotAnswer(names) + " in time"
	case len(b.sure) == b.voters:
		return "the cluster cannot be seen from here: " + doNotAnswer(names) + ", and may serve"
	}
	return "it is not known whether there is a quorum: " + doNotAnswer(names)
}

func doNotAnswer(names []string) string {
	if len(names) == 1 {
		return names[0] + " does not answer"
	}
	return and(names) + " do not answer"
}

// quorumProblem says, where there is no quorum or none can be seen, and no member can be started, what the operator can
// do. A recovery continues from one member, so it is right only where a quorum never comes back.
func quorumProblem(in *Input) *cke.Problem {
	if !in.Formed() || in.Seen.Etcd.Quorate || in.Identity.Freeze.Active() && in.endedByMarks() != nil {
		return nil
	}
	if p := removedProblem(in); p != nil {
		return p
	}
	if len(startable(in)) > 0 || allBlank(in) != nil {
		return nil
	}
	n, up := in.votes(), running(in, in.voters())
	need := quorum.Of(n)
	p := &cke.Problem{Code: cke.CodeNoQuorum, Message: fmt.Sprintf("no quorum: %d of %d members run, %s", up, n, needed(need))}
	first := "bring members back"
	switch {
	case in.quorumUnknown():
		p.Code, p.Message = cke.CodeUnseen, unseenSentence(in)
		first = "check the network between this management host and the nodes; " + first
	case up >= need:
		return nil
	}
	if may := in.oldListed(); may != nil { // a recovery could leave the old cluster behind
		p.Remedy = first + ", also those of the old cluster; only if these are gone for good, and no quorum is left: ckecli recover " + in.flagsOf(cke.RestoreOrder{}, may)
		return p
	}
	switch gone, aside := n-need+1, len(in.Identity.Joins)-len(cke.Chosen(in.Identity.Joins)); {
	case in.exchanged():
		p.Remedy = first + "; the data of those whose volumes are on other machines is there"
	case up == 0 && len(in.mayHoldData()) == 0:
		p.Remedy = strings.Replace(first, "members", "their volumes", 1) + "; if they are gone for good: ckecli restore"
	case aside >= gone:
		p.Remedy = "too few members were not put aside to be a quorum: ckecli recover"
	case n == 1:
		p.Remedy = strings.Replace(first, "members", "it", 1) + "; if it is gone for good: ckecli restore"
	case gone == 1:
		p.Remedy = first + fmt.Sprintf("; only if at least 1 of the %d is gone for good: ckecli recover", n)
	default:
		p.Remedy = first + fmt.Sprintf("; only if at least %d of the %d are gone for good: ckecli recover", gone, n)
	}
	return p
}
