package op

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/quorum"
)

// Limits of a restore's longer steps.
const (
	// snapshotLimit bounds fetching a snapshot, and bringing it to a node and making data of it.
	snapshotLimit = 2 * time.Hour
	// finalLimit bounds storing what is new in the cluster that a restore replaces, while clients continue.
	finalLimit = time.Minute
)

// errNoSnapshots is what a restore ends with where nothing can be fetched.
var errNoSnapshots = &cke.Error{Code: cke.CodeCannot, What: "this program cannot fetch snapshots", Unchanged: true}

// Restore makes every first member's data from the snapshot, fences what is replaced, and starts the members. It may
// be resumed at any point.
type Restore struct {
	// Incarnation is the one that is restoring.
	Incarnation string
	// Founders are its memberships, sorted by peer URL; once they may have been started, the remaining ones, at least a
	// quorum.
	Founders []cke.Join
	// Fence are memberships and containers that must no longer run before a member is started.
	Fence []cke.Join
	// Gone are members that the order calls destroyed, and that no restore stops: on nodes that do not answer, of an old cluster, or foreign.
	Gone   []cke.Former
	Called map[string]string // by which name the order calls members of the lists that are known destroyed, by their ids
	// Known are the member lists of what it replaces that were read since the one on record, where they differ: one of them may be the newest.
	Known []cke.MemberList
	// Started: the members may have been started; their data is not touched any more.
	Started bool
}

var _ Operation = Restore{}

// Name implements Operation.
func (r Restore) Name() string {
	if r.Started {
		return "finish-restore"
	}
	return "restore"
}

// Targets implements Operation.
func (r Restore) Targets() []string { return joinNames(r.Founders) }

// Stages implements Operation.
func (r Restore) Stages() []Stage {
	stages := fenceStages(r.Fence, r.stopUnjoined, r.isRestoring)
	if r.Started {
		stages = append(stages, r.removeReplaced(nil))
	} else {
		var ran []time.Time
		stages = slices.Concat([]Stage{
			append(r.each("image", imageLimit, r.image), Step{Name: "fetch", Limit: snapshotLimit, Run: r.fetch}, authorities()),
			r.each("prepare", 0, r.prepare),
			r.each("restore-data", snapshotLimit, r.restoreData),
			{{Name: "store-last", Limit: finalLimit + stoppedLimit + 2*DefaultStepLimit, Run: func(ctx context.Context, e Env) (err error) {
				if ran, err = starts(ctx, e, r.Fence); err != nil {
					return err
				}
				return r.storeBeforeFence(ctx, e)
			}}},
		}, stages, []Stage{
			r.removeReplaced(func(ctx context.Context, e Env, i int, j cke.Join, c cke.Container) (bool, error) {
				if !c.StartedAt.Equal(ran[i]) {
					return false, fmt.Errorf("container %s on %s was started while the restore stopped members: %w", c.Name, j.Node.Name(), cke.ErrConflict)
				}
				return r.mayRemake(ctx, e, j, c)
			}),
			{{Name: "record-start", Run: r.recordStart}},
		})
		stages = append(whileWanted(stages), r.removeReplaced(nil))
	}
	if len(r.Fence) > 0 {
		stages = append(stages, Stage{{Name: "record-fenced", Run: r.recordFenced}})
	}
	stages = append(stages, markOver(nodesOf(slices.Concat(r.Fence, r.Founders)), cke.Identity.Over))
	return append(stages,
		r.each("start", 0, r.start),
		r.each("serve", serveLimit, r.serve),
		r.each("verify", snapshotLimit, r.verify),
		r.each("keep-running", 0, r.keepRunning),
		Stage{{Name: "forget-snapshot", Run: r.forget}},
		Stage{{Name: "record-formed", Run: r.recordFormed}},
	)
}

// removeReplaced removes the containers of what is replaced, before the start of a restored member is on record: from then on the restore
// cannot be called off, and what is only stopped could be started, by a call that lands late or by the operator, and serve until
// the restored members do. One that was started since all was stored stays: what it acknowledged is to be stored first, or calls a
// recovery off. may says so of a membership of r.Fence, and what stays until the start is on record; nil: all is removed.
func (r Restore) removeReplaced(may func(context.Context, Env, int, cke.Join, cke.Container) (bool, error)) (stage Stage) {
	for i, j := range r.Fence {
		stage = append(stage, only(r.isRestoring, Step{Name: "remove-replaced", Node: j.Node.Name(), Run: func(ctx context.Context, e Env) error {
			c, err := e.Machines.Machine(j.Node).Container(ctx, j)
			if errors.Is(err, cke.ErrNotFound) {
				return nil
			}
			removes := true
			if err == nil && may != nil {
				removes, err = may(ctx, e, i, j, c)
			}
			if err != nil || !removes {
				return err
			}
			return removeContainer(ctx, e, j)
		}}))
	}
	return stage
}

