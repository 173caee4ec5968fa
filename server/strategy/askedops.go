package strategy

import (
	"fmt"
	"strings"
	"time"

	"cke"
	"cke/op"
)

// moveLeaderAsked: an operator wants a certain member to lead.
func moveLeaderAsked(in *Input, t cke.Task) Decision {
	j, m, why := in.memberOn(t.Node)
	if why == nil {
		switch {
		case m.Learner:
			why = cannot("the member on %s is a learner, and only voters can lead", t.Node)
		case !healthyMember(in, m):
			why = cannot("the member on %s does not serve, so it cannot lead", t.Node)
		}
	}
	if why != nil {
		return refuse(t, why)
	}
	return Decision{Operation: op.MoveLeader{Join: j}, Reason: askedFor(t, t.Node+" is to lead")}
}

// defragmentAsked: of the member on one node, or of all, the leader's last.
func defragmentAsked(in *Input, t cke.Task) Decision {
	var joins []cke.Join
	for j := range inTurn(in) {
		m, there := in.listed(j)
		if !there || t.Node != "" && in.reached(j).Node.Name() != t.Node {
			continue
		}
		if g := mayRestart(in, m); g != open {
			return refuseGate(t, j.Node.Name()+" cannot be defragmented now", g)
		}
		joins = append(joins, in.reached(j))
	}
	if joins == nil {
		_, _, why := in.memberOn(t.Node)
		return refuse(t, why)
	}
	return Decision{Operation: op.Defragment{Joins: joins}, Reason: askedFor(t, "free pages of the databases are released")}
}

// disarmAsked: of all alarms that are active.
func disarmAsked(in *Input, t cke.Task) Decision {
	if len(in.Seen.Etcd.Alarms) == 0 {
		return Decision{Operation: op.Settled{Task: t}, Reason: askedFor(t, "no alarm is active")}
	}
	return Decision{Operation: op.Disarm{Alarms: in.Seen.Etcd.Alarms}, Reason: askedFor(t, "alarms are cleared")}
}

// drainAsked: an operator wants to take a node down.
func drainAsked(in *Input, t cke.Task) Decision {
	n, known := in.Spec.Node(t.Node)
	if !known {
		return refuse(t, unknownNode(in, t.Node))
	}
	for _, d := range in.leases() {
		if d.Node != n.Name() {
			return refuse(t, cke.OtherDrain(n.Name(), d))
		}
	}
	for _, r := range in.Requests.Queued() {
		if other, _ := in.nodeOf(r); r.Active() && (in.holdsMember(other) || other.Address == n.Address) {
			return refuse(t, &cke.Error{Code: cke.CodeDrain, What: fmt.Sprintf("%s cannot be drained: %s is %s", n.Name(), r.Node, r.State), Unchanged: true, Try: r.Kind().Command() + " list", Err: cke.ErrConflict})
		}
	}
	if strange := in.strangersOn(n); len(strange) > 0 && (len(in.strangersAt(n.Address)) > 0 || mayStop(in, strange...) != open) {
		return refuse(t, strangerStands(in, n, strange))
	}
	if why := in.notMoved(n); why != "" {
		return refuse(t, &cke.Error{Code: cke.CodeDrain, What: n.Name() + " cannot be drained", Facts: []string{why}, Unchanged: true, Try: "ckecli status"})
	}
	o := op.DrainNode{Node: n, Reason: t.Reason, By: t.By, For: time.Duration(t.For) + in.behind(), Accepted: t.Accepted}
	j, carries := in.Identity.On(n)
	if !carries {
		return Decision{Operation: o, Reason: askedFor(t, n.Name()+" is to be set aside for maintenance; it carries no member")}
	}
	j = in.reached(j)
	o.Join = &j
	if s := in.node(n); !s.Answered() {
		return refuse(t, &cke.Error{Code: cke.CodeCannot, What: n.Name() + " does not answer, so its member cannot be stopped",
			Facts: []string{s.Problem.Message}, Unchanged: true})
	}
	if m, there := in.listed(j); there {
		if g := mayStop(in, m); g != open && !(t.Accepted && mayRestart(in, m) == open) {
			return refuseGate(t, fmt.Sprintf("draining %s would lose quorum", n.Name()), g)
		}
	}
	return Decision{Operation: o, Reason: askedFor(t, n.Name()+" is to be set aside for maintenance")}
}

// strangerStands is why a node cannot be drained: members run on there, or may, that cke does not know and does not stop.
func strangerStands(in *Input, n cke.Node, strange []cke.Member) *cke.Error {
	m := strange[0]
	why := &cke.Error{Code: cke.CodeStranger, What: fmt.Sprintf("%s cannot be drained: %s, and cke does not stop foreign members", n.Name(), in.strangerIs(m, n)), Unchanged: true}
	if g := mayStop(in, strange...); g != open {
		why.Facts = strings.Split(string(g), "; ")
	}
	if _, carries := in.Identity.On(n); n.ControlPlane && !carries && hostOf(m) == n.Address { // as it is adopted
		why.Facts = append(why.Facts, "adopt it, and a member that cke adds replaces it; or remove it, if it is not needed")
		why.Try = "ckecli etcd adopt " + n.Name()
		return why
	}
	why.Facts = append(why.Facts, "remove it, if it is not needed; policies.foreign: remove does that, too")
	why.Try = "etcdctl member remove " + m.ID
	return why
}

// memberOn returns the membership on a node with its entry in the member list, or why there is none.
func (in *Input) memberOn(node string) (cke.Join, cke.Member, *cke.Error) {
	for _, j := range in.Identity.Joins {
		if m, there := in.listed(j); there && in.reached(j).Node.Name() == node {
			return in.reached(j), m, nil
		}
	}
	if _, known := in.Spec.Node(node); !known {
		return cke.Join{}, cke.Member{}, unknownNode(in, node)
	}
	return cke.Join{}, cke.Member{}, cannot("%s carries no member", node)
}

func unknownNode(in *Input, node string) *cke.Error {
	var names []string
	for _, n := range in.Spec.Nodes {
		names = append(names, n.Name())
	}
	why := cannot("cluster %s has no node %q", in.Spec.Name, node)
	why.Facts = []string{"its nodes are " + and(names)}
	return why
}

func cannot(format string, args ...any) *cke.Error {
	return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf(format, args...), Unchanged: true}
}
