package op

import (
	"context"
	"fmt"

	"cke"
)

// RestartMember makes one member run with other options: image first, then leadership away, stop, start anew on its
// own data, wait until it serves.
type RestartMember struct {
	Join cke.Join
	// Etcd is how the member is to run from now on.
	Etcd cke.EtcdOptions
}

var _ Operation = RestartMember{}

// Name implements Operation.
func (RestartMember) Name() string { return "restart-member" }

// Targets implements Operation.
func (r RestartMember) Targets() []string { return []string{r.Join.Node.Name()} }

// Stages implements Operation.
func (r RestartMember) Stages() []Stage {
	n := r.Join.Node.Name()
	return []Stage{
		{{Name: "image", Node: n, Limit: ImageLimit, Run: func(ctx context.Context, e Env) error {
			return e.Machines.Machine(r.Join.Node).EnsureImage(ctx, r.Etcd.Image, e.Progress)
		}}},
		{{Name: "move-leader", Node: n, Run: func(ctx context.Context, e Env) error { return moveLeaderFrom(ctx, e, r.Join) }}},
		{{Name: "stop", Node: n, Limit: stopLimit, Run: r.stop}},
		{{Name: "start", Node: n, Run: r.start}},
		{{Name: "serve", Node: n, Limit: RejoinLimit, Run: func(ctx context.Context, e Env) error { return awaitServing(ctx, e, r.Join) }}},
	}
}

// stop asks for the arithmetic once more. Clusters of one or two voters cannot be restarted without a gap.
func (r RestartMember) stop(ctx context.Context, e Env) error {
	list, id, err := readList(ctx, e)
	if err != nil {
		return err
	}
	voters := 0
	for _, m := range list.members {
		if !m.Learner {
			voters++
		}
	}
	m, there := list.of(r.Join)
	if !there {
		return fmt.Errorf("%s is not in the member list: %w", r.Join.Node.Name(), cke.ErrConflict)
	}
	if voters > 2 && !m.Learner {
		if err := list.gate(ctx, e, id, m.ID, voters); err != nil {
			return err
		}
	}
	return e.Machines.Machine(r.Join.Node).StopContainer(ctx, r.Join, stopGrace)
}

// start records the options only now: a member that is found stopped is started as it ran before.
func (r RestartMember) start(ctx context.Context, e Env) error {
	if err := putJoin(ctx, e, r.Join.ID, func(j *cke.Join) { j.Etcd = r.Etcd }); err != nil {
		return err
	}
	return startOnOwnData(ctx, e, r.Join)
}
