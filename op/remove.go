package op

import (
	"context"
	"errors"
	"fmt"

	"cke"
)

// RemoveMember takes a member out of the list, ends its membership, and stops its container where the node answers.
// Its volume is kept. It works when the member's machine is gone.
type RemoveMember struct {
	// Member is the entry to remove.
	Member cke.Member
	// Join is its membership; nil for a member that cke did not make, or no longer knows.
	Join *cke.Join
	// Silent tells that the node does not answer: its container is not stopped. etcd there ends by itself once it
	// hears that it was removed.
	Silent bool
}

var _ Operation = RemoveMember{}

// Name implements Operation.
func (RemoveMember) Name() string { return "remove-member" }

// Targets implements Operation.
func (r RemoveMember) Targets() []string {
	switch {
	case r.Join != nil:
		return []string{r.Join.Node.Name()}
	case r.Member.Name != "":
		return []string{r.Member.Name}
	}
	return []string{r.Member.ID}
}

// Stages implements Operation.
func (r RemoveMember) Stages() []Stage {
	n := r.Targets()[0]
	stages := []Stage{
		{{Name: "move-leader", Node: n, Run: r.moveLeader}},
		{{Name: "remove", Node: n, Limit: ChangeLimit, Run: func(ctx context.Context, e Env) error {
			return whenReady(ctx, e, func() error { return r.remove(ctx, e) })
		}}},
	}
	if r.Join == nil {
		return stages
	}
	return append(stages, EndMembership{Join: *r.Join, Silent: r.Silent}.Stages()...)
}

// moveLeader moves leadership away from the member if it leads.
func (r RemoveMember) moveLeader(ctx context.Context, e Env) error {
	if r.Join == nil {
		return nil
	}
	return moveLeaderFrom(ctx, e, *r.Join)
}

// moveLeaderFrom makes another healthy voter lead if the join's member does.
func moveLeaderFrom(ctx context.Context, e Env, j cke.Join) error {
	s := e.Etcd.Endpoint(ctx, j.ClientURL())
	if !s.Healthy() || s.LeaderID == "" || s.LeaderID != s.MemberID {
		return nil
	}
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	var best cke.EndpointStatus
	for _, other := range id.Joins {
		if other.ID == j.ID {
			continue
		}
		o := e.Etcd.Endpoint(ctx, other.ClientURL())
		if o.Healthy() && o.Linearizable && !o.Learner && o.RaftApplied >= best.RaftApplied {
			best = o
		}
	}
	if best.MemberID == "" {
		return nil // the only voter, or the only healthy one: there is nobody to move it to
	}
	return e.Etcd.MoveLeader(ctx, j.ClientURL(), best.MemberID)
}

// remove asks for the arithmetic once more and removes the entry, unless it is gone already.
func (r RemoveMember) remove(ctx context.Context, e Env) error {
	list, id, err := readList(ctx, e)
	if err != nil {
		return err
	}
	there := false
	for _, m := range list.members {
		if m.ID == r.Member.ID {
			there = true
			if !m.Learner {
				if err := list.gate(ctx, e, id, m.ID, list.voters()-1); err != nil {
					return err
				}
			}
		}
	}
	if !there {
		return nil
	}
	via := list.via
	if r.Join != nil && via == r.Join.ClientURL() {
		// A member that is removed may not live to answer.
		for _, j := range id.Joins {
			if s := e.Etcd.Endpoint(ctx, j.ClientURL()); j.ID != r.Join.ID && s.Healthy() && s.Linearizable {
				via = j.ClientURL()
			}
		}
	}
	if err := e.Etcd.RemoveMember(ctx, via, r.Member.ID); err != nil && !errors.Is(err, cke.ErrNotFound) {
		return err
	}
	return nil
}

// EndMembership ends a membership whose member is no longer in the list, and stops its container. The volume is kept.
type EndMembership struct {
	Join cke.Join
	// Silent is as in RemoveMember.
	Silent bool
}

var _ Operation = EndMembership{}

// Name implements Operation.
func (EndMembership) Name() string { return "end-membership" }

// Targets implements Operation.
func (m EndMembership) Targets() []string { return []string{m.Join.Node.Name()} }

// Stages implements Operation.
func (m EndMembership) Stages() []Stage {
	record := Stage{{Name: "record-end", Node: m.Join.Node.Name(), Run: m.record}}
	if m.Silent {
		return []Stage{record}
	}
	return []Stage{record, {stopStep(m.Join)}}
}

func (m EndMembership) record(ctx context.Context, e Env) error {
	list, id, err := readList(ctx, e)
	if err != nil {
		return err
	}
	j, lasts := id.Join(m.Join.ID)
	if !lasts {
		return nil
	}
	if member, there := list.of(j); there {
		return fmt.Errorf("%s is member %s: %w", j.Node.Name(), member.ID, cke.ErrConflict)
	}
	j.EndedAt = e.Now().UTC()
	return e.Ledger.PutJoins(ctx, j)
}

// StopStray stops a container of this cluster that is no member. Its volume and the container are kept.
type StopStray struct{ Join cke.Join }

var _ Operation = StopStray{}

// Name implements Operation.
func (StopStray) Name() string { return "stop-stray" }

// Targets implements Operation.
func (s StopStray) Targets() []string { return []string{s.Join.Node.Name()} }

// Stages implements Operation.
func (s StopStray) Stages() []Stage {
	stop := stopStep(s.Join)
	run := stop.Run
	stop.Run = func(ctx context.Context, e Env) error {
		id, err := e.Ledger.Identity(ctx)
		if err != nil {
			return err
		}
		if _, lasts := id.Join(s.Join.ID); lasts {
			return fmt.Errorf("%s is a membership: %w", s.Join.ID, cke.ErrConflict)
		}
		return run(ctx, e)
	}
	return []Stage{{stop}}
}
