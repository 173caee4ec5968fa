package op

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"cke"
	"cke/quorum"
)

// fenceStages stop containers for good, restarts by their engines first, and then see that none of them runs. They stop one
// after the other, each with stop: a leader that is stopped together with those it could hand over to waits for them in vain. Each asks
// first whether the cluster is still what it must be.
func fenceStages(joins []cke.Join, stop func(cke.Join) Step, allowed func(cke.Identity) error) []Stage {
	var stages []Stage
	var check Stage
	for _, j := range joins {
		s := stop(j)
		s.Name = "fence"
		stages = append(stages, Stage{only(allowed, s)})
		check = append(check, Step{Name: "check-fence", Node: j.Node.Name(), Run: func(ctx context.Context, e Env) error { return isFenced(ctx, e, j) }})
	}
	if stages == nil {
		return nil
	}
	return append(stages, check)
}

func isFenced(ctx context.Context, e Env, j cke.Join) error {
	c, err := e.Machines.Machine(j.Node).Container(ctx, j)
	if errors.Is(err, cke.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if c.Running() || c.State == cke.ContainerRestarting {
		return fmt.Errorf("container %s on %s is %s: %w", c.Name, j.Node.Name(), c.State, cke.ErrConflict)
	}
	return nil
}

// opener opens the snapshot of a restore.
func opener(e Env, id string) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) { return e.Snapshots.Open(ctx, id) }
}

// CancelRestore returns to the incarnation that a restore was about to replace, while none of the restored members
// was started.
type CancelRestore struct {
	Task        cke.Task
	Incarnation string
	// Fence are running members of abandoned incarnations: of a restore that was called off earlier, started from
	// outside. They would serve in the name of the incarnation that continues.
	Fence []cke.Join
	// Revive are the members of the incarnation that continues, if this restore may have stopped some of them and no rule starts
	// them again: this store has no incarnation of theirs, since the cluster was declared for a restore.
	Revive []cke.Join
	// Members is how many members that incarnation has, and Silent names the nodes that do not answer of those that may have been stopped.
	Members int
	Silent  []string
	// Nodes are those of the cluster that answer.
	Nodes []cke.Node
}

var _ Operation = CancelRestore{}

// Name implements Operation.
func (CancelRestore) Name() string { return "cancel-restore" }

// Targets implements Operation.
func (CancelRestore) Targets() []string { return nil }

// Stages implements Operation.
func (c CancelRestore) Stages() []Stage {
	restoring := func(id cke.Identity) error {
		if !id.Incarnation.Life(c.Incarnation) || id.Incarnation.State != cke.Restoring {
			return fmt.Errorf("restore %s is not under way: %w", c.Incarnation, cke.ErrConflict)
		}
		return nil
	}
	var stages []Stage
	for _, j := range c.Fence {
		stop := stopStep(j)
		stop.Name = "fence"
		stages = append(stages, Stage{only(restoring, attempted(stop, "stopped", new(error)))})
	}
	if stages != nil {
		stages = append(stages, Stage{{Name: "check-fence", Run: c.checkFence}})
	}
	if len(c.Revive)+len(c.Silent) > 0 {
		failed := make([]error, len(c.Revive))
		var revive Stage
		for i, j := range c.Revive {
			start := Step{Name: "start-again", Node: j.Node.Name(), Limit: imageLimit, Run: func(ctx context.Context, e Env) error {
				if err := startAgain(ctx, e, j); err != nil {
					return err
				}
				return staysUp(ctx, e, j)
			}}
			revive = append(revive, only(restoring, attempted(start, "started", &failed[i])))
		}
		stages = append(stages, Stage{only(restoring, Step{Name: "record-request", Run: recordCanceling})}, revive,
			Stage{{Name: "check-started", Run: func(context.Context, Env) error { return c.checkStarted(failed) }}})
	}
	stages = append(stages, Stage{{Name: "record-cancelled", Run: func(ctx context.Context, e Env) error {
		id, err := e.Ledger.Identity(ctx)
		if err != nil || !id.Incarnation.Life(c.Incarnation) {
			return err
		}
		restore := id.Incarnation.Restore
		if err := e.Ledger.CancelRestore(ctx, *id.Incarnation); err != nil || e.Snapshots == nil {
			return err
		}
		return e.Snapshots.Forget(ctx, restore.ID)
	}}})
	return nonEmpty(append(stages, markOver(c.Nodes, cke.Identity.Over))...)
}

