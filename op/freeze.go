package op

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cke"
)

// Freeze records a finding that stops every change until the operator lifts it, with what was observed.
type Freeze struct {
	Kind    cke.FreezeKind
	Finding string
	Problem cke.Problem
	Seen    cke.EtcdStatus
	// Unrecorded are the memberships that were found and that the store did not have; only of FreezeOlderStore.
	Unrecorded []cke.Unrecorded
	// Ended are the current memberships that ended according to marks; only of FreezeOlderStore.
	Ended []cke.Join
	// Held are the requests in the store at that time; only of FreezeOlderStore.
	Held *cke.HeldRequests
	// Lacks is what the identity beside the backups has and the store does not; only of FreezeOlderStore.
	Lacks []cke.Lacking
	// Returns is set instead of all else if an earlier freeze must be active again.
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
			seen, err := stayApart(ctx, e)
			if err != nil || seen == nil {
				return err
			}
			f.Seen.Endpoints, f.Seen.Members, f.Seen.MembersSource = seen.Endpoints, seen.Members, seen.MembersSource // by these members are put aside later
		}
		found := cke.NewFreeze(f.Kind, f.Finding, f.Problem, f.Seen)
		found.Held, found.Lacks = f.Held, f.Lacks
		return freeze(ctx, e, found)
	}}}}
}

// How often, and after which pause, members are asked again whether they serve without each other.
const (
	apartLooks = 3
	apartPause = 2 * time.Second
)

// stayApart returns what the members answered last if two of them serve without each other each time that they are asked, each under its
// leader in its term: no two of one quorum do, whatever their elections. What a removal between two answers showed is over by then, and
// nil is returned.
func stayApart(ctx context.Context, e Env) (seen *cke.EtcdStatus, err error) {
	var one, other cke.EndpointStatus
	for look := range apartLooks {
		if err := e.Pause(ctx, apartPause); err != nil {
			return nil, err
		}
		id, err := e.Ledger.Identity(ctx)
		if err != nil || id.Incarnation == nil {
			return nil, err
		}
		last := seen
		seen = &cke.EtcdStatus{Endpoints: answersOf(ctx, e, id)}
		if list, _, err := readList(ctx, e); err == nil {
			seen.Members, seen.MembersSource = list.members, cke.MembersLinearizable
		}
		a, b, is := id.Ours(*seen).Apart(id.Incarnation.ClusterID, id.Incarnation.Importing())
		if !is || look > 0 && (a.Voted(one) || b.Voted(other)) {
			return nil, nil
		}
		one, other = a, b
		for i, s := range seen.Endpoints { // an answer that was lost does not hide where the member belongs
			if last != nil && !s.Serves(id.Incarnation.ClusterID) {
				for _, before := range last.Endpoints {
					if before.URL == s.URL && before.Serves(id.Incarnation.ClusterID) {
						seen.Endpoints[i] = before
					}
				}
			}
		}
	}
	return seen, nil
}

// onRecord reports whether any of what was found is on record by now: the record was read before the nodes were observed,
// and a membership may have been added, or have ended, between the two.
func (f Freeze) onRecord(ctx context.Context, e Env) (bool, error) {
	id, err := e.Ledger.Identity(ctx)
	return slices.ContainsFunc(f.Unrecorded, func(u cke.Unrecorded) bool { return id.OnRecord(u.Incarnation, u.Join) }) ||
		slices.ContainsFunc(f.Ended, func(j cke.Join) bool { _, current := id.Join(j.ID); return !current }), err
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
	f.Held = f.Held.With(id.Freeze)
	if id.Freeze.Active() {
		if !id.Freeze.MakesWay(f.Kind, f.Finding) {
			return nil
		}
		f = f.InPlaceOf(id.Freeze)
	}
	f.At, f.Leader, f.Accepted = e.Now().UTC(), e.Leader, id.Freeze.Tolerated()
	return e.Ledger.PutFreeze(ctx, f)
}

// Unfreeze lifts a freeze: the operator has judged what was found.
type Unfreeze struct {
	ID string
	// Reason is the operator's text.
	Reason string
	By     string // user@host
	// Wrong names the nodes whose members have the wrong data: they are put aside. See cke.FreezeKind.NamesWrong.
	Wrong []string
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
		return &cke.Error{Code: cke.CodeConflict, What: fmt.Sprintf("freeze %s is not the current one", u.ID), Unchanged: true, Try: "ckecli cluster evidence"}
	}
	if !f.Active() {
		return nil
	}
	if err := putAside(ctx, e, id, u.Wrong); err != nil {
		return err
	}
	f.LiftedAt, f.LiftedBy, f.LiftReason, f.Wrong = e.Now().UTC(), u.By, u.Reason, u.Wrong
	return e.Ledger.PutFreeze(ctx, *f)
}

// EndFinding records that lifted findings are no longer seen: seen again, they freeze the cluster again.
type EndFinding struct {
	Findings []string
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
	f := *id.Freeze
	if slices.Contains(o.Findings, f.Finding) && f.OverAt.IsZero() {
		f.OverAt = e.Now().UTC()
	}
	f.Accepted = slices.DeleteFunc(slices.Clone(f.Accepted), func(s string) bool { return slices.Contains(o.Findings, s) })
	return e.Ledger.PutFreeze(ctx, f)
}
