package server

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/op"
)

// Bounds of what a learner may take.
const (
	// withdrawAfter is how often adding a member may fail before its learner is taken back and a new one is tried.
	withdrawAfter = 5
	// catchUpAgain is how soon a learner that is catching up is looked at again.
	catchUpAgain = 200 * time.Millisecond
)

// listUnknown: what follows needs a member list that was read through a quorum.
func listUnknown(in Input) (Decision, bool) {
	if in.Seen.Etcd.MembersSource == cke.MembersLinearizable {
		return Decision{}, false
	}
	return Decision{Reason: "no member list could be read through a quorum yet"}, true
}

// endedMembership: a member was started and has left the member list. Either cke removed it and was interrupted, or
// somebody else did; its data no longer counts.
func endedMembership(in Input) (Decision, bool) {
	for _, j := range in.Identity.Joins {
		if _, there := in.listed(j); there || j.StartedAt.IsZero() && declaredFree(in, j) {
			continue
		}
		return Decision{Operation: op.EndMembership{Join: j, Silent: in.silent(j)}, Reason: fmt.Sprintf("the member of %s is no longer in the member list", j.Node.Name())}, true
	}
	return Decision{}, false
}

// declaredFree: the membership was recorded and its node is still wanted, so that adding it goes on.
func declaredFree(in Input, j cke.Join) bool {
	_, wanted := in.declared(j)
	return wanted
}

// strangers: members on no node that cke knows. Those that once were ours are removed; others as the policy says.
func strangers(in Input) (Decision, bool) {
	for _, m := range in.Seen.Etcd.Members {
		if in.joinOf(m) != nil {
			continue
		}
		once := slices.ContainsFunc(in.Identity.Ended, func(j cke.Join) bool {
			return op.Is(m, j) || slices.Contains(m.PeerURLs, j.PeerURL())
		})
		name := m.Name
		if name == "" {
			name = m.ID
		}
		if !once && in.Spec.Policies.Foreign == cke.ForeignHold {
			continue
		}
		if g := mayRemove(in, m); g != pass {
			return refused(fmt.Sprintf("stranger %s cannot be removed: %s", name, g), cke.Problem{Code: cke.CodeQuorum, Message: string(g)}), true
		}
		return Decision{Operation: op.RemoveMember{Member: m}, Reason: fmt.Sprintf("member %s stands on no declared node", name)}, true
	}
	return Decision{}, false
}

// removeUnhealthy: an unhealthy member on a node that is no declared control plane.
func removeUnhealthy(in Input) (Decision, bool) { return removeUndeclared(in, false) }

// removeHealthy: a healthy one; leadership is moved away first.
func removeHealthy(in Input) (Decision, bool) { return removeUndeclared(in, true) }

func removeUndeclared(in Input, healthy bool) (Decision, bool) {
	for _, j := range followersFirst(in) {
		m, there := in.listed(j)
		if _, wanted := in.declared(j); wanted || !there || healthyMember(in, m) != healthy {
			continue
		}
		if g := mayRemove(in, m); g != pass {
			return refused(fmt.Sprintf("%s is no control-plane node any more, and removing its member waits: %s", j.Node.Name(), g),
				cke.Problem{Code: cke.CodeQuorum, Node: j.Node.Name(), Message: string(g)}), true
		}
		return Decision{Operation: op.RemoveMember{Member: m, Join: &j, Silent: in.silent(j)}, Reason: fmt.Sprintf("%s is no control-plane node any more", j.Node.Name())}, true
	}
	return Decision{}, false
}

// promote: a learner of ours answers and has caught up. It comes before repairs: one dead voter must not keep a good
// one from voting.
func promote(in Input) (Decision, bool) {
	for _, j := range in.Identity.Joins {
		m, there := in.listed(j)
		e, _ := in.Seen.Etcd.Endpoint(j.ID)
		if !there || !m.Learner || !e.Healthy() {
			continue
		}
		if behind := lag(in.Seen.Etcd, e); behind < 0 || behind >= op.MaxLag {
			continue
		}
		return Decision{Operation: op.PromoteMember{Join: j}, Reason: fmt.Sprintf("the learner on %s has caught up", j.Node.Name())}, true
	}
	return Decision{}, false
}

