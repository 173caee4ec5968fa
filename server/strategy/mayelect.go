package strategy

import (
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/quorum"
)

// electLimit is far longer than members take to elect a leader once they reach each other.
const electLimit = time.Minute

// unlessTheyElect waits with the end of a membership while members that the list lacks answer, have no leader, and could be a
// quorum of those on record: the list may be that of a member that continued alone, and they may elect a leader at any moment.
// That they were to leave, or to be replaced, is no proof that they have left.
func (in *Input) unlessTheyElect(end verdict) verdict {
	var names []string
	for _, j := range in.Identity.Joins {
		_, there := in.listed(j)
		if e := in.reply(j); !there && !in.Identity.PutAside(j.ID) && !e.Learner && e.Problem == "" && e.MemberID != "" && e.MemberID == j.MemberID {
			names = append(names, j.Node.Name())
		}
	}
	if len(names) < quorum.Of(len(in.Identity.Joins)) {
		return end
	}
	p := cke.Problem{Code: cke.CodeSplitBrain, Node: names[0], Message: fmt.Sprintf("%s answer, are not in the member list that was read, and may elect a leader", and(names)),
		Remedy: cke.WayOut(cke.CodeSplitBrain)}
	i := slices.IndexFunc(in.Before.Problems, func(b cke.Problem) bool { return b.Code == p.Code && b.Node == p.Node && b.Message == p.Message })
	if i >= 0 && !in.Before.Problems[i].Since.IsZero() {
		if since := in.Seen.ObservedAt.Sub(in.Before.Problems[i].Since); since >= electLimit || wasSetBack(since) {
			return end
		}
	}
	return wait(p.Message, p).again(electLimit / 4)
}
