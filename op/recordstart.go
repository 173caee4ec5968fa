package op

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cke"
)

// RecordStart records the start and the member id of a started member. The store lacks them if it was restored from a
// copy that was made while the member was added. Nothing else is changed.
type RecordStart struct {
	// Join is its membership, with the observed start.
	Join cke.Join
}

var _ Operation = RecordStart{}

// Name implements Operation.
func (RecordStart) Name() string { return "record-start" }

// Targets implements Operation.
func (r RecordStart) Targets() []string { return []string{r.Join.Node.Name()} }

// Stages implements Operation.
func (r RecordStart) Stages() []Stage {
	return []Stage{{{Name: "record-start", Node: r.Join.Node.Name(), Run: r.record}}}
}

// record asks the member list once more. Where the member id is not on record the member that is at the peer URL may be
// another one: it must answer from the container of this membership.
func (r RecordStart) record(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	answers, ran := "", false
	j, lasts := id.Join(r.Join.ID)
	if known := j.MemberID != ""; lasts && (!known || j.StartedAt.IsZero()) {
		c, err := e.Machines.Machine(r.Join.Node).Container(ctx, j)
		if err != nil && !(known && errors.Is(err, cke.ErrNotFound)) {
			return err
		}
		if !known {
			if answers = e.Etcd.Endpoint(ctx, j.ClientURL()).MemberID; !c.Running() || answers == "" {
				return fmt.Errorf("container %s is not known to carry a member: %w", c.Name, cke.ErrConflict)
			}
		}
		ran = known && c.EverRan()
		if ran || !known { // it never starts empty again, whatever the list says, and may be the only one that has a list
			if err := putJoin(ctx, e, j.ID, func(j *cke.Join) { noteStart(j, r.Join.StartedAt) }); err != nil {
				return err
			}
		}
	}
	list, _, err := readList(ctx, e)
	if ran && err != nil {
		return nil // what the list has to tell is recorded once there is a quorum
	}
	if err != nil {
		return err
	}
	m, there := list.of(j)
	if !there && answers != "" { // it was moved to other ports since the store was copied
		m, there = list.byID(answers)
	}
	if !lasts || !there || answers != "" && answers != m.ID || slices.ContainsFunc(id.Joins, func(o cke.Join) bool { return o.ID != j.ID && o.MemberID == m.ID }) {
		return fmt.Errorf("%s is not in the member list: %w", r.Join.Node.Name(), cke.ErrConflict)
	}
	return putJoin(ctx, e, j.ID, func(j *cke.Join) {
		j.MemberID = m.ID
		if noteStart(j, r.Join.StartedAt); !m.Learner {
			noteVote(j, r.Join.StartedAt)
		}
	})
}

// noteStart notes a start of a member unless one is on record.
func noteStart(j *cke.Join, at time.Time) {
	if j.StartedAt.IsZero() {
		j.StartedAt = at.UTC()
	}
}

// noteVote notes that a member votes, or may soon: its data counts, also where its removal as a learner failed.
func noteVote(j *cke.Join, now time.Time) {
	noteStart(j, now)
	j.NeverVoted, j.Repair, j.MayVote = false, false, true
}
