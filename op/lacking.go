package op

import (
	"context"
	"slices"

	"cke"
	"cke/quorum"
)

// Lacking returns the declared nodes on which no membership votes, if fewer voters on record than declared nodes would be left without a
// member. Where there are as many voters as there may be, one has to go first. A membership that is only on record is no member.
func Lacking(list []cke.Member, joins []cke.Join, goes cke.Member, declared []cke.Node) (nodes []cke.Node) {
	voters := slices.DeleteFunc(slices.Clone(list), func(m cke.Member) bool { return m.Learner })
	voting := slices.DeleteFunc(slices.Clone(joins), func(j cke.Join) bool {
		return !slices.ContainsFunc(voters, func(m cke.Member) bool { return m.Of(j) })
	})
	left := len(voting)
	if slices.ContainsFunc(voting, goes.Of) {
		left--
	}
	if left >= len(declared) || len(voters) >= quorum.MostVoters {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(declared), func(n cke.Node) bool {
		return slices.ContainsFunc(voting, func(j cke.Join) bool { return j.Node.Address == n.Address })
	})
}

// tooEarly refuses to remove a member that serves while a declared node lacks one.
func (r RemoveMember) tooEarly(ctx context.Context, e Env, list memberList, id cke.Identity, m cke.Member) error {
	if old := id.Incarnation.Importing(); old.Has(m) {
		healthy := func(m cke.Member) bool { _, is := serves(ctx, e, id, m); return is }
		if why := OldStays(old, list.members, id.Joins, r.Declared, healthy); why != "" {
			return &cke.Error{Code: cke.CodeOldCluster, What: "a member of the old cluster stays", Facts: []string{why}, Unchanged: true}
		}
	}
	nodes := Lacking(list.members, id.Joins, m, r.Declared)
	if len(nodes) == 0 {
		return nil
	}
	if _, is := serves(ctx, e, id, m); !is {
		return nil
	}
	refused := &cke.Error{Code: cke.CodeQuorum, What: "a serving member is not removed before the declared nodes have one", Unchanged: true}
	for _, n := range nodes {
		refused.Facts = append(refused.Facts, n.Name()+" has no member that votes")
	}
	return refused
}
