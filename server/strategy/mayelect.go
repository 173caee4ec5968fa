package strategy

import (
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/op"
)

// electLimit is far longer than members take to elect a leader once they reach each other.
const electLimit = time.Minute

// electing are the members that the list lacks and that may elect a leader, and since when they have been observed so without a
// pause in which that could have ended.
func (in *Input) electing() (*cke.Electing, []cke.Join) {
	if len(in.Seen.Etcd.Members) == 0 {
		return nil, nil
	}
	able := op.MayElect(in.Seen.Etcd.Members, in.Identity, in.reply, func(j cke.Join) bool { return runs(in, j) })
	if able == nil {
		return nil, nil
	}
	e := &cke.Electing{Since: in.Seen.ObservedAt}
	for _, j := range able {
		e.Members = append(e.Members, j.ID)
	}
	gap := in.Seen.ObservedAt.Sub(in.Before.ObservedAt)
	if b := in.Before.Electing; b != nil && gap >= 0 && gap <= lookGap && slices.Equal(b.Members, e.Members) { // else somebody joined, nobody looked meanwhile, or the clock was set
		e.Since = b.Since
	}
	return e, able
}

// awaitElection waits with the end of a membership while members that the list lacks run, have no leader, and could be a quorum
// of those on record: the list may be that of a member that continued alone, and they may elect a leader at any moment. That
// they were to leave, or to be replaced, is no proof that they have left. had are those that had a minute for it.
func (in *Input) awaitElection() (had []cke.JoinID, v verdict) {
	e, able := in.electing()
	if e == nil {
		return nil, pass()
	}
	if in.Seen.ObservedAt.Sub(e.Since) < electLimit {
		p := cke.Problem{Code: cke.CodeSplitBrain, Node: able[0].Node.Name(), Message: fmt.Sprintf("%s run, are not in the member list that was read, and may elect a leader", namesOf(able)),
			Remedy: cke.WayOut(cke.CodeSplitBrain)}
		return nil, wait(p.Message, p).again(electLimit / 4)
	}
	return e.Members, pass()
}

// leavers are the memberships that end by an operator, by a mark on a node, or because cke repairs them, and the one that is to be ended, if it
// leaves by the file: that they have left the list is no surprise. cke removes one after the other, so only one can have left by the file.
func (in *Input) leavers(ending cke.Join) (all []cke.JoinID) {
	ended := in.endedByMarks()
	for _, j := range in.Identity.Joins {
		asked := slices.ContainsFunc(in.Requests.Tasks, func(t cke.Task) bool { return t.Kind == cke.TaskReplace && t.Subject == string(j.ID) })
		_, moving := in.moving(j)
		if _, wanted := in.declared(j); !wanted && !moving && j.ID == ending.ID || j.Repair || asked || hasJoin(ended, j.ID) {
			all = append(all, j.ID)
		}
	}
	return all
}
