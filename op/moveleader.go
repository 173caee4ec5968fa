package op

import (
	"context"
	"fmt"

	"cke"
)

// moveEvery is the pause between two looks at whether leadership has moved.
const moveEvery = lookEvery * 5

// MoveLeader makes one member lead.
type MoveLeader struct{ Join cke.Join }

var _ Operation = MoveLeader{}

// Name implements Operation.
func (MoveLeader) Name() string { return "move-leader" }

// Targets implements Operation.
func (m MoveLeader) Targets() []string { return []string{m.Join.Node.Name()} }

// Stages implements Operation.
func (m MoveLeader) Stages() []Stage {
	return []Stage{{{Name: "move-leader", Node: m.Join.Node.Name(), Limit: changeLimit, Run: m.move}}}
}

// move asks the leader again until the member leads: a transfer that takes longer than an election is given up by etcd.
func (m MoveLeader) move(ctx context.Context, e Env) error {
	name := m.Join.Node.Name()
	var last error
	for {
		id, err := e.Ledger.Identity(ctx)
		if err != nil {
			return err
		}
		to := e.Etcd.Endpoint(ctx, m.Join.ClientURL())
		switch {
		case id.OfAnother(to):
			return &cke.Error{Code: cke.CodeSplitBrain, What: fmt.Sprintf("the member on %s cannot lead", name), Facts: []string{id.NotOurs(to)}, Unchanged: true}
		case to.MemberID != "" && to.LeaderID == to.MemberID:
			return nil
		case !to.Healthy() || !to.Linearizable || to.Learner:
			return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("%s does not serve as a voter, so it cannot lead", name), Unchanged: true}
		}
		leader, err := leaderOf(ctx, e, id)
		if err == nil {
			err = e.Etcd.MoveLeader(ctx, leader.URL, to.MemberID)
		}
		if err != nil {
			last = err
		}
		if err := e.Pause(ctx, moveEvery); err != nil {
			if last == nil {
				last = err
			}
			return fmt.Errorf("%s does not lead: %w", name, last)
		}
	}
}
