package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/server/strategy"
)

// Bounds of a plan.
const (
	// maxOperations ends a plan that would continue for ever.
	maxOperations = 200
	// maxWaits bounds the looks between two operations.
	maxWaits = 3000
	// patience is how long is waited for a change that nobody announced, as an election, glance how often is looked.
	patience = 15 * time.Second
	glance   = time.Second
	// shortWait is a wait that is not worth a line.
	shortWait = time.Second
	// maxFailures is how often an operation is tried that fails.
	maxFailures = 3
	// maxRepeats is how often in a row an operation is done that has no lasting effect.
	maxRepeats = 5
)

// Make plans from what Decide may know now. in.Spec has its defaults filled in; in.Failures is ignored: what failed may
// succeed next time.
func Make(ctx context.Context, in strategy.Input) Plan {
	m := &maker{stage: newStage(in), plan: Plan{
		Cluster: in.Spec.Name, Revision: in.Generation, ObservedAt: in.Seen.ObservedAt, Steps: []Step{},
	}}
	m.plan.Assumed = m.stage.assumed
	m.work(ctx)
	m.plan.Hash = hash(in.Generation, in.Spec, in.Deleting, in.Identity, m.plan)
	return m.plan
}

// maker is a plan in the making.
type maker struct {
	stage *stage
	plan  Plan

	waited  time.Duration // since the last operation
	waitFor string        // why it began
	waits   int
	idle    time.Duration // of it, without an end that was announced

	last    string // FailureKey of the operation before
	repeats int
}

// work plays on until nothing more can be done.
func (m *maker) work(ctx context.Context) {
	in := m.stage.look(ctx)
	for {
		d := m.decide(in)
		status := strategy.Report(in, d, m.stage.in.Before)
		m.stage.in.Before = status
		m.stage.in.Before.Reached = nil // what members really serve and what simulated ones do is not comparable
		m.plan.End = endOf(status)
		m.plan.Reason, m.plan.Blockers = d.Reason, d.Blockers
		switch {
		case ctx.Err() != nil:
			m.end(Endless, "interrupted: "+ctx.Err().Error())
			return
		case d.Converged:
			m.converged(d, status)
			return
		case d.Operation != nil:
			if !m.operate(ctx, in, d, status) {
				return
			}
			in = m.stage.settled(ctx, in.Seen.Etcd.Quorate)
			m.finish(in)
			continue
		case status.Health == cke.HealthHibernated && len(d.Blockers) == 0:
			m.end(Converged, d.Reason)
			return
		case !m.wait(d):
			m.end(Blocked, d.Reason)
			m.plan.Quorum = stranded(in, d)
			return
		}
		in = m.stage.look(ctx)
	}
}

// converged ends a plan that has nothing more to do. A declared node that does not answer and never carried a member is
// nothing that the daemon could act upon, and not what is declared.
func (m *maker) converged(d strategy.Decision, s cke.Status) {
	if s.Declared > s.Ready && len(s.Problems) > 0 {
		m.plan.Blockers = s.Problems
		m.end(Blocked, fmt.Sprintf("%d of %d members serve; %s", s.Ready, s.Declared, s.Problems[0].Message))
		return
	}
	if d.Operation != nil {
		m.plan.Afterwards = d.Operation.Name() + ": " + d.Reason
	}
	m.plan.Blockers = nil
	m.end(Converged, "all is as declared")
}

// decide is what the daemon would decide; where it waits for the user's consent, what it would with it.
func (m *maker) decide(in strategy.Input) strategy.Decision {
	d := strategy.Decide(in)
	if d.Operation != nil && !d.Upkeep {
		return d
	}
	released := in
	released.Requests.Hold = nil
	released.Requests.Applied = max(released.Requests.Applied, in.Generation)
	released.Requests.Interrupt = max(released.Requests.Interrupt, in.Generation)
	next := strategy.Decide(released)
	if next.Operation != nil && next.Upkeep && !next.Converged {
		next = strategy.DecideChange(released)
	}
	if next.Operation == nil || next.Upkeep {
		return next
	}
	if m.plan.Held == "" {
		m.plan.Held = consent(in, d)
	}
	return next
}

// consent is what held operations wait for, by what the daemon would decide without it.
func consent(in strategy.Input, d strategy.Decision) string {
	var all []string
	if h := in.Requests.Hold; h.Active(in.Seen.ObservedAt) {
		who := ""
		if h.By != "" {
			who = " by " + h.By
		}
		all = append(all, fmt.Sprintf("`ckecli resume`, since the cluster is paused%s: %s", who, h.Reason))
	}
	switch p := in.Spec.Policies; {
	case in.Requests.Applied >= in.Generation && in.Generation > 0:
	case p.Reconcile == cke.ReconcileManual:
		all = append(all, "`ckecli cluster apply` (reconcile: manual)")
	case p.Reconcile == cke.ReconcileWindow:
		all = append(all, "the next maintenance window, or `ckecli cluster apply` (reconcile: window)")
	}
	if slices.ContainsFunc(d.Blockers, func(p cke.Problem) bool { return p.Code == cke.CodeInterrupt }) {
		all = append(all, "another voter, or `ckecli cluster apply`: the cluster does not serve while one of these restarts")
	}
	return strings.Join(all, "; and for ")
}

