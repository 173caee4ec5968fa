package op

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cke"
	"cke/quorum"
)

// stopGrace is how long etcd may take to move its leadership away and end. Source: etcd, request timeout.
const stopGrace = 30 * time.Second

// stopLimit bounds a step that stops a container.
const stopLimit = stopGrace + 15*time.Second

// AbandonBootstrap abandons a bootstrap that cannot be completed. No client has been served: the incarnation is
// forming.
//
// That it is given up is recorded before any member is stopped: a member that is found stopped without that record
// belongs to a cluster that served. The end is recorded before anything is removed, and only once so many members are
// known to be stopped that the others cannot form a quorum.
type AbandonBootstrap struct {
	// Reachable are the first memberships whose nodes answer; they are stopped and removed.
	Reachable []cke.Join
	// Founders is the number of all first members.
	Founders int
}

var _ Operation = AbandonBootstrap{}

// Name implements Operation.
func (AbandonBootstrap) Name() string { return "abandon-bootstrap" }

// Targets implements Operation.
func (a AbandonBootstrap) Targets() []string { return joinNames(a.Reachable) }

// Stages implements Operation.
func (a AbandonBootstrap) Stages() []Stage {
	var stop, remove Stage
	for _, j := range a.Reachable {
		stop = append(stop, only(isForming, unusedOnly(j, stopStep(j))))
		remove = append(remove, removeStep(j))
	}
	return nonEmpty(Stage{{Name: "record-given-up", Run: a.recordGivenUp}}, stop, Stage{{Name: "record-abandoned", Run: a.recordAbandoned}}, remove)
}

// recordGivenUp stores that the bootstrap does not continue, unless a first member may hold what clients wrote, by fresh looks.
func (a AbandonBootstrap) recordGivenUp(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	if err := isForming(id); err != nil || !id.Incarnation.AbandonedAt.IsZero() {
		return err
	}
	var answers []cke.EndpointStatus
	for _, j := range a.Reachable {
		answers = append(answers, e.Etcd.Endpoint(ctx, j.ClientURL()))
	}
	unwritten := cke.NothingWritten(len(id.Joins), answers)
	for _, j := range a.Reachable {
		if err := unused(ctx, e, id, j, unwritten); err != nil {
			return err
		}
	}
	inc := *id.Incarnation
	inc.AbandonedAt = e.Now().UTC()
	return e.Ledger.UpdateIncarnation(ctx, inc)
}

func (a AbandonBootstrap) recordAbandoned(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	if err := isForming(id); err != nil {
		return err
	}
	if silent := len(id.Joins) - len(a.Reachable); silent >= quorum.Of(len(id.Joins)) { // whatever is on record of their starts
		return fmt.Errorf("%d of %d members of the bootstrap do not answer and could form a quorum", silent, len(id.Joins))
	}
	inc := *id.Incarnation
	inc.State = cke.Abandoned
	return e.Ledger.UpdateIncarnation(ctx, inc)
}

// CleanUp removes what an abandoned bootstrap left on a node: it never held a client's data.
type CleanUp struct{ Left []cke.Join }

var _ Operation = CleanUp{}

// Name implements Operation.
func (CleanUp) Name() string { return "clean-up" }

// Targets implements Operation.
func (c CleanUp) Targets() []string { return joinNames(c.Left) }

// Stages implements Operation. Each node has one step, so that a failure on one does not stop the others.
func (c CleanUp) Stages() []Stage {
	var clean Stage
	for _, j := range c.Left {
		stop, remove := stopStep(j), removeStep(j)
		clean = append(clean, only(wasAbandoned(j), unusedOnly(j, Step{Name: "clean", Node: j.Node.Name(), Limit: stopLimit + imageLimit,
			Run: func(ctx context.Context, e Env) error {
				if err := stop.Run(ctx, e); err != nil {
					return err
				}
				return remove.Run(ctx, e)
			}})))
	}
	return []Stage{clean}
}

// only lets a step run while the cluster's identity is as it must be, which is read again.
func only(allowed func(cke.Identity) error, s Step) Step {
	run := s.Run
	s.Run = func(ctx context.Context, e Env) error {
		id, err := e.Ledger.Identity(ctx)
		if err != nil {
			return err
		}
		if err := allowed(id); err != nil {
			return err
		}
		return run(ctx, e)
	}
	return s
}

// unusedOnly lets a step take a first member away only while it cannot hold what clients wrote, with fresh looks. What it stops is
// stopped for good, so nothing is asked again before the volume goes.
func unusedOnly(j cke.Join, s Step) Step {
	run := s.Run
	s.Run = func(ctx context.Context, e Env) error {
		id, err := e.Ledger.Identity(ctx)
		if err != nil {
			return err
		}
		if err := unused(ctx, e, id, j, id.Incarnation.GaveUp(j.Incarnation)); err != nil {
			return err
		}
		return run(ctx, e)
	}
	return s
}

