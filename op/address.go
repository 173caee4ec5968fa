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

// ChangeAddress moves a member to another address of its machine, or to other ports of the cluster. The member keeps
// its id and its data. etcd gets the new peer URL first, then the member runs there, with certificates for the new
// address. Source: etcd docs, runtime reconfiguration, "update advertise peer URLs".
type ChangeAddress struct {
	// Join is the membership as recorded.
	Join cke.Join
	// Node is its machine as declared now.
	Node                 cke.Node
	ClientPort, PeerPort int
	// PeerTLS: its peers reach it with TLS from now on.
	PeerTLS bool
	// Runs and Image are as in RestartMember.
	Runs, Image string
	// Gap: service is interrupted meanwhile, since there are one or two voters.
	Gap bool
}

var _ Disruptive = ChangeAddress{}

// Name implements Operation.
func (ChangeAddress) Name() string { return "change-address" }

// Targets implements Operation.
func (c ChangeAddress) Targets() []string { return []string{c.Node.Name()} }

// Disrupts implements Disruptive.
func (c ChangeAddress) Disrupts() []cke.JoinID { return []cke.JoinID{c.Join.ID} }

// Stages implements Operation. The record changes only while the member is stopped: a daemon that finds it stopped
// starts it as recorded, before or after the change.
func (c ChangeAddress) Stages() []Stage {
	n := c.Node.Name()
	stages := []Stage{
		{{Name: "image", Node: n, Limit: imageLimit, Run: func(ctx context.Context, e Env) error {
			return e.Machines.Machine(c.Node).EnsureImage(ctx, cmp.Or(c.Image, c.Join.Etcd.Image), e.Progress)
		}}},
		{{Name: "same-machine", Node: n, Run: c.prove}},
	}
	if c.Runs != "" {
		stages = append(stages, Stage{{Name: "record-version", Node: n, Run: c.recordVersion}})
	}
	return append(stages, []Stage{
		{{Name: "try-files", Node: n, Run: c.tryFiles}},
		{{Name: "move-leader", Node: n, Run: func(ctx context.Context, e Env) error { return moveLeaderFrom(ctx, e, c.Join) }}},
		{{Name: "update-member", Node: n, Limit: changeLimit, Run: func(ctx context.Context, e Env) error {
			return whenReady(ctx, e, func() error { return c.update(ctx, e) })
		}}},
		{{Name: "stop", Node: n, Limit: stopLimit, Run: c.stop, Away: true}},
		{{Name: "certificates", Node: n, Run: c.certify, Away: true}},
		{{Name: "record-address", Node: n, Away: true, Run: func(ctx context.Context, e Env) error {
			return putJoin(ctx, e, c.Join.ID, func(j *cke.Join) { *j = c.moved(*j) })
		}}},
		{{Name: "start", Node: n, Limit: stopLimit + DefaultStepLimit, Run: c.start, Away: true}},
		{{Name: "serve", Node: n, Limit: serveLimit, Run: func(ctx context.Context, e Env) error { return awaitServing(ctx, e, c.moved(c.Join)) }}},
	}...)
}

// moved is a join at the new address.
func (c ChangeAddress) moved(j cke.Join) cke.Join {
	j.Node, j.ClientPort, j.PeerPort = c.Node, c.ClientPort, c.PeerPort
	j.Etcd.ClientPort, j.Etcd.PeerPort = c.ClientPort, c.PeerPort
	j.PlainPeers = j.PlainPeers && !c.PeerTLS
	return j
}

// recordVersion notes the version that the member runs where the store has another one, as where it is from before an upgrade: etcd does
// not go back to a minor version that the cluster has left.
func (c ChangeAddress) recordVersion(ctx context.Context, e Env) error {
	return putJoin(ctx, e, c.Join.ID, func(j *cke.Join) {
		j.Newest = max(j.Newest, versionOf(j.Etcd.Version).Minor, versionOf(c.Runs).Minor)
		j.Etcd.Version, j.Etcd.Image = c.Runs, c.Image
	})
}

// prove refuses unless the volume of this very membership is on the machine, with its data: a machine of the same name
// may be another one.
func (c ChangeAddress) prove(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	j, lasts := id.Join(c.Join.ID)
	if !lasts || id.Incarnation == nil || id.Incarnation.State != cke.Formed {
		return fmt.Errorf("%s is not a membership of a formed cluster: %w", c.Join.ID, cke.ErrConflict)
	}
	if err := rightClock(ctx, e, c.Node); err != nil { // certify would refuse, with the member stopped
		return err
	}
	m := e.Machines.Machine(c.Node)
	found, err := m.Container(ctx, j)
	if err == nil || errors.Is(err, cke.ErrNotFound) {
		if err := c.noDouble(ctx, e, j, found); err != nil {
			return err
		}
	}
	if errors.Is(err, cke.ErrNotFound) {
		spec := cke.MemberSpec{Cluster: e.Cluster, Join: j, Mode: cke.StartOwnData, Token: id.Incarnation.Token}
		if err = m.EnsureContainer(ctx, spec); cke.CodeOf(err) == cke.CodePortTaken { // what it moves away from
			spec.Join = c.moved(j)
			err = m.EnsureContainer(ctx, spec)
		}
	}
	if err != nil {
		return dataGone(j, err)
	}
	return needData(ctx, m, j)
}

