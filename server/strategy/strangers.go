package strategy

import (
	"cmp"
	"fmt"
	"slices"

	"cke"
	"cke/op"
)

// unhealthyStrangers: members that cke does not know and that do not serve cost tolerance. Those that once were ours are
// removed whatever the policy says.
func unhealthyStrangers(in *Input) verdict { return removeStrangers(in, false) }

// healthyStrangers: the same for those that serve, after everything that adds tolerance.
func healthyStrangers(in *Input) verdict { return removeStrangers(in, true) }

func removeStrangers(in *Input, healthy bool) verdict {
	for _, m := range in.strangers() {
		if in.importing().Has(m) || healthyMember(in, m) != healthy || in.Spec.Policies.Foreign == cke.ForeignHold && !in.onceOurs(m) {
			continue
		}
		if g := mayRemove(in, m); g != open {
			return wait(fmt.Sprintf("foreign member %s cannot be removed: %s", nameOf(m), g), cke.Problem{Code: cke.CodeQuorum, Message: string(g)})
		}
		if missing := lacking(in, m); healthy && !m.Learner && missing != nil {
			return note(fmt.Sprintf("foreign member %s stays until there is a member on %s", nameOf(m), nodesOf(missing)), missing...)
		}
		return act(op.RemoveMember{Member: m, Declared: in.toCarry(m)}, fmt.Sprintf("foreign member %s has no membership on record", nameOf(m))).voluntary()
	}
	return pass()
}

// strangers are the entries of a member list read through a quorum that no membership names.
func (in *Input) strangers() []cke.Member {
	if !in.Formed() || in.Seen.Etcd.MembersSource != cke.MembersLinearizable {
		return nil
	}
	var all []cke.Member
	for _, m := range in.Seen.Etcd.Members {
		if in.joinOf(m) == nil {
			all = append(all, m)
		}
	}
	return all
}

// strangersAt are the foreign members that stand at an address: a URL or a container shows it.
func (in *Input) strangersAt(address string) []cke.Member {
	var all []cke.Member
	for _, m := range in.strangers() {
		if m.At(address) || slices.ContainsFunc(in.Seen.Nodes, func(n cke.NodeStatus) bool {
			return n.Node.Address == address && len(n.Carriers(m.PeerURLs)) > 0
		}) {
			all = append(all, m)
		}
	}
	return all
}

// strangersOn are the foreign members that stand on a node, and after them those that may: a voter that is known by a host name, or by
// another address of its machine, may be on any node without a member.
func (in *Input) strangersOn(n cke.Node) []cke.Member {
	all, placed := in.strangersAt(n.Address), in.placed()
	_, carries := in.Identity.On(n)
	for _, m := range in.strangers() {
		if !carries && !m.Learner && !slices.Contains(placed, m.ID) && !slices.ContainsFunc(all, func(o cke.Member) bool { return o.ID == m.ID }) {
			all = append(all, m)
		}
	}
	return all
}

// strangersOn are the members on a node that cke does not know and leaves alone. Two members on one node would share
// its ports, and one of ours at the same peer URL would be taken for the foreign member, without its data. Those that have its name count,
// too: the learner's --initial-cluster has one URL for each name.
func strangersOn(in *Input, n cke.Node) []cke.Problem {
	var found []cke.Problem
	problem := func(m cke.Member, format string, remedy string) {
		found = append(found, cke.Problem{Code: cke.CodeStranger, Node: n.Name(), Message: fmt.Sprintf(format, nameOf(m)), Remedy: remedy})
	}
	at := in.strangersAt(n.Address)
	for _, m := range at {
		problem(m, "foreign member %s is on this node", strangerRemedy(in, m))
	}
	for _, m := range in.strangers() {
		here := slices.ContainsFunc(at, func(o cke.Member) bool { return o.ID == m.ID })
		if m.Name == n.Name() && !here && !in.onceOurs(m) {
			problem(m, "it has the name of foreign member %s", "declare it with another hostname, or remove that member first")
		}
	}
	return found
}

