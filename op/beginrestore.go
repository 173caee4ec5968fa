package op

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cke"
)

// BeginRestore fetches and checks what a cluster is restored from, and records its next incarnation. Until then
// nothing changes, except that members whose own data is read are stopped.
type BeginRestore struct {
	Task cke.Task
	// Spec is the declared cluster, with defaults.
	Spec cke.Cluster
	// Founders are the nodes that get a member.
	Founders []cke.Node
	// Known is the highest revision that is known to have been used.
	Known int64
	// Members is the newest known member list.
	Members cke.MemberList
	// Serving: the cluster has its quorum, so its current data is stored once more.
	Serving bool
	// Fence are the memberships and containers that are stopped first, so that what is read does not change; only if a
	// survivor's data is read.
	Fence []cke.Join
	// Gone are members that the order calls destroyed, apart from those in Fence.
	Gone []cke.Former
	// Replaces are incarnations that were found on nodes and that no record names: the restore records them as replaced.
	// Only for a cluster that was declared for a restore.
	Replaces []string
	// Precede are those of which nothing is newer than what is on record.
	Precede []string
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
	stages := []Stage{append(onEach(b.Founders, "image", imageLimit, func(ctx context.Context, e Env, n cke.Node) error {
		return e.Machines.Machine(n).EnsureImage(ctx, b.Spec.Options.Etcd.Image, e.Progress)
	}), authorities())}
	if len(b.Fence) > 0 {
		stages = append(stages, Stage{{Name: "check-quorum", Run: b.noQuorum}})
		stages = append(stages, fenceStages(b.Fence, stopKeptStep, isFormed)...)
	}
	var checked cke.Snapshot
	var ran map[cke.JoinID]time.Time
	return whileWanted(append(stages,
		Stage{{Name: "fetch", Limit: snapshotLimit, Run: func(ctx context.Context, e Env) (err error) {
			if b.order().Survivor != "" {
				if ran, err = lastStarts(ctx, e, b.Fence); err != nil {
					return err
				}
				if err = b.othersRan(ctx, e, ran); err != nil {
					return err
				}
			}
			checked, err = b.fetch(ctx, e, b.order())
			return err
		}}},
		Stage{{Name: "final-backup", Limit: finalLimit + DefaultStepLimit, Run: b.finalBackup}},
		Stage{{Name: "record-restoring", Run: func(ctx context.Context, e Env) error { return b.record(ctx, e, checked, ran) }}},
	))
}

// fetch returns the snapshot that o names if it is what was confirmed and fits. One that was fetched before is usually still
// there.
func (b BeginRestore) fetch(ctx context.Context, e Env, o cke.RestoreOrder) (cke.Snapshot, error) {
	s, err := b.read(ctx, e, o)
	return s, cmp.Or(err, confirmed(b.order(), s), b.fits(s))
}

// read is fetch, whatever was confirmed.
func (b BeginRestore) read(ctx context.Context, e Env, o cke.RestoreOrder) (cke.Snapshot, error) {
	if e.Snapshots == nil {
		return cke.Snapshot{}, errNoSnapshots
	}
	var survivor *cke.Join
	if o.Survivor != "" {
		j, err := b.survivor(ctx, e)
		if err != nil {
			return cke.Snapshot{}, err
		}
		survivor = &j
	}
	return fetch(ctx, e, b.Task.ID, o, survivor)
}

// survivor is the membership whose data is used, at the machine on which it is stopped: that has the data, and may have another address than
// the one on record.
func (b BeginRestore) survivor(ctx context.Context, e Env) (cke.Join, error) {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return cke.Join{}, err
	}
	i := slices.IndexFunc(id.Joins, func(j cke.Join) bool { return j.Node.Name() == b.order().Survivor })
	if i < 0 {
		return cke.Join{}, fmt.Errorf("%s carries no member: %w", b.order().Survivor, cke.ErrConflict)
	}
	if at := indexOf(b.Fence, id.Joins[i].ID); at >= 0 {
		return b.Fence[at], nil
	}
	return id.Joins[i], nil
}

// confirmed refuses another incarnation than the operator confirmed, and another revision: of an order for the newest state,
// which clients continue to change, only an older one.
func confirmed(o cke.RestoreOrder, s cke.Snapshot) error {
	newest := o.Revision == 0 && o.Time.IsZero()
	same := s.Revision == o.ShownRevision || newest && s.Revision > o.ShownRevision
	if o.ShownLineage == "" || s.Lineage == o.ShownLineage && same {
		return nil
	}
	return &cke.Error{Code: cke.CodeLostBackups, What: "this is not the state that was confirmed", Unchanged: true, Facts: []string{
		fmt.Sprintf("the plan showed revision %d of incarnation %s, and the backups now lead to revision %d of incarnation %s", o.ShownRevision, o.ShownLineage, s.Revision, s.Lineage),
		"to restore that state: " + o.Again(s.Lineage, s.Revision),
	}, Try: "ckecli restore --plan"}
}

// fits refuses a database on which the declared etcd would not start, or with which it would take no write: one from backups holds history that the
// cluster itself had compacted. That of a survivor is taken as it is.
func (b BeginRestore) fits(s cke.Snapshot) error {
	if b.order().Survivor != "" {
		return nil
	}
	return cmp.Or(NewerData(b.Spec, s.Etcd), AboveQuota(b.Spec, s.Size))
}

// NewerData refuses data of this version if it is of a later minor version than the etcd of the cluster.
func NewerData(c cke.Cluster, version string) error {
	named := c.Options.Etcd.NamedVersion()
	has, known := cke.ParseVersion(version)
	wants, declared := cke.ParseVersion(named)
	if !known || !declared || has.Minor <= wants.Minor {
		return nil
	}
	return &cke.Error{Code: cke.CodeVersion, What: fmt.Sprintf("the data is of etcd 3.%d, which etcd %s cannot read", has.Minor, named), Unchanged: true,
		Try: fmt.Sprintf("declare options.etcd.version %s or later", cke.GoodRelease(has.Minor))}
}

