package strategy

import (
	"fmt"

	"cke"
	"cke/op"
)

// replaceAsked: a membership is given up, and its node gets a fresh one. The task names the membership, so that one
// which was interrupted continues where it was, and never gives the fresh one up.
func replaceAsked(in *Input, t cke.Task) Decision {
	for _, j := range in.Identity.Joins {
		if string(j.ID) == t.Subject {
			return giveUp(in, t, in.reached(j))
		}
	}
	for _, j := range in.Identity.Ended {
		if string(j.ID) == t.Subject {
			return takePlace(in, t, j)
		}
	}
	return refuse(t, cannot("%s has no membership %s in this incarnation of the cluster", t.Node, t.Subject))
}

// giveUp removes the old membership. Two members cannot stand on one node, so it goes first.
func giveUp(in *Input, t cke.Task, j cke.Join) Decision {
	n, wanted := in.declared(j)
	if !wanted {
		why := cannot("%s is not a control-plane node, so no new member would replace its member", j.Node.Name())
		why.Try = "ckecli plan"
		return refuse(t, why)
	}
	m, there := in.listed(j)
	if !there {
		return Decision{} // the rules below end the membership, or continue adding it
	}
	if op.Missing(in.Seen.Etcd.Members, in.Identity.Joins) != nil {
		return Decision{} // that membership ends first: the shorter list would not prove that
	}
	if in.lastOnRecord(j, m) {
		why := cannot("no other membership on record than that of %s votes: without it cke could reach no member", n.Name())
		why.Try = "ckecli status"
		return refuse(t, why)
	}
	if g := mayRemove(in, m); g != open {
		return refuseGate(t, fmt.Sprintf("replacing the member of %s would lose quorum", n.Name()), g)
	}
	return Decision{Operation: op.RemoveMember{Member: m, Join: &j, Silent: in.silent(j), Volumes: in.Spec.Policies.Volumes}, Part: true,
		Reason: askedFor(t, fmt.Sprintf("the member of %s is to be replaced", n.Name()))}
}

// takePlace continues until the fresh membership votes, or can be left to the time when the node answers again.
func takePlace(in *Input, t cke.Task, old cke.Join) Decision {
	n, wanted := in.declared(old)
	switch {
	case !wanted:
		return settled(t, fmt.Sprintf("%s is no longer a control-plane node", old.Node.Name()))
	case in.drained(n) != nil:
		return settled(t, in.drained(n).Text()+"; a new member is added after that")
	case in.silent(old):
		return settled(t, n.Name()+" does not answer; a new member is added once it does")
	}
	for _, j := range in.Identity.Joins {
		if j.Node.Address != n.Address {
			continue
		}
		if v := resumeAdding(in, n, j); v.given() {
			v.Part = true
			return v.Decision
		}
		if m, there := in.listed(j); !there || m.Learner {
			return promoteOf(in, j).Decision
		}
		return settled(t, n.Name()+" has its new member")
	}
	v := addOn(in, n)
	v.Part = true
	return v.Decision
}

func settled(t cke.Task, what string) Decision {
	return Decision{Operation: op.Settled{Task: t}, Reason: askedFor(t, what)}
}