// tryFiles writes a certificate that the member has once more: a volume that takes no files would keep it stopped without its new certificates.
func (c ChangeAddress) tryFiles(ctx context.Context, e Env) error {
	m, j := e.Machines.Machine(c.Node), c.Join
	j.Node = c.Node
	files, before, err := m.Certificates(ctx, j)
	if err != nil {
		return err
	}
	id, err := e.Ledger.Identity(ctx)
	if err == nil {
		err = keepsTrust(ctx, e, id, j, before, []cke.File{{Path: cke.PeerCAFile}, {Path: cke.PeerCertFile}}) // what certify writes
	}
	files = slices.DeleteFunc(files, func(f cke.File) bool { return f.Path != cke.PeerCertFile })
	if err != nil || len(files) == 0 {
		return err
	}
	return m.PutFiles(ctx, j, files)
}

// noDouble refuses while the member answers where it was although it does not run in the container on the machine: that has
// a copy of its disk, and both together would vote twice.
func (c ChangeAddress) noDouble(ctx context.Context, e Env, j cke.Join, found cke.Container) error {
	if j.ClientURL() == c.moved(j).ClientURL() || found.Running() && j.Node.Address == c.Node.Address {
		return nil
	}
	if s := e.Etcd.Endpoint(ctx, j.ClientURL()); s.Problem != "" || s.MemberID != j.MemberID || c.staysUp(ctx, e, j, found) {
		return nil
	}
	return &cke.Error{Code: cke.CodeConflict, What: fmt.Sprintf("volume %s is on %s, but its member runs elsewhere", j.Volume, c.Node.Name()),
		Facts: []string{"it answers at " + j.ClientURL(), "a copy of a member's disk is not a member: remove the volume there, or stop the member where it runs"}, Unchanged: true, Err: cke.ErrConflict}
}

// boundAfter is how long an etcd runs at least that has the address that it listens on: any other one exits at once, and
// its engine starts it again and again.
const boundAfter = 5 * time.Second

// staysUp reports whether a container continues to run: its machine has the address that it was made for.
func (c ChangeAddress) staysUp(ctx context.Context, e Env, j cke.Join, found cke.Container) bool {
	if found.State != cke.ContainerRunning || e.Pause(ctx, boundAfter) != nil {
		return false
	}
	now, err := e.Machines.Machine(c.Node).Container(ctx, j)
	return err == nil && now.State == cke.ContainerRunning && now.ID == found.ID && now.StartedAt.Equal(found.StartedAt)
}

func (c ChangeAddress) update(ctx context.Context, e Env) error {
	list, id, err := readList(ctx, e)
	if err != nil {
		return err
	}
	m, there := list.of(c.Join)
	if !there {
		return fmt.Errorf("%s is not in the member list: %w", c.Node.Name(), cke.ErrConflict)
	}
	if err := list.pauseGate(ctx, e, id, m, c.Gap); err != nil {
		return err
	}
	wanted := c.moved(c.Join).PeerURL()
	if slices.Equal(m.PeerURLs, []string{wanted}) {
		return nil
	}
	return e.Etcd.UpdateMember(ctx, list.via, m.ID, wanted)
}

// stop asks for the arithmetic once more. A member that has stopped meanwhile, or the only one, may give no list.
func (c ChangeAddress) stop(ctx context.Context, e Env) error {
	m := e.Machines.Machine(c.Node)
	found, err := m.Container(ctx, c.Join)
	if err != nil {
		return err
	}
	if found.Running() {
		list, id, err := readList(ctx, e)
		if err != nil {
			return err
		}
		member, there := list.of(c.Join)
		if !there {
			return fmt.Errorf("%s is not in the member list: %w", c.Node.Name(), cke.ErrConflict)
		}
		if err := list.pauseGate(ctx, e, id, member, c.Gap); err != nil {
			return err
		}
	}
	j := c.Join
	j.Node = c.Node
	return stopKept(ctx, e, j)
}

func (c ChangeAddress) certify(ctx context.Context, e Env) error {
	return certify(ctx, e, c.moved(c.Join))
}

// start makes the container again. One that another client has started meanwhile still has the old address.
func (c ChangeAddress) start(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	j, lasts := id.Join(c.Join.ID)
	if !lasts || id.Incarnation == nil {
		return fmt.Errorf("membership %s has ended: %w", c.Join.ID, cke.ErrConflict)
	}
	j = c.moved(j)
	m := e.Machines.Machine(c.Node)
	err = m.EnsureContainer(ctx, cke.MemberSpec{Cluster: e.Cluster, Join: j, Mode: cke.StartOwnData, Token: id.Incarnation.Token})
	if errors.Is(err, cke.ErrConflict) {
		err = stopKept(ctx, e, j)
	}
	if err != nil {
		return dataGone(j, err)
	}
	return startOnOwnData(ctx, e, j)
}
