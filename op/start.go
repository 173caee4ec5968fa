package op

import (
	"context"
	"errors"
	"fmt"

	"cke"
)

// StartMembers starts members on their own data, all at once.
type StartMembers struct {
	// Joins name where each node is reached now, in Join.Node; all else is read from the ledger.
	Joins []cke.Join
	// AwaitServing: wait until each answers linearizable reads. Without a quorum there may be too few members for that:
	// then local reads are enough.
	AwaitServing bool
}

var _ Operation = StartMembers{}

// Name implements Operation.
func (StartMembers) Name() string { return "start-members" }

// Targets implements Operation.
func (s StartMembers) Targets() []string { return joinNames(s.Joins) }

// Stages implements Operation.
func (s StartMembers) Stages() []Stage {
	var start, serve Stage
	for _, j := range s.Joins {
		start = append(start, Step{Name: "start", Node: j.Node.Name(), Limit: imageLimit, Run: func(ctx context.Context, e Env) error {
			return startOnOwnData(ctx, e, j)
		}})
		if s.AwaitServing {
			serve = append(serve, Step{Name: "serve", Node: j.Node.Name(), Limit: serveLimit, Run: func(ctx context.Context, e Env) error {
				return awaitServing(ctx, e, j)
			}})
		}
	}
	if serve == nil {
		return []Stage{start}
	}
	return []Stage{start, serve}
}

// startOnOwnData starts the member of a join, and refuses unless its volume holds a write-ahead log. A container
// that still carries the arguments of its first start is made again with those of StartOwnData.
func startOnOwnData(ctx context.Context, e Env, wanted cke.Join) error {
	return startUnlessRuns(ctx, e, wanted, nil)
}

// startUnlessRuns is startOnOwnData that returns an error, or nil, where the member runs already.
func startUnlessRuns(ctx context.Context, e Env, wanted cke.Join, runs error) error {
	identity, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	j, ok := identity.Join(wanted.ID)
	inc := identity.Incarnation
	if !ok || inc == nil || inc.State != cke.Formed && !(inc.State == cke.Restoring && !j.StartedAt.IsZero()) {
		return fmt.Errorf("%s is not a membership of a cluster that is formed, or restored and started: %w", wanted.ID, cke.ErrConflict)
	}
	if err := neverApart(identity, j); err != nil {
		return err
	}
	j.Node = wanted.Node
	if j.StartedAt.IsZero() && !wanted.StartedAt.IsZero() { // seen by Decide, where the store is from before it
		if err := putJoin(ctx, e, j.ID, func(j *cke.Join) { noteStart(j, wanted.StartedAt) }); err != nil {
			return err
		}
		noteStart(&j, wanted.StartedAt)
	}
	m := e.Machines.Machine(j.Node)
	c, err := m.Container(ctx, j)
	if err == nil && c.Running() {
		return runs
	}
	if errors.Is(err, cke.ErrNotFound) {
		err = m.EnsureImage(ctx, j.Etcd.Image, e.Progress)
	}
	if err != nil {
		return err
	}
	spec := cke.MemberSpec{Cluster: e.Cluster, Join: j, Mode: cke.StartOwnData, Token: inc.Token}
	if err := m.EnsureContainer(ctx, spec); err != nil {
		return dataGone(j, err)
	}
	if err := noteLimits(ctx, e, j); err != nil {
		return err
	}
	if err := needData(ctx, m, j); err != nil {
		return err
	}
	if err := m.KeepRunning(ctx, j); err != nil { // stopping it ended the engine's own restarts
		return err
	}
	return m.StartContainer(ctx, j)
}

// noteLimits records what an engine has made of the limits of a container that it has just created. One that discards a limit
// says so in a warning only, and would do so again.
func noteLimits(ctx context.Context, e Env, j cke.Join) error {
	asked := j.Etcd.Resources
	if asked == (cke.Resources{}) && j.Made == nil {
		return nil
	}
	c, err := e.Machines.Machine(j.Node).Container(ctx, j)
	if err != nil {
		return err
	}
	var made *cke.Resources
	if !asked.Of(c) {
		made = &cke.Resources{CPUs: c.CPUs, Memory: cke.Size(c.Memory)}
	}
	if made == nil && j.Made == nil || made != nil && j.Made != nil && *made == *j.Made {
		return nil
	}
	return putJoin(ctx, e, j.ID, func(j *cke.Join) { j.Made = made })
}

// needData refuses unless the volume of the join's container holds a write-ahead log.
func needData(ctx context.Context, m cke.Machine, j cke.Join) error {
	data, err := m.Data(ctx, j)
	if err != nil {
		return fmt.Errorf("check for data: %w", err)
	}
	if data != cke.DataPresent {
		return dataGone(j, cke.ErrDataMissing)
	}
	return nil
}

func dataGone(j cke.Join, err error) error {
	if !errors.Is(err, cke.ErrDataMissing) {
		return err
	}
	return &cke.Error{Code: cke.CodeDataMissing, What: fmt.Sprintf("volume %s on %s holds no data", j.Volume, j.Node.Name()),
		Facts: []string{"a member is never started empty under its old id"}, Err: err}
}