// AboveQuota refuses a database of so many bytes if it is no smaller than the quota of the cluster's members.
func AboveQuota(c cke.Cluster, size int64) error {
	quota := c.Options.Etcd.Quota()
	if size < quota {
		return nil
	}
	const mib = 1 << 20
	need := (size + size/4 + mib - 1) / mib * mib
	return &cke.Error{Code: cke.CodeAboveQuota, What: fmt.Sprintf("the restored database would have %d MiB, but members are full at %d MiB", size/mib, quota/mib), Unchanged: true,
		Facts: []string{fmt.Sprintf("options.etcd.extra_args: --quota-backend-bytes=%d leaves room for writes", need)}, Try: "ckecli cluster edit"}
}

// noQuorum refuses to stop members of a cluster that has come to life again, and one that has applied more than a survivor that was
// chosen because it had applied most.
func (b BeginRestore) noQuorum(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	taken, furthest, ahead := b.order().ShownApplied, uint64(0), ""
	for _, url := range id.Asked() {
		s := e.Etcd.Endpoint(ctx, url)
		at := slices.IndexFunc(id.Joins, func(j cke.Join) bool { return j.ClientURL() == url })
		switch {
		case at < 0 || s.Problem != "" || id.OfAnother(s) || id.Joins[at].Apart:
		case id.Joins[at].Node.Name() == b.order().Survivor:
			taken = max(taken, s.RaftApplied)
		case s.RaftApplied > furthest:
			furthest, ahead = s.RaftApplied, id.Joins[at].Node.Name()
		}
		if s.Healthy() && !id.OfAnother(s) && s.Linearizable {
			return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("cluster %s has its quorum again and needs no recovery", e.Cluster), Unchanged: true, Try: "ckecli status"}
		}
	}
	if !b.order().Named && furthest > taken {
		return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("%s has applied more than %s, which was to be taken because it had applied most", ahead, b.order().Survivor),
			Facts: []string{fmt.Sprintf("index %d, and index %d of %s", furthest, taken, b.order().Survivor), "to take a certain one all the same: --from NODE"}, Unchanged: true, Try: "ckecli recover"}
	}
	return nil
}

// finalBackup stores what the cluster holds now, if that can be had. Where the operator was told that all will be stored, a
// target that takes nothing is noticed before anything is changed; what is written from now on is stored when writes are stopped.
func (b BeginRestore) finalBackup(ctx context.Context, e Env) error {
	err := errors.New("the cluster has no quorum")
	if b.Serving {
		err = errors.New("no backups are taken of this cluster")
		if e.Backups != nil {
			_, err = flush(ctx, e, finalLimit)
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return nil
	case b.order().Stored:
		refused := notStored(err)
		refused.Unchanged = true
		return refused
	case b.Serving:
		e.Log.Warn("no last backup before the restore", "error", err)
		e.Note("none could be made: " + err.Error())
	}
	return nil
}

// record stores who the cluster is going to be, before anything of what it is now is stopped for good. It is restored from the
// snapshot that was checked: one that is gone from this host is fetched once more, and the backups may have changed since.
func (b BeginRestore) record(ctx context.Context, e Env, checked cke.Snapshot, ran map[cke.JoinID]time.Time) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	if inc := id.Incarnation; inc != nil && inc.Restore != nil && inc.Restore.ID == b.Task.ID {
		return nil
	}
	o := b.order()
	if o.Survivor == "" {
		o.Lineage, o.Revision = checked.Lineage, checked.Revision
	}
	s, err := b.fetch(ctx, e, o)
	if err != nil {
		return err
	}
	if s.Lineage != checked.Lineage || s.Revision != checked.Revision {
		return &cke.Error{Code: cke.CodeLostBackups, What: "the state that was checked cannot be read any more", Unchanged: true, Facts: []string{
			fmt.Sprintf("it was revision %d of incarnation %s, and now it is revision %d of incarnation %s",
				checked.Revision, checked.Lineage, s.Revision, s.Lineage)}, Try: "ckecli restore"}
	}
	r := cke.Restoration{ID: b.Task.ID, By: b.Task.By, Order: o, Snapshot: s, Bump: cke.RevisionBump, Members: b.Members.Members, MembersAt: b.Members.At, Ran: ran, Compared: o.Survivor == ""}
	r.Order.Lineage, r.Order.Revision = s.Lineage, s.Revision
	r.Bump += max(0, max(b.Known, id.Incarnation.Floor())-s.Revision)
	if r.Data, err = e.Snapshots.Hash(ctx, b.Task.ID, r.Bump); err != nil {
		return err
	}
	inc := cke.NewRestoration(b.Spec, id, r, e.Now())
	inc.Replaced = slices.Concat(b.Precede, inc.Replaced, b.Replaces)
	if inc.Restore.Returned, err = b.destroyedGone(ctx, e); err != nil {
		return err
	}
	if o.Survivor != "" { // members that were not stopped may have found each other since
		if err := b.noQuorum(ctx, e); err != nil {
			var stopped *cke.Error
			if errors.As(err, &stopped) {
				stopped.Unchanged = false
			}
			return err
		}
	}
	err = e.Ledger.BeginRestore(ctx, inc)
	if err == nil {
		return nil
	}
	if id, again := e.Ledger.Identity(ctx); again == nil && id.Incarnation.Life(inc.ID) {
		return nil // only the answer was lost
	}
	return err
}
