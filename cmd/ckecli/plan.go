package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/words"
	"cke/plan"
	"cke/server/strategy"
)

// planOptions are the options of `plan`.
type planOptions struct {
	detailedExitCode bool
}

func newPlanCommand(a *app) *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use: "plan [FILE|-]", GroupID: groupSee,
		Short: "Show what the daemon will do, or would do with a file, step by step",
		Long: `Show what the daemon will do next, or would do if FILE were stored, in order, each with its reason and with how many
members can be lost before, during and after it. Nothing is changed, and no node is asked: the plan starts from the last
status, and the operations run on a simulated copy of the cluster.

With --detailed-exitcode the exit code says: 0 nothing to do, 2 there is something to do, or FILE or the stored revision
cannot be carried out now. A file that removes a member without which quorum would be lost is refused with the arithmetic,
and one whose version cannot be reached is refused with the way that works (exit code 6).`,
		Example: "  ckecli plan\n  ckecli plan cluster.yml\n  ckecli cluster set cluster.yml --plan $(ckecli plan cluster.yml -o name)",
		Args:    arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := ""
			if len(args) > 0 {
				file = args[0]
			}
			return runPlan(cmd.Context(), a, file, o)
		},
	}
	cmd.Flags().BoolVar(&o.detailedExitCode, "detailed-exitcode", false, "exit with 2 when there is something to do")
	return cmd
}

// planStore is what a plan is made from.
type planStore interface {
	specs
	tellings
	leadership
	Identity(ctx context.Context, cluster string) (cke.Identity, error)
	RequestsOf(ctx context.Context, cluster string) (cke.Requests, error)
}

// planned is a plan with where it came from, as it is written for programs.
type planned struct {
	plan.Plan
	// StoredRevision is that of the stored file; 0: there is none.
	StoredRevision int64 `json:"storedRevision"`
	// Age is how long ago the cluster was observed, in seconds; Led reports whether a daemon leads it now.
	Age float64 `json:"age"`
	Led bool    `json:"led"`
	// Changes are what a given file changes.
	Changes []string `json:"changes,omitempty"`

	seen   bool // by a daemon, ever
	undone bool // the stored revision is not done
	// refusal is why the text that is asked about is not stored; nil: it may be.
	refusal *cke.Error
}

func runPlan(ctx context.Context, a *app, file string, o planOptions) error {
	var wanted *edition
	if file != "" {
		c, text, err := a.readCluster(ctx, file)
		if err != nil {
			return err
		}
		if err := a.sameCluster(file, c); err != nil {
			return err
		}
		e := fileEdition(file, c, text)
		wanted = &e
	}
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	p, err := a.makePlan(ctx, s, wanted)
	if err != nil {
		return err
	}
	if err := a.show(a.planView(p)); err != nil {
		return err
	}
	switch {
	case p.refusal != nil:
		return p.refusal
	case p.Quorum != nil:
		return p.Quorum.Error()
	case o.detailedExitCode && (p.Operations > 0 || p.Outcome != plan.Converged && (p.undone || p.changes(wanted))):
		return exitError(exitChanges)
	}
	return nil
}

// changes reports whether a file means another cluster than what is stored.
func (p planned) changes(file *edition) bool {
	return file != nil && (p.StoredRevision == 0 || len(p.Changes) > 0)
}

// sameCluster refuses a file of another cluster than the chosen one.
func (a *app) sameCluster(file string, c cke.Cluster) error {
	if a.cluster == "" || a.cluster == c.Name {
		return nil
	}
	return &cke.Error{Code: cke.CodeCluster, What: fmt.Sprintf("%s describes cluster %s, and %s was chosen", fileName(file), c.Name, a.cluster),
		Unchanged: true, Try: "leave out --cluster and CKECLI_CLUSTER, or correct `name:` in the file"}
}