// operate does the operation, and reports whether the plan continues.
func (m *maker) operate(ctx context.Context, in strategy.Input, d strategy.Decision, status cke.Status) bool {
	m.tellWait()
	key := strategy.FailureKey(d.Operation)
	if key != m.last {
		m.last, m.repeats = key, 0
	}
	m.repeats++
	switch {
	case m.repeats > maxRepeats:
		m.end(Endless, fmt.Sprintf("%s has no lasting effect: %s", d.Operation.Name(), d.Reason))
		return false
	case m.plan.Operations == maxOperations:
		m.end(Endless, fmt.Sprintf("a plan ends after %d operations", maxOperations))
		return false
	}
	m.forgetFailed(key)
	m.plan.Operations++
	r, least, err := m.stage.run(ctx, d)
	before := standing{status.Tolerance, zonesIn(status.Spread)}
	during := before.least(least).least(disturbed(in, status.Spread, d.Operation))
	s := Step{key: key, Kind: KindOperation, Number: m.plan.Operations, Operation: r.Operation, Targets: r.Targets, Reason: d.Reason, Task: d.Task,
		Held: m.plan.Held != "", Tolerance: &Tolerance{before.tolerance, during.tolerance, before.tolerance}}
	if in.Spec.HasZones() {
		s.Zones = &Zones{before.zones, during.zones, before.zones}
	}
	if err != nil {
		s.Error, s.Code = err.Error(), r.Code
	}
	m.plan.Steps = append(m.plan.Steps, s)
	switch {
	case m.stage.world.Store().Deleted():
		s.Tolerance.After = -1
		if s.Zones != nil {
			s.Zones.After = ZoneCount{}
		}
		m.end(Deleted, "the cluster is deleted; volumes are kept")
		m.plan.End = End{Summary: "deleted", Tolerance: -1}
		return false
	case err != nil && d.Task == "" && m.stage.in.Failures[key].Count >= maxFailures:
		m.end(Blocked, fmt.Sprintf("%s fails: %v", d.Operation.Name(), err))
		return false
	}
	return true
}

// forgetFailed takes back what was told of an operation that failed and is tried again.
func (m *maker) forgetFailed(key string) {
	if m.stage.in.Failures[key].Count == 0 {
		return
	}
	for i := len(m.plan.Steps) - 1; i >= 0; i-- {
		if s := m.plan.Steps[i]; s.Kind == KindOperation {
			if s.Error != "" && s.key == key {
				m.plan.Steps = m.plan.Steps[:i]
				m.plan.Operations--
			}
			return
		}
	}
}

// finish notes how the cluster stands after the operation.
func (m *maker) finish(in strategy.Input) {
	status := strategy.Report(in, strategy.Decision{}, m.stage.in.Before)
	last := m.plan.Steps[len(m.plan.Steps)-1]
	t := last.Tolerance
	if t.After = status.Tolerance; t.After >= 0 {
		t.During = min(t.During, t.After)
	}
	if z := last.Zones; z != nil {
		z.After = zonesIn(status.Spread)
		z.During = z.During.least(z.After)
	}
	if t.Before >= 0 {
		least := min(t.Before, t.During, t.After)
		if m.plan.LeastTolerance != nil {
			least = min(least, *m.plan.LeastTolerance)
		}
		m.plan.LeastTolerance = &least
	}
}

// wait lets time pass, and reports whether there is any use in it.
func (m *maker) wait(d strategy.Decision) bool {
	if m.waited == 0 {
		m.waitFor = d.Reason
	}
	again := d.Again
	if again <= 0 {
		again = glance
		m.idle += glance
	}
	m.waits++
	if m.idle > patience || m.waits > maxWaits || d.Frozen != nil {
		return false
	}
	m.waited += again
	m.stage.clock.advance(again)
	return true
}

// tellWait makes a step of the time that has passed since the last operation.
func (m *maker) tellWait() {
	if m.waited >= shortWait {
		m.plan.Steps = append(m.plan.Steps, Step{Kind: KindWait, Reason: m.waitFor, Seconds: m.waited.Seconds(), Held: m.plan.Held != ""})
	}
	m.waited, m.waits, m.idle = 0, 0, 0
}

// end ends the plan. Time that passed for nothing is not told.
func (m *maker) end(o Outcome, reason string) {
	m.waited -= m.idle
	m.tellWait()
	m.plan.Outcome, m.plan.Reason = o, reason
}