// unused refuses a first member that may hold what clients wrote. stops: it may have been stopped without having served.
func unused(ctx context.Context, e Env, id cke.Identity, j cke.Join, stops bool) error {
	m := e.Machines.Machine(j.Node)
	c, err := m.Container(ctx, j)
	if errors.Is(err, cke.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var answer cke.EndpointStatus
	founders := 0
	if is, known := id.Join(j.ID); known {
		j, answer, founders = is, e.Etcd.Endpoint(ctx, is.ClientURL()), len(id.Joins)
	} else {
		j.StartedAt = c.StartedAt
		if answer, err = leftAnswer(ctx, e, id, j, c); err != nil {
			return err
		}
	}
	why := j.MayHoldWrites(c, answer, founders, stops)
	if why == "" {
		return nil
	}
	if data, err := m.Data(ctx, j); err == nil && data == cke.DataMissing {
		return nil
	}
	return &cke.Error{Code: cke.CodeOlderStore, What: fmt.Sprintf("what the bootstrap left on %s may hold writes of clients", j.Node.Name()), Facts: []string{why}, Unchanged: true, Err: cke.ErrConflict}
}

// leftAnswer asks a first member of a life before the present one where its container was made for. Who answers is it only if its container
// runs all the while.
func leftAnswer(ctx context.Context, e Env, id cke.Identity, j cke.Join, c cke.Container) (cke.EndpointStatus, error) {
	none := cke.EndpointStatus{Problem: "not on record"}
	url := id.AskForLeft(c, j.Node.Address)
	if url == "" {
		return none, nil
	}
	answer := e.Etcd.Endpoint(ctx, url)
	after, err := e.Machines.Machine(j.Node).Container(ctx, j)
	switch {
	case errors.Is(err, cke.ErrNotFound):
		return none, nil
	case err != nil:
		return none, err
	case !id.LeftAnswers(answer), after.ID != c.ID, after.State != c.State, !after.StartedAt.Equal(c.StartedAt):
		return none, nil
	}
	return answer, nil
}

func isForming(id cke.Identity) error {
	if id.Incarnation == nil || id.Incarnation.State != cke.Forming {
		return fmt.Errorf("the cluster is not forming: %w", cke.ErrConflict)
	}
	return nil
}

func isFormed(id cke.Identity) error {
	if id.Incarnation == nil || id.Incarnation.State != cke.Formed {
		return fmt.Errorf("the cluster is not formed: %w", cke.ErrConflict)
	}
	return nil
}

func wasAbandoned(j cke.Join) func(cke.Identity) error {
	return func(id cke.Identity) error {
		if !id.Incarnation.WasAbandoned(j.Incarnation) {
			return fmt.Errorf("incarnation %s was not abandoned: %w", j.Incarnation, cke.ErrConflict)
		}
		return nil
	}
}

// stopStep stops the join's container if there is one. Whatever the member holds that is not in its volume is lost.
func stopStep(j cke.Join) Step {
	return stopBy(j, func(ctx context.Context, e Env, j cke.Join) error {
		return e.Machines.Machine(j.Node).StopContainer(ctx, j, stopGrace)
	})
}

// stopKeptStep is stopStep for a member whose data is needed.
func stopKeptStep(j cke.Join) Step { return stopBy(j, stopKept) }

func stopBy(j cke.Join, stop func(context.Context, Env, cke.Join) error) Step {
	return Step{Name: "stop", Node: j.Node.Name(), Limit: stopLimit, Run: func(ctx context.Context, e Env) error {
		err := stop(ctx, e, j)
		if errors.Is(err, cke.ErrNotFound) {
			return nil
		}
		return err
	}}
}

// removeStep removes the join's container, then its volume.
func removeStep(j cke.Join) Step {
	return Step{Name: "remove", Node: j.Node.Name(), Limit: imageLimit, Run: func(ctx context.Context, e Env) error {
		if err := removeContainer(ctx, e, j); err != nil {
			return err
		}
		err := e.Machines.Machine(j.Node).RemoveVolume(ctx, j)
		if errors.Is(err, cke.ErrNotFound) {
			return nil
		}
		return err
	}}
}

// removeContainer removes the join's container if there is one; its volume stays.
func removeContainer(ctx context.Context, e Env, j cke.Join) error {
	err := e.Machines.Machine(j.Node).RemoveContainer(ctx, j)
	if errors.Is(err, cke.ErrNotFound) {
		return nil
	}
	return err
}

func joinNames(joins []cke.Join) []string {
	var out []string
	for _, j := range joins {
		out = append(out, j.Node.Name())
	}
	return out
}
