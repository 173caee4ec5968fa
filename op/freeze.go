package op

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cke"
)

// Freeze records a finding that stops every change until a person lifts it, with what was seen.
type Freeze struct {
	Kind    cke.FreezeKind
	Finding string
	Problem cke.Problem
	Seen    cke.EtcdStatus
	// Unrecorded are the memberships that were found and that the store did not have; only of FreezeOlderStore.
	Unrecorded []cke.Unrecorded
	// Held are the requests that the store has then; only of FreezeOlderStore.
	Held *cke.HeldRequests
	// Returns is set instead of all else where an earlier freeze is to be active again.
	Returns *cke.Freeze
}

var _ Operation = Freeze{}

// Name implements Operation.
func (Freeze) Name() string { return "freeze" }

// Targets implements Operation.
func (f Freeze) Targets() []string {
	if f.Problem.Node == "" {
		return nil
	}
	return []string{f.Problem.Node}
}

// Stages implements Operation.
func (f Freeze) Stages() []Stage {
	return []Stage{{{Name: "record-finding", Run: func(ctx context.Context, e Env) error {
		if f.Returns != nil {
			return e.Ledger.PutFreeze(ctx, *f.Returns)
		}
		if recordedMeanwhile, err := f.onRecord(ctx, e); err != nil || recordedMeanwhile {
			return err
		}
		if f.Kind == cke.FreezeTwoQuorums {
			if apart, err := stayApart(ctx, e); err != nil || !apart {
				return err
			}
		}
		found := cke.NewFreeze(f.Kind, f.Finding, f.Problem, f.Seen)
		found.Held = f.Held
		return freeze(ctx, e, found)
	}}}}
}

// How often, and after which pause, members are asked again whether they serve without each other.
const (
	apartLooks = 3
	apartPause = 2 * time.Second
)

// stayApart reports whether two members serve without each other each time that they are asked, each under its leader in its term: no two
// of one quorum do, whatever their elections. What a removal between two answers showed is over by then.
func stayApart(ctx context.Context, e Env) (bool, error) {
	var one, other cke.EndpointStatus
	for look := range apartLooks {
		if err := e.Pause(ctx, apartPause); err != nil {
			return false, err
		}
		id, err := e.Ledger.Identity(ctx)
		if err != nil || id.Incarnation == nil {
			return false, err
		}
		seen := cke.EtcdStatus{Endpoints: answersOf(ctx, e, id)}
		if list, _, err := readList(ctx, e); err == nil {
			seen.Members, seen.MembersSource = list.members, cke.MembersLinearizable
		}
		a, b, is := seen.Apart(id.Incarnation.ClusterID)
		if !is || look > 0 && (a.Voted(one) || b.Voted(other)) {
			return false, nil
		}
		one, other = a, b
	}
	return true, nil
}

// onRecord reports whether any of what was found is on record by now: the record was read before the nodes were observed,
// and a membership may have been added between the two.
func (f Freeze) onRecord(ctx context.Context, e Env) (bool, error) {
	id, err := e.Ledger.Identity(ctx)
	return slices.ContainsFunc(f.Unrecorded, func(u cke.Unrecorded) bool { return id.OnRecord(u.Incarnation, u.Join) }), err
}

// freeze stores a finding unless the cluster is frozen already: whatever froze it has to be judged first, but by the right store.
func freeze(ctx context.Context, e Env, f cke.Freeze) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	if id.Freeze.Tolerates(f.Finding) {
		return nil
	}
	if id.Freeze.Active() {
		if !id.Freeze.MakesWay(f.Kind) {
			return nil
		}
		f.Former = id.Freeze
	}
	f.Held = f.Held.With(id.Freeze)
	f.At, f.Leader, f.Accepted = e.Now().UTC(), e.Leader, id.Freeze.Tolerated()
	return e.Ledger.PutFreeze(ctx, f)
}

// Unfreeze lifts a freeze: a person has judged what was found.
type Unfreeze struct {
	ID string
	// Reason is the person's words.
	Reason string
	By     string // user@host
}

var _ Operation = Unfreeze{}

// Name implements Operation.
func (Unfreeze) Name() string { return "unfreeze" }

// Targets implements Operation.
func (Unfreeze) Targets() []string { return nil }

// Stages implements Operation.
func (u Unfreeze) Stages() []Stage {
	return []Stage{{{Name: "record-lift", Run: u.lift}}}
}

func (u Unfreeze) lift(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	f := id.Freeze
	if f == nil || f.ID != u.ID {
		return &cke.Error{Code: cke.CodeConflict, What: fmt.Sprintf("freeze %s is not the present one", u.ID), Unchanged: true, Try: "ckecli cluster evidence"}
	}
	if !f.Active() {
		return nil
	}
	if err := putAside(ctx, e, id); err != nil {
		return err
	}
	f.LiftedAt, f.LiftedBy, f.LiftReason = e.Now().UTC(), u.By, u.Reason
	return e.Ledger.PutFreeze(ctx, *f)
}

// EndFinding notes that findings that a person lifted are no longer seen: found again they freeze the cluster again.
type EndFinding struct {
	Findings []string
	// Rejoined were put aside, and serve with the others.
	Rejoined []cke.JoinID
}

var _ Operation = EndFinding{}

// Name implements Operation.
func (EndFinding) Name() string { return "end-finding" }

// Targets implements Operation.
func (EndFinding) Targets() []string { return nil }

// Stages implements Operation.
func (o EndFinding) Stages() []Stage {
	return []Stage{{{Name: "record-end", Run: o.end}}}
}

func (o EndFinding) end(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil || id.Freeze == nil || id.Freeze.Active() {
		return err
	}
	var joins []cke.Join
	for _, j := range id.Joins {
		if j.Apart && slices.Contains(o.Rejoined, j.ID) {
			j.Apart = false
			joins = append(joins, j)
		}
	}
	if joins != nil {
		if err := e.Ledger.PutJoins(ctx, id, joins...); err != nil {
			return err
		}
	}
	if o.Findings == nil {
		return nil
	}
	f := *id.Freeze
	if slices.Contains(o.Findings, f.Finding) && f.OverAt.IsZero() {
		f.OverAt = e.Now().UTC()
	}
	f.Accepted = slices.DeleteFunc(slices.Clone(f.Accepted), func(s string) bool { return slices.Contains(o.Findings, s) })
	return e.Ledger.PutFreeze(ctx, f)
}
