package op

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cke"
)

// BeginRestore fetches and checks what a cluster is to be restored from, and records the life that it will have. Until
// then nothing changes, except that members are stopped whose own data is to be read.
type BeginRestore struct {
	Task cke.Task
	// Spec is the wanted cluster, with defaults.
	Spec cke.Cluster
	// Founders are the nodes that get a member.
	Founders []cke.Node
	// Known is the highest revision that is known to have been given out.
	Known int64
	// Serving: the cluster has its quorum, so what it holds now is stored once more.
	Serving bool
	// Fence are the memberships and containers that are stopped first, so that what is read does not change; only where a
	// survivor's data is read.
	Fence []cke.Join
}

var _ Operation = BeginRestore{}

// Name implements Operation.
func (b BeginRestore) Name() string {
	if b.order().Survivor != "" {
		return "begin-recovery"
	}
	return "begin-restore"
}

// Targets implements Operation.
func (b BeginRestore) Targets() []string { return names(b.Founders) }

func (b BeginRestore) order() cke.RestoreOrder { return *b.Task.Restore }

// Stages implements Operation.
func (b BeginRestore) Stages() []Stage {
	stages := []Stage{append(onEach(b.Founders, "image", ImageLimit, func(ctx context.Context, e Env, n cke.Node) error {
		return e.Machines.Machine(n).EnsureImage(ctx, b.Spec.Options.Etcd.Image, e.Progress)
	}), authorities())}
	if len(b.Fence) > 0 {
		stages = append(stages, Stage{{Name: "check-quorum", Run: noQuorum}})
		stages = append(stages, fenceStages(b.Fence, isFormed)...)
	}
	return append(stages,
		Stage{{Name: "fetch", Limit: SnapshotLimit, Run: func(ctx context.Context, e Env) error {
			_, err := b.fetch(ctx, e)
			return err
		}}},
		Stage{{Name: "final-backup", Limit: finalLimit, Run: b.finalBackup}},
		Stage{{Name: "record-restoring", Run: b.record}},
	)
}

// fetch returns the snapshot; one that was fetched before is there still.
func (b BeginRestore) fetch(ctx context.Context, e Env) (cke.Snapshot, error) {
	if e.Snapshots == nil {
		return cke.Snapshot{}, errNoSnapshots
	}
	o := b.order()
	var survivor *cke.Join
	if o.Survivor != "" {
		id, err := e.Ledger.Identity(ctx)
		if err != nil {
			return cke.Snapshot{}, err
		}
		i := slices.IndexFunc(id.Joins, func(j cke.Join) bool { return j.Node.Name() == o.Survivor })
		if i < 0 {
			return cke.Snapshot{}, fmt.Errorf("%s carries no member: %w", o.Survivor, cke.ErrConflict)
		}
		survivor = &id.Joins[i]
	}
	return e.Snapshots.Fetch(ctx, b.Task.ID, o, survivor, e.Progress)
}

// noQuorum refuses to stop members of a cluster that has come to life again.
func noQuorum(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	for _, j := range id.Joins {
		if s := e.Etcd.Endpoint(ctx, j.ClientURL()); s.Healthy() && s.Linearizable {
			return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("cluster %s has its quorum again, and needs no recovery", e.Cluster), Unchanged: true, Try: "ckecli status"}
		}
	}
	return nil
}

// finalBackup stores what the cluster holds now, if that can be had. It is one copy more: the volumes are kept.
func (b BeginRestore) finalBackup(ctx context.Context, e Env) error {
	if e.Backups == nil || !b.Serving {
		return nil
	}
	s, err := e.Backups.Flush(ctx)
	switch {
	case err != nil:
		e.Log.Warn("no last backup before the restore", "error", err)
		e.Progress("none could be made: " + err.Error())
	case s.ID != "":
		e.Stored(s)
	}
	return nil
}

// record stores who the cluster is going to be, before anything of what it is now is stopped for good.
func (b BeginRestore) record(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	if inc := id.Incarnation; inc != nil && inc.Restore != nil && inc.Restore.ID == b.Task.ID {
		return nil
	}
	s, err := b.fetch(ctx, e)
	if err != nil {
		return err
	}
	r := cke.Restoration{ID: b.Task.ID, By: b.Task.By, Order: b.order(), Snapshot: s, Bump: cke.RevisionBump}
	r.Order.Lineage, r.Order.Revision, r.Order.Time = s.Lineage, s.Revision, time.Time{}
	floor := b.Known
	if id.Incarnation != nil {
		floor = max(floor, id.Incarnation.Restore.Floor())
	}
	r.Bump += max(0, floor-s.Revision)
	if r.Data, err = e.Snapshots.Hash(ctx, b.Task.ID, r.Bump); err != nil {
		return err
	}
	inc := cke.NewRestoration(b.Spec, id, r, e.Now())
	err = e.Ledger.BeginRestore(ctx, inc)
	if err == nil {
		return nil
	}
	if id, again := e.Ledger.Identity(ctx); again == nil && id.Incarnation.Life(inc.ID) {
		return nil // only the answer was lost
	}
	return err
}