// mayRemake reports whether a container is made again as it was if the restore is canceled. In a cluster that was declared to be restored
// the record is a copy, and the container may have got other ports or options since.
func (r Restore) mayRemake(ctx context.Context, e Env, j cke.Join, c cke.Container) (bool, error) {
	id, err := r.restoring(ctx, e)
	if err != nil {
		return false, err
	}
	if !id.Incarnation.OnlyCopied() || !c.EverRan() || !j.StartedAt.IsZero() && c.StandsAt(j) && c.MadeWith(j.Etcd) {
		return true, nil
	}
	e.Note(fmt.Sprintf("the record does not have container %s on %s as it is: it is removed once the restore cannot be canceled", c.Name, j.Node.Name()))
	return false, nil
}

// whileWanted lets the steps of a restore run until people pause the cluster or call the restore off. None of its members was started:
// the cluster continues as it was, and what is stopped of it is started again unless it is paused.
func whileWanted(stages []Stage) []Stage {
	for _, stage := range stages {
		for i, s := range stage {
			stage[i] = while(s, func(ctx context.Context, e Env) (string, error) {
				asked, err := e.Ledger.Asked(ctx)
				return asked.EndsRestore(e.Now()), err
			})
		}
	}
	return stages
}

// each makes one step for each first member. It is run while the incarnation is restoring, with the first member's membership as it
// is in the ledger, on its node as it is declared now.
func (r Restore) each(name string, limit time.Duration, run func(context.Context, Env, cke.Incarnation, cke.Join) error) Stage {
	var stage Stage
	for _, f := range r.Founders {
		stage = append(stage, Step{Name: name, Node: f.Node.Name(), Limit: limit, Run: func(ctx context.Context, e Env) error {
			id, err := r.restoring(ctx, e)
			if err != nil {
				return err
			}
			j, ok := id.Join(f.ID)
			if !ok {
				return fmt.Errorf("%s is not part of the restore: %w", f.Node.Name(), cke.ErrConflict)
			}
			j.Node = f.Node
			return run(ctx, e, *id.Incarnation, j)
		}})
	}
	return stage
}

// restoring returns the identity, and refuses unless the incarnation is still restoring.
func (r Restore) restoring(ctx context.Context, e Env) (cke.Identity, error) {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return id, err
	}
	return id, r.isRestoring(id)
}

func (r Restore) isRestoring(id cke.Identity) error {
	if !id.Incarnation.Life(r.Incarnation) || id.Incarnation.State != cke.Restoring {
		return fmt.Errorf("incarnation %s is no longer being restored: %w", r.Incarnation, cke.ErrConflict)
	}
	return nil
}

func (r Restore) image(ctx context.Context, e Env, _ cke.Incarnation, j cke.Join) error {
	return e.Machines.Machine(j.Node).EnsureImage(ctx, j.Etcd.Image, e.Progress)
}

// fetch has the snapshot on this host: another daemon may have started the restore.
func (r Restore) fetch(ctx context.Context, e Env) error {
	id, err := r.restoring(ctx, e)
	if err != nil {
		return err
	}
	if err := r.nothingRuns(ctx, e, *id.Incarnation); err != nil {
		return err
	}
	_, err = r.snapshot(ctx, e, id)
	return err
}

func (r Restore) snapshot(ctx context.Context, e Env, id cke.Identity) (cke.Snapshot, error) {
	if e.Snapshots == nil {
		return cke.Snapshot{}, errNoSnapshots
	}
	rest := id.Incarnation.Restore
	var survivor *cke.Join
	for _, j := range id.Superseded() {
		if j.Node.Name() == rest.Order.Survivor {
			survivor = &j
			if at := indexOf(r.Fence, j.ID); at >= 0 {
				survivor = &r.Fence[at]
			}
		}
	}
	s, err := fetch(ctx, e, rest.ID, rest.Order, survivor)
	if err != nil {
		return s, err
	}
	return s, sameData(ctx, e, *rest, s)
}

// fetch has a snapshot on this host. The container of a survivor may have been removed, by this recovery or by one that was canceled: it is
// made again, and its data is read.
func fetch(ctx context.Context, e Env, id string, o cke.RestoreOrder, survivor *cke.Join) (cke.Snapshot, error) {
	s, err := e.Snapshots.Fetch(ctx, id, o, survivor, e.Progress)
	if survivor == nil || !errors.Is(err, cke.ErrNotFound) {
		return s, err
	}
	if err := remake(ctx, e, cke.MemberSpec{Cluster: e.Cluster, Join: *survivor, Mode: cke.StartPrepared}); err != nil {
		return s, err
	}
	return e.Snapshots.Fetch(ctx, id, o, survivor, e.Progress)
}