// replaceLost: a member's data is provably gone for longer than the grace. Its entry is removed; the node then gets a
// new membership with a volume of its own.
func replaceLost(in Input) (Decision, bool) {
	type loss struct {
		join   cke.Join
		member cke.Member
		wait   time.Duration
	}
	var lost []loss
	var gone []cke.Problem
	for _, j := range in.Identity.Joins {
		m, there := in.listed(j)
		p := dataProblem(in, j)
		if !there || p == nil || m.Learner { // a learner holds nothing that others do not
			continue
		}
		if in.Spec.Policies.Replace.Mode == cke.ReplaceManual {
			p.Remedy = "bring the volume back, or take the node out of the cluster file and put it in again"
		}
		gone = append(gone, *p)
		lost = append(lost, loss{j, m, time.Duration(in.Spec.Policies.Replace.Grace) - in.missingFor(j)})
	}
	if lost == nil {
		return Decision{}, false
	}
	told := "a member's data is gone, it is never started empty: " + list(gone)
	if in.Spec.Policies.Replace.Mode == cke.ReplaceManual {
		return Decision{Blockers: gone, Reason: told + "; it is replaced when a person says so (replace: manual)"}, true
	}
	first := slices.MinFunc(lost, func(a, b loss) int { return cmp.Compare(a.wait, b.wait) })
	if first.wait > 0 {
		return Decision{Blockers: gone, Again: min(first.wait, lastRetry), Reason: fmt.Sprintf("%s; %s is replaced in %s unless its data comes back", told, first.join.Node.Name(), first.wait.Round(time.Second))}, true
	}
	if g := mayRemove(in, first.member); g != pass {
		return refused(fmt.Sprintf("%s; replacing %s waits: %s", told, first.join.Node.Name(), g), gone...), true
	}
	return Decision{Operation: op.RemoveMember{Member: first.member, Join: &first.join, Silent: in.silent(first.join)}, Reason: fmt.Sprintf("the data of %s is gone; a new member takes its place", first.join.Node.Name())}, true
}

// missingFor is how long the last status has told that the member's data is missing.
func (in Input) missingFor(j cke.Join) time.Duration {
	for _, m := range in.Before.Members {
		if m.Join == j.ID && m.State == "missing" {
			return in.Seen.ObservedAt.Sub(m.Since)
		}
	}
	return 0
}

// strays: a running container of this cluster that belongs to no membership. It is stopped; its data is kept.
func strays(in Input) (Decision, bool) {
	for _, n := range in.Seen.Nodes {
		if !n.Answered() {
			continue
		}
		for _, c := range n.Containers {
			if c.Cluster != in.Spec.Name || !c.Running() && c.State != cke.ContainerRestarting {
				continue
			}
			if _, lasts := in.Identity.Join(c.Join); lasts {
				continue
			}
			j := cke.Join{ID: c.Join, Incarnation: c.Incarnation, Node: n.Node, Volume: c.Name}
			return Decision{Operation: op.StopStray{Join: j}, Reason: fmt.Sprintf("container %s on %s is no member", c.Name, n.Node.Name())}, true
		}
	}
	return Decision{}, false
}

// finishAdding: a membership was begun on a declared node, and its member is not there yet. It goes before everything
// that a change in flight keeps waiting; what the member list holds already goes before what was only recorded.
func finishAdding(in Input) (Decision, bool) {
	for _, inList := range []bool{true, false} {
		for _, j := range in.Identity.Joins {
			n, wanted := in.declared(j)
			if _, there := in.listed(j); !wanted || there != inList {
				continue
			}
			if d, matched := resumeAdding(in, n, j); matched {
				return d, true
			}
		}
	}
	return Decision{}, false
}

