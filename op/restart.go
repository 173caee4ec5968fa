package op

import (
	"context"
	"fmt"

	"cke"
)

// RestartMember makes one member run with other options: image first, then leadership away, stop, start anew on its
// own data, wait until it serves. A member that leaves the minors that can read what 3.5 wrote into the log is started
// once more as it ran before, so that it writes a snapshot and the next one need not read that.
type RestartMember struct {
	Join cke.Join
	// Etcd is how the member is to run from now on.
	Etcd cke.EtcdOptions
	// Backup: there is to be a fresh backup before the member stops.
	Backup bool
}

var _ Operation = RestartMember{}

// Name implements Operation.
func (RestartMember) Name() string { return "restart-member" }

// Targets implements Operation.
func (r RestartMember) Targets() []string { return []string{r.Join.Node.Name()} }

// Stages implements Operation.
func (r RestartMember) Stages() []Stage {
	n := r.Join.Node.Name()
	move := Stage{{Name: "move-leader", Node: n, Run: func(ctx context.Context, e Env) error { return moveLeaderFrom(ctx, e, r.Join) }}}
	stop := Stage{{Name: "stop", Node: n, Limit: stopLimit, Run: r.stop}}
	serve := Stage{{Name: "serve", Node: n, Limit: RejoinLimit, Run: func(ctx context.Context, e Env) error { return awaitServing(ctx, e, r.Join) }}}
	stages := []Stage{{{Name: "image", Node: n, Limit: ImageLimit, Run: func(ctx context.Context, e Env) error {
		return e.Machines.Machine(r.Join.Node).EnsureImage(ctx, r.Etcd.Image, e.Progress)
	}}}}
	if r.Backup {
		stages = append(stages, LastBackup())
	}
	if minorOf(r.Join.Etcd.Version) < noLegacyLog && minorOf(r.Etcd.Version) >= noLegacyLog {
		stages = append(stages, move, stop, Stage{{Name: "snapshot", Node: n, Run: r.snapshot}}, serve)
	}
	return append(stages, move, stop, Stage{{Name: "start", Node: n, Run: r.start}}, serve)
}

// noLegacyLog is the first minor of 3.x that cannot read what members of 3.5 wrote into the raft log about themselves:
// it panics at every start until a snapshot stands behind those entries, which etcd by itself writes only every 10,000
// or 100,000 entries. Source: etcd 3.7 apply.Apply, 3.6 v2ToV3Request, 3.5 publish; seen on nodes.
const noLegacyLog = 7

// minorOf is the y of x.y.z; 0 if that is no version.
func minorOf(version string) int {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d.", &major, &minor); n < 2 {
		return 0
	}
	return minor
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

// snapshot starts the member as it ran, but so that it writes a snapshot at once: it has all older entries in its
// database, and has read them for the last time.
func (r RestartMember) snapshot(ctx context.Context, e Env) error {
	return startOnOwnData(ctx, e, r.Join, "--snapshot-count=1")
}

// start records the options only now: a member that is found stopped is started as it ran before.
func (r RestartMember) start(ctx context.Context, e Env) error {
	if err := putJoin(ctx, e, r.Join.ID, func(j *cke.Join) { j.Etcd = r.Etcd }); err != nil {
		return err
	}
	return startOnOwnData(ctx, e, r.Join)
}
