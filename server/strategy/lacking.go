package strategy

import (
	"slices"

	"cke"
	"cke/op"
	"cke/quorum"
)

// lacking are the declared nodes without a member, if one voter less on record would be fewer than declared: whoever writes an
// address that does not answer is not to lose the members that serve, nor all of them to one that cke does not know.
func lacking(in *Input, m cke.Member) []cke.Problem {
	known := slices.DeleteFunc(slices.Clone(in.Identity.Joins), func(j cke.Join) bool { _, there := in.listed(j); return !there })
	var missing []cke.Problem
	for _, n := range op.Lacking(in.Seen.Etcd.Members, known, m, in.Spec.ControlPlane()) {
		if in.waitsItself(n, m) {
			continue
		}
		if s := in.node(n); s.Problem != nil {
			missing = append(missing, *s.Problem)
			continue
		}
		missing = append(missing, cke.Problem{Code: cke.CodeNotApplied, Node: n.Name(), Message: "it carries no member that votes"})
	}
	return missing
}

// toCarry are the declared nodes for which the removal of a member waits.
func (in *Input) toCarry(m cke.Member) []cke.Node {
	return slices.DeleteFunc(slices.Clone(in.Spec.ControlPlane()), func(n cke.Node) bool { return in.waitsItself(n, m) })
}

// waitsItself reports whether a node gets no member before this one is gone, or may not. A node with a foreign member takes none, and no
// foreign member waits for it. A member that serves from removed files keeps every other one that serves where it is: it waits for no node
// that a foreign member has to leave first, or to which one of ours moves, if whatever the others agree to is on one of ours with its data.
func (in *Input) waitsItself(n cke.Node, m cke.Member) bool {
	taken := in.strangersAt(n.Address) != nil
	if in.joinOf(m) == nil {
		return taken
	}
	return (taken || in.awaits(n)) && hollow(in, m) && quorum.InEach(tallyOf(in).Voters-1, in.holding())
}

// holding counts the voters on record that are seen to have their data.
func (in *Input) holding() int {
	n := 0
	for _, j := range in.Identity.Joins {
		s := in.node(j.Node)
		if c, _ := s.Of(j.ID); s.Answered() && c.Data == cke.DataPresent && in.hasVoter(in.Seen.Etcd.Members, j) {
			n++
		}
	}
	return n
}
