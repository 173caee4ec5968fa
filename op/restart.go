package op

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"cke"
)

// RestartMember makes one member run with other options: image first, a trial of the options, then leadership away,
// stop, start again on its own data, wait until it serves. A member that moves to a minor that cannot read what 3.5
// wrote into the log is first started once more as it ran before, so that it writes a snapshot.
type RestartMember struct {
	Join cke.Join
	// Etcd is how the member runs from now on.
	Etcd cke.EtcdOptions
	// Runs is the version that it runs now, Image that of its container, if they differ from those on record; else
	// empty.
	Runs, Image string
	// Backup: a fresh backup is required before the member stops.
	Backup bool
	// Bundle names the authorities that the member must trust, see cke.Join; empty: those in its files.
	Bundle string
	// Gap: service is interrupted meanwhile, since there are one or two voters.
	Gap bool
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
	stop := Stage{{Name: "stop", Node: n, Limit: stopLimit, Run: r.stop, Away: true}}
	serve := Stage{{Name: "serve", Node: n, Limit: serveLimit, Run: func(ctx context.Context, e Env) error { return awaitServing(ctx, e, r.Join) }}}
	stages := []Stage{{{Name: "image", Node: n, Limit: imageLimit, Run: func(ctx context.Context, e Env) error {
		return e.Machines.Machine(r.Join.Node).EnsureImage(ctx, r.Etcd.Image, e.Progress)
	}}}}
	if r.Runs != "" || !r.Etcd.Equal(r.Join.Etcd) { // options on record with which it runs are known to work
		stages = append(stages, Stage{{Name: "try", Node: n, Run: r.try}})
	}
	if r.Bundle != "" { // while it runs: it reads them when it starts, and goes on where they cannot be written
		stages = append(stages, Stage{{Name: "authorities", Node: n, Run: r.authorities}})
	}
	if r.Backup {
		stages = append(stages, LastBackup())
	}
	if NeedsSnapshot(cmp.Or(r.Runs, r.Join.Etcd.Version), r.Etcd.Version) {
		stages = append(stages, move, Stage{{Name: "stop", Node: n, Limit: stopLimit, Run: r.stopUnlessWritten, Away: true}},
			Stage{{Name: "snapshot", Node: n, Run: r.snapshot, Away: true}}, Stage{{Name: "serve", Node: n, Limit: serveLimit, Run: r.written}})
	}
	return append(stages, move, stop, Stage{{Name: "start", Node: n, Run: r.start, Away: true}}, serve)
}

// NeedsSnapshot reports whether a member that ran one version must write a snapshot before it may run another.
func NeedsSnapshot(before, after string) bool {
	return versionOf(before).ReadsLegacyLog() && !versionOf(after).ReadsLegacyLog()
}

// versionOf is the zero value where that is no version.
func versionOf(s string) cke.Version {
	v, _ := cke.ParseVersion(s)
	return v
}

// try finds out what cannot work before the member is stopped for it.
func (r RestartMember) try(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	j := r.Join
	j.Etcd = r.Etcd
	return e.Machines.Machine(j.Node).TryOptions(ctx, cke.MemberSpec{Cluster: e.Cluster, Join: j, Mode: cke.StartOwnData, Token: id.Incarnation.Token})
}

// stop asks for the arithmetic once more. One or two voters cannot be restarted without a gap: that was known, or a voter
// has left since.
func (r RestartMember) stop(ctx context.Context, e Env) error {
	list, id, err := readList(ctx, e)
	if err != nil {
		return err
	}
	m, there := list.of(r.Join)
	if !there {
		return fmt.Errorf("%s is not in the member list: %w", r.Join.Node.Name(), cke.ErrConflict)
	}
	if err := list.pauseGate(ctx, e, id, m, r.Gap); err != nil {
		return err
	}
	return stopKept(ctx, e, r.Join)
}

// stopUnlessWritten is stop, unless the member serves as snapshot starts it: an attempt before this one waited too short for it. Else
// a member that is slow to start would be stopped again and again.
func (r RestartMember) stopUnlessWritten(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	j, lasts := id.Join(r.Join.ID)
	if !lasts || !WritesSnapshots(j.Etcd) {
		return r.stop(ctx, e)
	}
	c, err := e.Machines.Machine(r.Join.Node).Container(ctx, r.Join)
	s := e.Etcd.Endpoint(ctx, r.Join.ClientURL())
	if err != nil || !c.Running() || !c.MadeWith(j.Etcd) || !readsLinearizably(s) || id.OfAnother(s) {
		return r.stop(ctx, e)
	}
	e.Note("the member has written its snapshot already")
	return nil
}

// stopKept stops a member that is to be started again on its own data.
func stopKept(ctx context.Context, e Env, j cke.Join) error {
	if err := needRunningData(ctx, e, j); err != nil {
		return err
	}
	return e.Machines.Machine(j.Node).StopContainer(ctx, j, stopGrace)
}

// needRunningData refuses to stop a member whose log was removed while it runs: nothing could start it again. A learner may
// stop where a quorum holds what it does, or where it has received nothing.
func needRunningData(ctx context.Context, e Env, j cke.Join) error {
	m := e.Machines.Machine(j.Node)
	switch c, err := m.Container(ctx, j); {
	case errors.Is(err, cke.ErrNotFound), err == nil && !c.Running():
		return nil // there is nothing to lose by stopping it
	case err != nil:
		return err
	}
	if data, err := m.Data(ctx, j); err != nil || data != cke.DataMissing || isSpare(ctx, e, j) {
		return err
	}
	return &cke.Error{Code: cke.CodeDataMissing, What: fmt.Sprintf("the member on %s runs on removed files and is not stopped", j.Node.Name()),
		Facts: []string{"data that only it holds would be lost; first copy its database from the open files of its etcd process (/proc/PID/fd)"}, Unchanged: true, Err: cke.ErrDataMissing}
}

