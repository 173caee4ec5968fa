package server

import (
	"fmt"
	"slices"
	"strings"

	"cke"
	"cke/op"
)

// ballot is who votes in one life of the cluster.
type ballot struct {
	// voters is how many there are at the least.
	voters int
	// out are those that may go on: on a node that does not answer or is left out, or strangers, which nobody stops.
	out []string
}

// couldServe: members that may go on must not have a quorum among themselves. A node that is left out counts also while
// it answers: it may be cut off before its member is stopped.
func couldServe(in *Input, o cke.RestoreOrder) *cke.Error {
	for _, b := range in.ballots(o) {
		if need := cke.Quorum(b.voters); len(b.out) >= need {
			return &cke.Error{Code: cke.CodeFence, What: "cannot restore: the nodes left out could go on serving the cluster as it was",
				Facts: []string{fmt.Sprintf("%d of its %d members may go on (%s); %d are a quorum", len(b.out), b.voters, strings.Join(b.out, ", "), need),
					"a machine that is switched off or wiped for good is named with --destroyed NODE"}}
		}
	}
	return nil
}

// ballots are those of all lives that may still run.
func (in *Input) ballots(o cke.RestoreOrder) []*ballot {
	mayGoOn := func(n cke.Node) bool {
		s := in.node(n)
		return !slices.Contains(o.Destroyed, n.Name()) && (!s.Answered() || slices.Contains(o.Without, n.Name()))
	}
	joins := in.Identity.MayRun()
	if len(joins) == 0 {
		return []*ballot{unknownBallot(in, mayGoOn)}
	}
	lives := map[string]*ballot{}
	list := in.lastList()
	for _, j := range joins {
		i := slices.IndexFunc(list, func(m cke.Member) bool { return op.Is(m, j) })
		if j.StartedAt.IsZero() || i >= 0 && list[i].Learner {
			continue // it cannot vote
		}
		b := lives[j.Incarnation]
		if b == nil {
			b = &ballot{}
			lives[j.Incarnation] = b
		}
		if b.voters++; mayGoOn(j.Node) {
			b.out = append(b.out, j.Node.Name())
		}
	}
	var all []*ballot
	for life, b := range lives {
		present := in.Identity.Incarnation.Life(life)
		if present {
			b.addStrangers(in, list, o)
		}
		if (!present || len(list) == 0) && b.voters%2 == 0 {
			b.voters-- // one of them may be a learner
		}
		all = append(all, b)
	}
	return all
}

// unknownBallot is that of a cluster of which this store knows no life: a management host before may have had one, on
// the declared nodes.
func unknownBallot(in *Input, mayGoOn func(cke.Node) bool) *ballot {
	b := &ballot{voters: len(in.Spec.ControlPlane())}
	for _, n := range in.Spec.ControlPlane() {
		if mayGoOn(n) {
			b.out = append(b.out, n.Name())
		}
	}
	return b
}

// addStrangers adds the voters that no membership names.
func (b *ballot) addStrangers(in *Input, list []cke.Member, o cke.RestoreOrder) {
	for _, m := range list {
		if m.Learner || in.joinOf(m) != nil {
			continue
		}
		if b.voters++; !slices.Contains(o.Destroyed, nameOf(m)) {
			b.out = append(b.out, nameOf(m))
		}
	}
}

// lastList is the member list of this life that was seen last, by whatever member; nil: none is known.
func (in *Input) lastList() []cke.Member {
	inc := in.Identity.Incarnation
	switch {
	case len(in.Seen.Etcd.Members) > 0:
		return in.Seen.Etcd.Members
	case inc.Life(in.Before.Incarnation):
		return in.Before.Etcd.Members
	}
	return nil
}
