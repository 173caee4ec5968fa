package strategy

import (
	"fmt"
	"slices"

	"cke"
	"cke/quorum"
)

// stillThere: an order names nodes or members as destroyed, and what was just observed contradicts that. Etcd is asked without SSH, so a
// member may answer on a node that does not. A foreign member may be one that cannot be asked, but a quorum that answers has some of them. A
// restore stops the members on nodes that answer, whatever the order says of them.
func stillThere(in *Input, o cke.RestoreOrder) *cke.Error {
	if len(o.Destroyed) == 0 {
		return nil
	}
	var facts []string
	gone := in.goneIn(o)
	for _, j := range in.Identity.MayRun() {
		if e := in.reply(j); gone(j) && in.answersAs(e.MemberID) {
			facts = append(facts, fmt.Sprintf("the member on %s answers at %s", j.Node.Name(), e.URL))
		}
	}
	for _, f := range in.unstopped(o) {
		if in.seesFormer(f) {
			facts = append(facts, fmt.Sprintf("member %s answers at %s", f.Name, f.URL))
		}
	}
	if fact := in.quorumOf(gone, in.foreignGone(o)); fact != "" {
		facts = append(facts, fact)
	}
	if facts == nil {
		return nil
	}
	return &cke.Error{Code: cke.CodeFence, What: "cannot restore: what --destroyed names still answers, and would serve beside the restored members", Facts: facts, Unchanged: true,
		Try: "switch it off, or restore without naming it"}
}

// goneIn are the memberships whose nodes an order calls destroyed, and that do not answer.
func (in *Input) goneIn(o cke.RestoreOrder) func(cke.Join) bool {
	return func(j cke.Join) bool {
		return slices.Contains(o.Destroyed, j.Node.Name()) && !in.node(j.Node).Answered()
	}
}

// foreignGone are the members that an order calls destroyed, no membership names, and nothing stops.
func (in *Input) foreignGone(o cke.RestoreOrder) func(cke.Member) bool {
	return func(m cke.Member) bool {
		_, stops := in.stopped(m)
		return in.calledDestroyed(o, m.ID) != "" && !stops
	}
}

// quorumOf says that a quorum answers which cannot be one without some members; "": there is none.
func (in *Input) quorumOf(gone func(cke.Join) bool, foreignGone func(cke.Member) bool) string {
	etcd := in.Identity.Ours(in.Seen.Etcd)
	if !etcd.Quorate || etcd.MembersSource != cke.MembersLinearizable {
		return ""
	}
	voters, named := 0, 0
	for _, m := range etcd.Members {
		if m.Learner {
			continue
		}
		voters++
		if j := in.joinOf(m); j != nil && gone(*j) || j == nil && foreignGone(m) {
			named++
		}
	}
	if !quorum.InEach(voters, named) {
		return ""
	}
	return fmt.Sprintf("%d of %d voters answer as a quorum, so that at least one of those named serves", quorum.Of(voters), voters)
}