// addMember: a declared control-plane node carries no member.
func addMember(in Input) (Decision, bool) {
	for _, n := range in.Spec.ControlPlane() {
		if slices.ContainsFunc(in.Identity.Joins, func(j cke.Join) bool { return j.Node.Address == n.Address }) {
			continue
		}
		s := in.node(n)
		if !s.Answered() {
			continue // it may hold data; another node may be added meanwhile
		}
		if found := slices.Concat(foreign(in, s), takenPorts(in, s)); len(found) > 0 {
			return refused(fmt.Sprintf("%s cannot take a member: %s", n.Name(), list(found)), found...), true
		}
		if g := mayAdd(in, 0); g != pass {
			return refused(fmt.Sprintf("adding a member on %s waits: %s", n.Name(), g), cke.Problem{Code: cke.CodeQuorum, Node: n.Name(), Message: string(g)}), true
		}
		return Decision{Operation: op.AddMember{Node: n, Etcd: in.Spec.Options.Etcd}, Reason: fmt.Sprintf("%s is a control-plane node and carries no member", n.Name())}, true
	}
	return Decision{}, false
}

func resumeAdding(in Input, n cke.Node, j cke.Join) (Decision, bool) {
	m, there := in.listed(j)
	if there && (!m.Learner || m.Name != "" && healthyMember(in, m)) {
		return Decision{}, false
	}
	add := op.AddMember{Node: n, Etcd: j.Etcd, Resume: j.ID}
	pending := 0
	if there {
		pending = 1
	}
	if there && in.Failures[FailureKey(add)].Count >= withdrawAfter {
		return Decision{Operation: op.RemoveMember{Member: m, Join: &j, Silent: in.silent(j)}, Reason: fmt.Sprintf("the learner on %s did not come up %d times; a new one is tried", n.Name(), withdrawAfter)}, true
	}
	s := in.node(n)
	if !s.Answered() {
		return Decision{}, false
	}
	if p := forgotten(s, j); there && p != nil {
		return Decision{Operation: op.RemoveMember{Member: m, Join: &j, Silent: in.silent(j)}, Reason: fmt.Sprintf("the learner on %s lost what it had: %s; a new one is tried", n.Name(), p.Message)}, true
	}
	if g := mayAdd(in, pending); g != pass {
		return refused(fmt.Sprintf("adding a member on %s waits: %s", n.Name(), g), cke.Problem{Code: cke.CodeQuorum, Node: n.Name(), Message: string(g)}), true
	}
	return Decision{Operation: add, Reason: fmt.Sprintf("adding the member on %s did not end", n.Name())}, true
}

// foreign are etcd containers on the node that cke did not make. Our own old volumes and containers are no obstacle:
// every membership has its own.
func foreign(in Input, s cke.NodeStatus) []cke.Problem {
	return slices.DeleteFunc(leftovers(in, s), func(p cke.Problem) bool { return p.Code != cke.CodeForeignEtcd })
}

// catchingUp: a learner is on its way.
func catchingUp(in Input) (Decision, bool) {
	for _, j := range in.Identity.Joins {
		m, there := in.listed(j)
		if e, _ := in.Seen.Etcd.Endpoint(j.ID); there && m.Learner && e.Healthy() {
			return Decision{Again: catchUpAgain, Reason: fmt.Sprintf("the learner on %s is catching up, %d entries behind", j.Node.Name(), lag(in.Seen.Etcd, e))}, true
		}
	}
	return Decision{}, false
}

// followersFirst returns the memberships with the leader's last.
func followersFirst(in Input) []cke.Join {
	joins := slices.Clone(in.Identity.Joins)
	slices.SortStableFunc(joins, func(a, b cke.Join) int { return leads(in, a) - leads(in, b) })
	return joins
}

func leads(in Input, j cke.Join) int {
	if e, ok := in.Seen.Etcd.Endpoint(j.ID); ok && e.LeaderID != "" && e.LeaderID == e.MemberID {
		return 1
	}
	return 0
}

// silent reports whether the node of a membership does not answer.
func (in Input) silent(j cke.Join) bool {
	n := in.node(j.Node)
	return !n.Answered()
}

func refused(reason string, blockers ...cke.Problem) Decision {
	return Decision{Reason: reason, Blockers: blockers}
}
