package op

import (
	"context"
	"fmt"
	"time"

	"cke"
)

// defragmentLimit bounds the rewriting of one member's database: some gigabytes on a slow disk.
const defragmentLimit = 10 * time.Minute

// Defragment gives the free pages of members' databases back to their disks, one member at a time. A member does not
// answer meanwhile, so each must serve again before the next one.
type Defragment struct {
	// Joins are the members in their order: followers first, the leader last, after its leadership was moved.
	Joins []cke.Join
}

var _ Disruptive = Defragment{}

// Name implements Operation.
func (Defragment) Name() string { return "defragment" }

// Targets implements Operation.
func (d Defragment) Targets() []string { return joinNames(d.Joins) }

// Disrupts implements Disruptive.
func (d Defragment) Disrupts() []cke.JoinID {
	var all []cke.JoinID
	for _, j := range d.Joins {
		all = append(all, j.ID)
	}
	return all
}

// Stages implements Operation.
func (d Defragment) Stages() []Stage {
	var stages []Stage
	for _, j := range d.Joins {
		n := j.Node.Name()
		stages = append(stages,
			Stage{{Name: "move-leader", Node: n, Run: func(ctx context.Context, e Env) error { return moveLeaderFrom(ctx, e, j) }}},
			Stage{{Name: "defragment", Node: n, Limit: defragmentLimit, Run: func(ctx context.Context, e Env) error { return defragment(ctx, e, j) }}},
			Stage{{Name: "serve", Node: n, Limit: serveLimit, Run: func(ctx context.Context, e Env) error { return awaitServing(ctx, e, j) }}})
	}
	return stages
}

// defragment asks for the arithmetic once more. Clusters of one or two voters cannot be defragmented without a gap.
func defragment(ctx context.Context, e Env, j cke.Join) error {
	if err := mayStop(ctx, e, j, true); err != nil {
		return err
	}
	before := e.Etcd.Endpoint(ctx, j.ClientURL()).DBSize
	if err := e.Etcd.Defragment(ctx, j.ClientURL()); err != nil {
		return err
	}
	if after := e.Etcd.Endpoint(ctx, j.ClientURL()).DBSize; before > 0 && after > 0 {
		e.Note(fmt.Sprintf("%d of %d bytes left", after, before))
	}
	return nil
}

// mayStop asks, on a fresh list and with fresh health, whether the cluster serves on while the join's member does not.
// gap: of one or two voters any may stop.
func mayStop(ctx context.Context, e Env, j cke.Join, gap bool) error {
	list, id, err := readList(ctx, e)
	if err != nil {
		return err
	}
	m, there := list.of(j)
	if !there && Unproved(list.members, id, nil) != nil {
		return list.unproved("no member is stopped because of it")
	}
	if !there {
		return nil
	}
	return list.pauseGate(ctx, e, id, m, gap)
}