// sameData refuses a snapshot of which etcd would make other data than that of the one that the restore started with. The file
// may differ where a backup was compacted meanwhile.
func sameData(ctx context.Context, e Env, rest cke.Restoration, s cke.Snapshot) error {
	data, err := e.Snapshots.Hash(ctx, rest.ID, rest.Bump)
	if err == nil && data != rest.Data {
		err = &cke.Error{Code: cke.CodeBackupDamaged, What: fmt.Sprintf("the snapshot of revision %d is not the one that the restore started with", s.Revision),
			Facts: []string{fmt.Sprintf("its hash is %d, but was %d", data.Hash, rest.Data.Hash)}, Try: "ckecli restore"}
	}
	return err
}

// prepare makes volume and container of one first member; nothing runs yet. It gets its certificates when it is started: without them etcd
// ends at once, so the operator who starts a prepared container makes no second cluster out of data that is older than the one that serves.
func (r Restore) prepare(ctx context.Context, e Env, inc cke.Incarnation, j cke.Join) error {
	if err := unstarted(j); err != nil {
		return err
	}
	if err := rightClock(ctx, e, j.Node); err != nil { // as later, before anything is stopped
		return err
	}
	return makeContainer(ctx, e, founding(e.Cluster, inc, j))
}

// unstarted refuses to touch the data of a first member that may have been started.
func unstarted(j cke.Join) error {
	if j.StartedAt.IsZero() {
		return nil
	}
	return fmt.Errorf("the member on %s may have been started: %w", j.Node.Name(), cke.ErrConflict)
}

// restoreData makes a first member's data, and searches for the log that etcd then starts from.
func (r Restore) restoreData(ctx context.Context, e Env, inc cke.Incarnation, j cke.Join) error {
	if err := unstarted(j); err != nil {
		return err
	}
	s, err := e.Snapshots.Fetch(ctx, inc.Restore.ID, inc.Restore.Order, nil, func(string) {})
	if err == nil && s.Digest != inc.Restore.Snapshot.Digest {
		err = sameData(ctx, e, *inc.Restore, s)
	}
	if err != nil {
		return err
	}
	m := e.Machines.Machine(j.Node)
	spec := cke.RestoreSpec{Member: founding(e.Cluster, inc, j), Snapshot: s, Bump: inc.Restore.Bump}
	if err := m.RestoreData(ctx, spec, opener(e, inc.Restore.ID), e.Progress); err != nil {
		return err
	}
	return needData(ctx, m, j)
}

// recordStart stores that the first members are about to start, all in one transaction: from then on their data is not touched, and
// the restore cannot be called off.
func (r Restore) recordStart(ctx context.Context, e Env) error {
	id, err := r.restoring(ctx, e)
	if err != nil {
		return err
	}
	if id, err = r.recordPrepared(ctx, e, id); err != nil {
		return err
	}
	if err := r.nothingRuns(ctx, e, *id.Incarnation); err != nil {
		return err
	}
	joins := slices.Clone(id.Joins)
	for i := range joins {
		joins[i].StartedAt = e.Now().UTC()
	}
	return e.Ledger.PutJoins(ctx, id, joins...)
}

// nothingRuns is an error while something may serve, or has served, that the restored members must not start beside.
func (r Restore) nothingRuns(ctx context.Context, e Env, inc cke.Incarnation) error {
	if err := r.ranSince(ctx, e, inc); err != nil {
		return err
	}
	return r.destroyedGone(ctx, e, inc)
}

// remake makes the container of a member again, whose volume is still there.
func remake(ctx context.Context, e Env, spec cke.MemberSpec) error {
	m := e.Machines.Machine(spec.Join.Node)
	if err := m.EnsureImage(ctx, spec.Join.Etcd.Image, e.Progress); err != nil {
		return err
	}
	return dataGone(spec.Join, m.EnsureContainer(ctx, spec))
}

// start gives a first member its certificates and starts it on the data that was made for it. A container that was removed since, as by a deletion that was canceled, is
// made again, with arguments that start nothing without data.
func (r Restore) start(ctx context.Context, e Env, inc cke.Incarnation, j cke.Join) error {
	if j.StartedAt.IsZero() {
		return fmt.Errorf("the start of %s is not on record: %w", j.Node.Name(), cke.ErrConflict)
	}
	m := e.Machines.Machine(j.Node)
	c, err := m.Container(ctx, j)
	if errors.Is(err, cke.ErrNotFound) {
		err = remake(ctx, e, cke.MemberSpec{Cluster: e.Cluster, Join: j, Mode: cke.StartOwnData, Token: inc.Token})
	}
	if err != nil {
		return err
	}
	if err := needData(ctx, m, j); err != nil {
		return err
	}
	if c.State == cke.ContainerRestarting { // it may lack its certificates
		if err := stopKept(ctx, e, j); err != nil {
			return err
		}
	}
	if !c.Running() {
		if err := certify(ctx, e, j); err != nil {
			return err
		}
		if err := r.destroyedGone(ctx, e, inc); err != nil { // right before it starts
			return err
		}
	}
	return m.StartContainer(ctx, j)
}