// makePlan plans from what the leader reported last; wanted is the text that is asked about, or nil for the stored one.
func (a *app) makePlan(ctx context.Context, s planStore, wanted *edition) (planned, error) {
	var name string
	var err error
	if wanted != nil {
		name = wanted.cluster.Name
	} else if name, err = a.theCluster(ctx, s); err != nil {
		return planned{}, err
	}
	stored, err := s.Spec(ctx, name)
	switch {
	case errors.Is(err, cke.ErrNotFound) && wanted != nil:
		p := planned{Plan: plan.Make(ctx, strategy.InputFrom(wanted.after(cke.Spec{}), cke.Identity{}, cke.Requests{}, cke.Status{ObservedAt: a.now().UTC()}))}
		return p, nil
	case err != nil:
		return planned{}, err
	}
	in, err := a.planInput(ctx, s, name, stored, wanted)
	if err != nil {
		return planned{}, err
	}
	p := planned{Plan: plan.Make(ctx, in), StoredRevision: stored.Generation, seen: true, undone: in.Before.ObservedGeneration < stored.Generation}
	if wanted != nil {
		if p.Changes = plan.Changes(stored.Wanted(), wanted.after(stored).Wanted()); len(p.Changes) > 0 {
			p.refusal = strategy.Unreachable(in)
		}
	}
	p.Age = max(a.now().Sub(in.Seen.ObservedAt), 0).Seconds()
	p.Led, err = isLed(ctx, s, name)
	return p, err
}

// plannedNow is the plan of the stored revision; nil where there is no observation of the cluster yet.
func (a *app) plannedNow(ctx context.Context, s planStore) (*planned, error) {
	p, err := a.makePlan(ctx, s, nil)
	var coded *cke.Error
	if errors.As(err, &coded) && coded.Code == cke.CodeNoLeader {
		return nil, nil
	}
	return &p, err
}

// planInput gathers what Decide knows.
func (a *app) planInput(ctx context.Context, s planStore, name string, stored cke.Spec, wanted *edition) (strategy.Input, error) {
	if wanted != nil {
		if stored.Deleting() {
			return strategy.Input{}, &cke.Error{Code: cke.CodeConflict, What: "cluster " + name + " is being deleted", Unchanged: true}
		}
		stored = wanted.after(stored)
	}
	status, err := s.Status(ctx, name)
	if errors.Is(err, cke.ErrNotFound) {
		return strategy.Input{}, noStatus(ctx, s, name)
	}
	if err != nil {
		return strategy.Input{}, err
	}
	id, err := s.Identity(ctx, name)
	if err != nil {
		return strategy.Input{}, err
	}
	asked, err := s.RequestsOf(ctx, name)
	return strategy.InputFrom(stored, id, asked, status), err
}

// stale reports whether the plan starts from a status that may be out of date.
func (p planned) stale() bool { return p.seen && (!p.Led || p.age() > words.StaleAfter) }

func (p planned) age() time.Duration { return time.Duration(p.Age * float64(time.Second)) }

// checkPlan refuses a file whose plan is not the expected one, or would lose quorum as far as is known now. It returns the
// plan unless there is no observation of the cluster yet, and lets nothing come between it and the storing.
func (a *app) checkPlan(ctx context.Context, s planStore, e edition, o *setOptions) (*planned, error) {
	p, err := a.makePlan(ctx, s, &e)
	var coded *cke.Error
	switch {
	case err != nil && o.plan == "" && errors.As(err, &coded) && coded.Code == cke.CodeNoLeader:
		return nil, a.checkOnRecord(ctx, s, e)
	case err != nil:
		return nil, err
	case o.plan != "" && p.Hash != o.plan:
		return &p, &cke.Error{Code: cke.CodeConflict, What: fmt.Sprintf("the plan of %s is %s now, not %s", e.name, p.Hash, o.plan),
			Facts: []string{"the cluster, its stored file or what would be done has changed since"}, Unchanged: true, Try: a.again(e.cluster.Name, e.plan)}
	case o.plan != "" && o.ifRevision == nil:
		o.ifRevision = &p.StoredRevision
	}
	switch {
	case p.refusal != nil:
		return &p, p.refusal
	case p.Quorum != nil && len(p.Changes) > 0 && !p.stale():
		return &p, p.Quorum.Error()
	}
	return &p, nil
}

// checkOnRecord refuses a version that cannot be reached where there is no observation of the cluster since it was stored.
func (a *app) checkOnRecord(ctx context.Context, s planStore, e edition) error {
	stored, err := s.Spec(ctx, e.cluster.Name)
	if err != nil {
		return err
	}
	id, err := s.Identity(ctx, e.cluster.Name)
	if err != nil {
		return err
	}
	if refusal := strategy.Unreachable(strategy.InputFrom(e.after(stored), id, cke.Requests{}, cke.Status{})); refusal != nil {
		return refusal
	}
	return nil
}
