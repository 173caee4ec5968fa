package strategy

import (
	"fmt"
	"slices"

	"cke"
	"cke/quorum"
)

// stillThere: an order names nodes or members as destroyed, and what was just observed contradicts that. Etcd is asked without SSH, so a
// member may answer on a node that does not. Foreign members are not asked, but a quorum that answers has some of them. A restore stops
// the members on nodes that answer, whatever the order says of them.
func stillThere(in *Input, o cke.RestoreOrder) *cke.Error {
	if len(o.Destroyed) == 0 {
		return nil
	}
	var facts []string
	gone := func(n cke.Node, name string) bool {
		return slices.Contains(o.Destroyed, name) && !in.node(n).Answered()
	}
	for _, j := range in.Identity.MayRun() {
		if e := in.reply(j); gone(j.Node, j.Node.Name()) && in.answersAs(e.MemberID) {
			facts = append(facts, fmt.Sprintf("the member on %s answers at %s", j.Node.Name(), e.URL))
		}
	}
	etcd := in.Identity.Ours(in.Seen.Etcd)
	if etcd.Quorate && etcd.MembersSource == cke.MembersLinearizable {
		voters := slices.DeleteFunc(slices.Clone(etcd.Members), func(m cke.Member) bool { return m.Learner })
		left := slices.DeleteFunc(slices.Clone(voters), func(m cke.Member) bool {
			if j := in.joinOf(m); j != nil {
				return gone(j.Node, j.Node.Name())
			}
			n, seen := in.stopped(m)
			return slices.Contains(o.Destroyed, nameOf(m)) && !(seen && in.node(n).Answered())
		})
		if len(left) < quorum.Of(len(voters)) {
			facts = append(facts, fmt.Sprintf("%d of %d voters answer as a quorum, so that at least one of those named serves", quorum.Of(len(voters)), len(voters)))
		}
	}
	if facts == nil {
		return nil
	}
	return &cke.Error{Code: cke.CodeFence, What: "cannot restore: what --destroyed names still answers, and would serve beside the restored members", Facts: facts, Unchanged: true,
		Try: "switch it off, or restore without naming it"}
}
