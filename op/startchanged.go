package op

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cke"
)

// StartChanged starts a member that does not run, or does not answer, with other options than at its last start, with
// which it failed to start or exited.
type StartChanged struct {
	Join cke.Join
	// Etcd is how the member runs from now on.
	Etcd cke.EtcdOptions
	// AwaitServing is as in StartMembers.
	AwaitServing bool
	// Silent: it runs, and has not answered since it was started.
	Silent bool
	// Restore is the restore under way that the member is of; its zero value: none is.
	Restore Restore
}

var _ Operation = StartChanged{}

// Name implements Operation.
func (StartChanged) Name() string { return "start-changed" }

// Targets implements Operation.
func (s StartChanged) Targets() []string { return []string{s.Join.Node.Name()} }

// Stages implements Operation.
func (s StartChanged) Stages() []Stage {
	n := s.Join.Node.Name()
	stages := []Stage{
		{{Name: "image", Node: n, Limit: imageLimit, Run: func(ctx context.Context, e Env) error {
			return e.Machines.Machine(s.Join.Node).EnsureImage(ctx, s.Etcd.Image, e.Progress)
		}}},
		{{Name: "end-restarts", Node: n, Limit: lostFor + stopLimit, Run: s.endRestarts, Away: true}},
		{{Name: "start", Node: n, Run: s.start, Away: true}},
	}
	if s.AwaitServing {
		stages = append(stages, Stage{{Name: "serve", Node: n, Limit: serveLimit, Run: func(ctx context.Context, e Env) error { return awaitServing(ctx, e, s.Join) }}})
	}
	return stages
}

// start starts the member, a restored one not beside a member that the order calls destroyed.
func (s StartChanged) start(ctx context.Context, e Env) error {
	if r := s.Restore; r.Incarnation != "" {
		id, err := r.restoring(ctx, e)
		if err == nil {
			err = r.destroyedGone(ctx, e, *id.Incarnation)
		}
		if err != nil {
			return err
		}
	}
	return RestartMember{Join: s.Join, Etcd: s.Etcd}.start(ctx, e)
}

// endRestarts stops a container that its engine starts again and again, or that runs where nobody reaches its member while
// there is no quorum. One that has come up meanwhile is left alone.
func (s StartChanged) endRestarts(ctx context.Context, e Env) error {
	m := e.Machines.Machine(s.Join.Node)
	c, err := m.Container(ctx, s.Join)
	switch {
	case errors.Is(err, cke.ErrNotFound): // the engine refused to make the one that was asked for last
		return nil
	case err != nil:
		return err
	case c.State == cke.ContainerRestarting:
		return stopKept(ctx, e, s.Join)
	case c.State == cke.ContainerRunning && !c.StandsAt(s.Join):
		if err := s.isLost(ctx, e, c); err != nil {
			return err
		}
		return stopKept(ctx, e, s.Join)
	case c.State == cke.ContainerRunning && s.Silent:
		return s.stopSilent(ctx, e)
	case c.State == cke.ContainerExited, c.State == cke.ContainerCreated, c.State == cke.ContainerDead:
		return nil
	}
	return fmt.Errorf("the container on %s is %s: %w", s.Join.Node.Name(), c.State, cke.ErrConflict)
}

// stopSilent stops a member that answers nobody, if the others are a quorum, or it is the only one.
func (s StartChanged) stopSilent(ctx context.Context, e Env) error {
	if e.Etcd.Endpoint(ctx, s.Join.ClientURL()).Problem == "" {
		return fmt.Errorf("the member on %s answers: %w", s.Join.Node.Name(), cke.ErrConflict)
	}
	list, id, err := readList(ctx, e)
	if err != nil {
		if id, idErr := e.Ledger.Identity(ctx); idErr != nil || len(id.Joins) != 1 || id.Incarnation.Importing() != nil {
			return err
		}
		return stopKept(ctx, e, s.Join)
	}
	m, there := list.of(s.Join)
	if !there {
		return fmt.Errorf("%s is not in the member list: %w", s.Join.Node.Name(), cke.ErrConflict)
	}
	if err := list.pauseGate(ctx, e, id, m, false); err != nil {
		return err
	}
	return stopKept(ctx, e, s.Join)
}

// An election takes a second or two; for as long as a few of them no quorum was seen before a member that runs is stopped for that.
const (
	lostFor   = 5 * time.Second
	lostEvery = lostFor / 10
)

// isLost returns nil if for as long as elections take no member list can be read through a quorum, and the member answers neither where it
// is on record nor, through a quorum with other voters, where its container was made for.
func (s StartChanged) isLost(ctx context.Context, e Env, c cke.Container) error {
	n := s.Join.Node
	ask := cke.ToAskElsewhere(c.Cluster, []cke.NodeStatus{{Node: n, Containers: []cke.Container{c}}}, []cke.Join{s.Join})
	for began, looks := e.Now(), 0; looks < 2 || e.Now().Sub(began) < lostFor; looks++ { // a member without a leader keeps a question waiting for seconds
		for _, a := range ask {
			if _, members, err := e.Etcd.Members(ctx, a.URL); err == nil && cke.CountVoters(members) > 1 {
				return &cke.Error{Code: cke.CodeOlderStore, What: fmt.Sprintf("the member on %s serves at %s, but is not on record there", n.Name(), a.URL), Unchanged: true, Err: cke.ErrConflict}
			}
		}
		if _, _, err := readList(ctx, e); err == nil || e.Etcd.Endpoint(ctx, s.Join.ClientURL()).Problem == "" {
			return fmt.Errorf("the container on %s runs and the cluster serves: %w", n.Name(), cke.ErrConflict)
		}
		if err := e.Pause(ctx, lostEvery); err != nil {
			return err
		}
	}
	return nil
}