func (r Restore) serve(ctx context.Context, e Env, _ cke.Incarnation, j cke.Join) error {
	return awaitServing(ctx, e, j)
}

// verify sees that the member is one of the cluster that was computed, and holds what was restored.
func (r Restore) verify(ctx context.Context, e Env, inc cke.Incarnation, j cke.Join) error {
	if _, err := listOf(ctx, e, inc, j); err != nil {
		return err
	}
	want := inc.Restore.Data
	got, err := e.Etcd.HashKV(ctx, j.ClientURL(), want.Revision)
	if errors.Is(err, cke.ErrCompacted) {
		return nil // a client of the restored cluster was faster: what it compacts can no longer be compared
	}
	if err != nil {
		return err
	}
	if got.Compacted == want.Compacted && got.Hash != want.Hash {
		return &cke.Error{Code: cke.CodeUnequalData, What: fmt.Sprintf("the member on %s does not hold the restored data", j.Node.Name()),
			Facts: []string{fmt.Sprintf("its hash at revision %d is %d instead of %d", want.Revision, got.Hash, want.Hash)}, Try: "ckecli restore"}
	}
	return nil
}

// listOf returns the ids of the first members by peer URL, as the member lists them. It must list the first members and nobody else.
func listOf(ctx context.Context, e Env, inc cke.Incarnation, j cke.Join) (map[string]string, error) {
	id, members, err := e.Etcd.Members(ctx, j.ClientURL())
	if err != nil {
		return nil, fmt.Errorf("member list through %s: %w", j.ClientURL(), err)
	}
	if id != inc.ClusterID {
		return nil, &cke.Error{Code: cke.CodeSplitBrain, What: fmt.Sprintf("%s answers with cluster id %s, the restored cluster has %s", j.Node.Name(), id, inc.ClusterID)}
	}
	if len(members) != len(inc.Founders) {
		return nil, fmt.Errorf("%s lists %s, but the restore has %d", j.Node.Name(), cke.Count(len(members), "member"), len(inc.Founders))
	}
	ids := map[string]string{}
	for _, f := range inc.Founders {
		k := slices.IndexFunc(members, func(m cke.Member) bool { return slices.Contains(m.PeerURLs, f.PeerURL()) })
		if k < 0 {
			return nil, fmt.Errorf("%s is not in the member list of %s", f.Node.Name(), j.Node.Name())
		}
		ids[f.PeerURL()] = members[k].ID
	}
	return ids, nil
}

func (r Restore) keepRunning(ctx context.Context, e Env, _ cke.Incarnation, j cke.Join) error {
	return keepRunning(ctx, e, j)
}

// forget removes what was fetched. Where that fails the restore ends all the same: what is left is removed with that of other restores
// that are over.
func (r Restore) forget(ctx context.Context, e Env) error {
	id, err := r.restoring(ctx, e)
	if err != nil || e.Snapshots == nil {
		return err
	}
	if err := e.Snapshots.Forget(ctx, id.Incarnation.Restore.ID); err != nil {
		e.Log.Warn("cannot remove what was fetched for the restore yet", "error", err)
		e.Note("not removed yet: " + err.Error())
	}
	return ctx.Err()
}

// recordFormed stores the members' ids, as each that is left lists them, then that the cluster is open.
func (r Restore) recordFormed(ctx context.Context, e Env) error {
	id, err := r.restoring(ctx, e)
	if err != nil {
		return err
	}
	if len(r.Founders) < quorum.Of(len(id.Incarnation.Founders)) {
		return fmt.Errorf("%d of %d restored members are not a quorum: %w", len(r.Founders), len(id.Incarnation.Founders), cke.ErrConflict)
	}
	joins := slices.Clone(id.Joins)
	for _, f := range r.Founders {
		ids, err := listOf(ctx, e, *id.Incarnation, f)
		if err != nil {
			return err
		}
		for i, j := range joins {
			joins[i].MemberID = ids[j.PeerURL()]
		}
	}
	if err := e.Ledger.PutJoins(ctx, id, joins...); err != nil {
		return err
	}
	inc := *id.Incarnation
	inc.State, inc.FormedAt = cke.Formed, e.Now().UTC()
	return e.Ledger.UpdateIncarnation(ctx, inc)
}