// isSpare reports whether a member that runs is a learner that is not needed.
func isSpare(ctx context.Context, e Env, j cke.Join) bool {
	if list, _, err := readList(ctx, e); err == nil {
		m, there := list.of(j)
		return there && m.Learner
	}
	s := e.Etcd.Endpoint(ctx, j.ClientURL())
	return s.Problem == "" && s.Learner && s.Revision <= cke.FirstRevision
}

// snapshotAlways makes etcd write a snapshot after every entry. Of an argument that is given twice etcd takes the last.
const snapshotAlways = "--snapshot-count=1"

// WritesSnapshots reports whether a member that runs so writes a snapshot after every entry.
func WritesSnapshots(o cke.EtcdOptions) bool {
	n := len(o.ExtraArgs)
	return n > 0 && o.ExtraArgs[n-1] == snapshotAlways
}

// Lasting returns the options without what is set only for a while, before a minor that cannot read old logs.
func Lasting(o cke.EtcdOptions) cke.EtcdOptions {
	if WritesSnapshots(o) {
		o.ExtraArgs = o.ExtraArgs[:len(o.ExtraArgs)-1]
	}
	o.ExtraArgs = slices.Clip(o.ExtraArgs)
	return o
}

// snapshot starts the member as it ran, but so that it writes a snapshot at once: it has all older entries in its
// database, and has read them for the last time. That is on record before, or one that is not restarted after all, since
// the file has changed, would write one after every entry for good.
func (r RestartMember) snapshot(ctx context.Context, e Env) error {
	err := putJoin(ctx, e, r.Join.ID, func(j *cke.Join) {
		if r.Runs != "" {
			j.Etcd.Version, j.Etcd.Image = r.Runs, r.Image
		}
		j.Etcd.ExtraArgs = append(Lasting(j.Etcd).ExtraArgs, snapshotAlways)
	})
	if err != nil {
		return err
	}
	if err := startOnOwnData(ctx, e, r.Join); err != nil {
		return err
	}
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	c, err := e.Machines.Machine(r.Join.Node).Container(ctx, r.Join)
	if err != nil {
		return err
	}
	if j, _ := id.Join(r.Join.ID); !c.MadeWith(j.Etcd) { // an operator, or its engine, was faster
		return fmt.Errorf("the member on %s was started as it was, and has written no snapshot: %w", r.Join.Node.Name(), cke.ErrConflict)
	}
	return nil
}

// appliedOften is how often a member was seen to have applied more, so that it has written snapshots of all that it had applied when it
// started: it applies nothing further before it has begun one of what it applied last, and ends those when it stops.
const appliedOften = 3

// written waits until the member serves, or has written its snapshot. While clients write more than it can write snapshots of, it serves
// no client, however long it has.
func (r RestartMember) written(ctx context.Context, e Env) error {
	applied, more := uint64(0), -1
	return awaitLoaded(ctx, e, r.Join, func(s cke.EndpointStatus) bool {
		if s.Problem == "" && s.RaftApplied > applied {
			applied = s.RaftApplied
			more++
		}
		return readsLinearizably(s) || more >= appliedOften
	})
}

// authorities writes whom the member is to trust from its next start on.
func (r RestartMember) authorities(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	if is := id.Authorities.Bundle(); is != r.Bundle {
		return fmt.Errorf("members must now trust %s, not %s: %w", is, r.Bundle, cke.ErrConflict)
	}
	m := e.Machines.Machine(r.Join.Node)
	files, err := e.Authority.Bundles(ctx, id.Authorities)
	if err != nil {
		return err
	}
	have, before, err := m.Certificates(ctx, r.Join)
	if err != nil {
		return err
	}
	if err := keepsTrust(ctx, e, id, r.Join, before, files); err != nil {
		return err
	}
	for _, f := range have {
		files = slices.DeleteFunc(files, func(o cke.File) bool { return o.Path == f.Path && bytes.Equal(o.Data, f.Data) })
	}
	if len(files) > 0 {
		if err := m.PutFiles(ctx, r.Join, files); err != nil {
			return err
		}
	}
	return r.trusts(ctx, e)
}

// trusts looks whether the member has the files that it is to be started with.
func (r RestartMember) trusts(ctx context.Context, e Env) error {
	_, worth, err := e.Machines.Machine(r.Join.Node).Certificates(ctx, r.Join)
	if err == nil && worth.Bundle() != r.Bundle {
		err = &cke.Error{Code: cke.CodeCertificates, What: fmt.Sprintf("the member on %s does not have the authorities that it must trust", r.Join.Node.Name()), Facts: facts(worth.Damage)}
	}
	return err
}

func facts(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// start records options and authorities only now: a member that is found stopped is started as it ran before, and whom it
// trusts is on record once it has stopped and its files say so.
func (r RestartMember) start(ctx context.Context, e Env) error {
	if r.Bundle != "" {
		if err := r.trusts(ctx, e); err != nil {
			return err
		}
	}
	err := putJoin(ctx, e, r.Join.ID, func(j *cke.Join) {
		if before, after := versionOf(j.Etcd.Version).Minor, versionOf(r.Etcd.Version).Minor; before != after {
			j.Newest = max(j.Newest, before, after)
		}
		if j.Etcd = r.Etcd; r.Bundle != "" {
			j.Bundle = r.Bundle
		}
	})
	if err != nil {
		return err
	}
	return startOnOwnData(ctx, e, r.Join)
}