// attempted lets a step succeed though it failed: whether that matters is judged once all were asked.
func attempted(s Step, what string, failed *error) Step {
	run := s.Run
	s.Run = func(ctx context.Context, e Env) error {
		*failed = run(ctx, e)
		if errors.Is(ctx.Err(), context.Canceled) {
			return ctx.Err()
		}
		if *failed != nil {
			e.Note(fmt.Sprintf("%s was not %s: %v", s.Node, what, *failed))
		}
		return nil
	}
	return s
}

// recordCanceling stores that the restore does not continue, whatever becomes of its cancellation.
func recordCanceling(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	inc, rest := *id.Incarnation, *id.Incarnation.Restore
	rest.Canceling, inc.Restore = true, &rest
	return e.Ledger.UpdateIncarnation(ctx, inc)
}

// startAgain starts the container of a member as it is, on its own data. One that the restore removed is made again, and one that could
// start empty if it can be made as it was.
func startAgain(ctx context.Context, e Env, j cke.Join) error {
	m := e.Machines.Machine(j.Node)
	c, err := m.Container(ctx, j)
	if err == nil && c.Running() { // what stopped it may have been cut off once its engine was to start it no more
		return keepRunning(ctx, e, j)
	}
	if errors.Is(err, cke.ErrNotFound) || err == nil && c.StartsEmpty && c.StandsAt(j) && c.MadeWith(j.Etcd) {
		err = remake(ctx, e, cke.MemberSpec{Cluster: e.Cluster, Join: j, Mode: cke.StartOwnData})
	}
	if err != nil {
		return err
	}
	if err := needData(ctx, m, j); err != nil {
		return err
	}
	if err := keepRunning(ctx, e, j); err != nil {
		return err
	}
	return m.StartContainer(ctx, j)
}

// upFor is for how long a member that was started again is watched if it does not serve: others may have to start first.
const upFor = 5 * time.Second

// staysUp fails if the etcd of a member that was started again ends.
func staysUp(ctx context.Context, e Env, j cke.Join) error {
	var ended *cke.Error
	for until := e.Now().Add(upFor); e.Now().Before(until); {
		if s := e.Etcd.Endpoint(ctx, j.ClientURL()); s.Healthy() && s.Linearizable {
			return nil
		}
		var err error
		if ended, err = stillRunning(ctx, e, j, ended); err != nil {
			return err
		}
		if err := e.Pause(ctx, containerEvery); err != nil {
			return err
		}
	}
	if ended != nil {
		return ended
	}
	return nil
}

// checkStarted refuses until a quorum is started again, or all that may have data if they are fewer.
func (c CancelRestore) checkStarted(failed []error) error {
	could, facts := len(c.Revive)+len(c.Silent), []string(nil)
	for i, err := range failed {
		switch {
		case errors.Is(err, cke.ErrDataMissing):
			could--
		case err != nil:
			facts = append(facts, c.Revive[i].Node.Name()+": "+err.Error())
		}
	}
	for _, node := range c.Silent {
		facts = append(facts, node+": it does not answer")
	}
	started, need := could-len(facts), min(quorum.Of(c.Members), could)
	if started >= need {
		return nil
	}
	return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("the restore is not canceled yet: %d of %s started again, and %d are needed", started, cke.Count(c.Members, "former member"), need),
		Facts: append(facts, "the restore does not continue; cke cancels it once enough of them are started", "another restore can replace it: ckecli restore"), Try: "ckecli history -f"}
}

// checkFence refuses while a quorum of an abandoned life may run. Fewer serve nobody: an engine that does not stop one of them is
// no reason to keep the life before from its clients.
func (c CancelRestore) checkFence(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	for i, f := range c.Fence {
		if len(ofLife(c.Fence[:i], f.Incarnation)) > 0 {
			continue
		}
		members := ofLife(id.Ended, f.Incarnation)
		need := quorum.Of(len(members))
		if members == nil { // how many there were is not on record
			members = ofLife(c.Fence, f.Incarnation)
		}
		var loose []error
		for _, j := range members {
			if at := indexOf(c.Fence, j.ID); at >= 0 {
				j = c.Fence[at] // where it is reached now
			}
			if err := isFenced(ctx, e, j); err != nil {
				loose = append(loose, err)
			}
		}
		if len(loose) >= need {
			return errors.Join(loose...)
		}
	}
	return nil
}

// ofLife are those of some memberships that are of one life; nil: none is.
func ofLife(joins []cke.Join, life string) (all []cke.Join) {
	for _, j := range joins {
		if j.Incarnation == life {
			all = append(all, j)
		}
	}
	return all
}
