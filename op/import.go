package op

import (
	"context"
	"fmt"
	"slices"

	"cke"
	"cke/quorum"
)

// OldStays returns why no member of an old cluster may leave the member list yet; "": one may. Each declared node must have a
// voter that serves, and these must be a quorum of the voters that are left.
func OldStays(i *cke.Import, list []cke.Member, joins []cke.Join, declared []cke.Node, healthy func(cke.Member) bool) string {
	switch {
	case i.Reverting:
		return "the import is being reverted"
	case i.KeepOld:
		return "the operator keeps them until the import is continued"
	}
	voters, own := 0, 0
	serving := map[string]bool{}
	for _, m := range list {
		if m.Learner {
			continue
		}
		voters++
		at := slices.IndexFunc(joins, m.Of)
		if at >= 0 && !joins[at].Apart && healthy(m) {
			own++
			serving[joins[at].Node.Address] = true
		}
	}
	for _, n := range declared {
		if !serving[n.Address] {
			return n.Name() + " has no member that votes and serves"
		}
	}
	if need := quorum.Of(voters - 1); own < need {
		return fmt.Sprintf("%s of cke would be no quorum of the %d that are left, which is %d", cke.Plural(own, "voter", "voters"), voters-1, need)
	}
	return ""
}

// successors are where members are asked that may lead in place of one: those of cke, then those of an old cluster; the other way round
// while an import is being reverted.
func successors(id cke.Identity, except cke.JoinID) [][]string {
	var own []string
	for _, j := range id.Joins {
		if j.ID != except {
			own = append(own, j.ClientURL())
		}
	}
	i := id.Incarnation.Importing()
	if i != nil && i.Reverting {
		return [][]string{i.URLs(), own}
	}
	return [][]string{own, i.URLs()}
}

// EndImport records that the member list has no member of the old cluster any more.
type EndImport struct{}

var _ Operation = EndImport{}

// Name implements Operation.
func (EndImport) Name() string { return "end-import" }

// Targets implements Operation: it is about the cluster.
func (EndImport) Targets() []string { return nil }

// Stages implements Operation.
func (EndImport) Stages() []Stage {
	return []Stage{{{Name: "record-end", Run: func(ctx context.Context, e Env) error {
		list, id, err := readList(ctx, e)
		old := id.Incarnation.Importing()
		switch {
		case err != nil || old == nil:
			return err
		case old.In(list.members) != nil || !id.OthersVote(list.members):
			return fmt.Errorf("the member list still has members of the old cluster, or none of cke that votes: %w", cke.ErrConflict)
		}
		return putImport(ctx, e, id, func(i *cke.Import) { i.EndedAt = e.Now().UTC() })
	}}}}
}

// TurnImport records whether the members of cke leave, or those of the old cluster.
type TurnImport struct {
	Revert bool
	// Task is the id of the request.
	Task string
}

var _ Operation = TurnImport{}

// Name implements Operation.
func (t TurnImport) Name() string {
	if t.Revert {
		return "revert-import"
	}
	return "continue-import"
}

// Targets implements Operation: it is about the cluster.
func (TurnImport) Targets() []string { return nil }

// Stages implements Operation.
func (t TurnImport) Stages() []Stage {
	return []Stage{{{Name: "record", Run: func(ctx context.Context, e Env) error {
		list, id, err := readList(ctx, e)
		if err != nil {
			return err
		}
		old := id.Incarnation.Importing()
		if old == nil || !slices.ContainsFunc(old.In(list.members), func(m cke.Member) bool { return !m.Learner }) {
			return fmt.Errorf("no member of the old cluster votes: %w", cke.ErrConflict)
		}
		if old.Turned == t.Task {
			return nil
		}
		return putImport(ctx, e, id, func(i *cke.Import) { // to let old members leave is asked for separately
			i.Reverting, i.KeepOld, i.Turned = t.Revert, i.KeepOld && (t.Revert || i.Reverting), t.Task
		})
	}}}}
}

func putImport(ctx context.Context, e Env, id cke.Identity, change func(*cke.Import)) error {
	inc, next := *id.Incarnation, *id.Incarnation.Import
	change(&next)
	inc.Import = &next
	return e.Ledger.UpdateIncarnation(ctx, inc)
}