// placed are the ids of foreign members of which a URL has the address of an observed node, or that a container there runs.
func (in *Input) placed() (ids []string) {
	for _, m := range in.strangers() {
		if slices.ContainsFunc(in.Seen.Nodes, func(n cke.NodeStatus) bool {
			return m.At(n.Node.Address) || n.Answered() && slices.ContainsFunc(n.Carriers(m.PeerURLs), cke.Container.Running)
		}) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// strangerIs says that a foreign member is on a node, or may be.
func (in *Input) strangerIs(m cke.Member, n cke.Node) string {
	if slices.ContainsFunc(in.strangersAt(n.Address), func(o cke.Member) bool { return o.ID == m.ID }) {
		return fmt.Sprintf("foreign member %s is on it", nameOf(m))
	}
	return fmt.Sprintf("foreign member %s may be on it (no URL of it has the address of a node)", nameOf(m))
}

// onceOurs reports whether a foreign member is what is left of a membership that ended: by its id, which is on record before any
// of ours is started. A learner that never started, at the peer URL of one that ended, was added by a call of ours that
// landed after it had been given up. Whoever else stands where one of ours stood is an operator's.
func (in *Input) onceOurs(m cke.Member) bool {
	return slices.ContainsFunc(in.Identity.Ended, func(j cke.Join) bool {
		return m.ID == j.MemberID || m.Learner && m.Name == "" && slices.Contains(m.PeerURLs, j.PeerURL())
	})
}

// nameOf is what a member is called by; one that never started has no name.
func nameOf(m cke.Member) string {
	if m.Name == "" {
		return m.ID
	}
	return m.Name
}

// strangerStatus reports a member that cke does not know.
func strangerStatus(in *Input, m cke.Member) cke.MemberStatus {
	s := cke.MemberStatus{Name: nameOf(m), Address: hostOf(m), ID: m.ID, Role: "-", State: "stranger", Lag: -1, Reason: "cke has no record of it, and it does not answer"}
	if len(m.ClientURLs) > 0 {
		s.ClientURL = m.ClientURLs[0]
	}
	if len(m.PeerURLs) > 0 {
		s.PeerURL = m.PeerURLs[0]
	}
	for _, e := range in.replies() {
		if e.MemberID != m.ID || e.Problem != "" {
			continue
		}
		s.Role, s.DBSize, s.Version, s.Lag, s.CertNotAfter = role(e), e.DBSize, e.Version, lag(in, e), e.CertNotAfter
		s.Reason = "cke has no record of it; it serves"
	}
	if in.importing().Has(m) {
		s.State, s.Reason = "old", oldStatus(in, m, healthyMember(in, m))
	}
	return s
}

// strangerProblems report the members that cke does not know. They are nothing that is waited for.
func strangerProblems(in *Input) []cke.Problem {
	var all []cke.Problem
	for _, m := range in.strangers() {
		if in.importing().Has(m) {
			continue
		}
		how := "does not serve, and counts in the quorum"
		if healthyMember(in, m) {
			how = "serves"
		}
		all = append(all, cke.Problem{Code: cke.CodeStranger, Node: nameOf(m), Message: fmt.Sprintf("a foreign member at %s %s", hostOf(m), how),
			Remedy: strangerRemedy(in, m)})
	}
	return all
}

// strangerRemedy is what an operator can do about a member that cke does not know.
func strangerRemedy(in *Input, m cke.Member) string {
	if in.importing().Has(m) {
		return cmp.Or(whereOldIs(in, m), "it leaves with the old cluster")
	}
	for _, n := range in.Spec.ControlPlane() {
		if _, carries := in.Identity.On(n); hostOf(m) == n.Address && !carries {
			return "`ckecli etcd adopt " + n.Name() + "` replaces it by a member that cke adds; or remove it with etcdctl"
		}
	}
	return "remove it with etcdctl, or set policies.foreign: remove"
}

// hostOf is where a member says that its peers reach it.
func hostOf(m cke.Member) string {
	for _, text := range m.PeerURLs {
		if host, _ := cke.HostPort(text); host != "" {
			return host
		}
	}
	return "an unknown address"
}
