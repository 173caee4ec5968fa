package op

import (
	"context"
	"fmt"
	"slices"

	"cke"
)

// Reclaim records memberships again that the store lost, and lifts the freeze because of them. No node is changed.
type Reclaim struct {
	Task cke.Task
	cke.Reclaim
	// Freeze is the id of the freeze that it lifts; empty: there is none.
	Freeze string
}

var _ Operation = Reclaim{}

// Name implements Operation.
func (Reclaim) Name() string { return "reclaim" }

// Targets implements Operation.
func (r Reclaim) Targets() []string {
	var nodes []string
	for _, j := range slices.Concat(r.Members, r.Archived) {
		if !slices.Contains(nodes, j.Node.Name()) {
			nodes = append(nodes, j.Node.Name())
		}
	}
	return nodes
}

// Stages implements Operation.
func (r Reclaim) Stages() []Stage {
	var look Stage
	for _, j := range r.Members {
		look = append(look, Step{Name: "check-container", Node: j.Node.Name(), Run: func(ctx context.Context, e Env) error {
			_, err := e.Machines.Machine(r.Found[j.ID]).Container(ctx, j) // with the labels of this membership
			return err
		}})
	}
	var stages []Stage
	if look != nil {
		stages = append(stages, look)
	}
	if len(r.IDs())+len(r.Ends)+len(r.Apart) > 0 {
		stages = append(stages, Stage{{Name: "record-memberships", Run: r.record}})
	}
	if r.Freeze != "" {
		stages = append(stages, Stage{{Name: "record-lift", Run: r.lift}})
	}
	return stages
}

// record asks for the member list once more: only who is in it becomes a member on record.
func (r Reclaim) record(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	if err := isFormed(id); err != nil {
		return err
	}
	members, err := r.list(ctx, e, id)
	if err != nil {
		return err
	}
	listed := func(j cke.Join) bool { // at whatever URL: a change of that may have been cut off when the store went back
		return slices.ContainsFunc(members, func(m cke.Member) bool { return m.ID == j.MemberID })
	}
	for _, j := range slices.Concat(r.Members, r.Apart) {
		if !listed(j) {
			return fmt.Errorf("member %s of %s has left the list meanwhile: %w", j.MemberID, j.Node.Name(), cke.ErrConflict)
		}
	}
	for _, j := range r.Ends {
		if slices.ContainsFunc(members, func(m cke.Member) bool { return m.ID == j.MemberID }) {
			return fmt.Errorf("the member of %s is in the list: %w", j.Node.Name(), cke.ErrConflict)
		}
	}
	var started []cke.Join
	for _, j := range id.Joins { // the copy was made while they were added
		named := slices.ContainsFunc(members, func(m cke.Member) bool { return m.Name != "" && m.ID == j.MemberID })
		if named && j.StartedAt.IsZero() && !slices.ContainsFunc(r.Members, func(m cke.Join) bool { return m.ID == j.ID }) {
			noteStart(&j, e.Now())
			started = append(started, j)
		}
	}
	writes := slices.DeleteFunc(r.Writes(e.Now()), func(j cke.Join) bool { // a former attempt, whose answer was lost
		is, lasts := id.Join(j.ID)
		return id.Has(j.ID) && lasts == j.EndedAt.IsZero() && (!lasts || is.Place() == j.Place() && is.Apart == j.Apart)
	})
	if writes = append(writes, started...); len(writes) == 0 {
		return nil
	}
	return e.Ledger.PutJoins(ctx, id, writes...)
}

// list reads the member list through whichever member answers, on record or not.
func (r Reclaim) list(ctx context.Context, e Env, id cke.Identity) ([]cke.Member, error) {
	var last error
	for _, j := range slices.Concat(r.Members, id.Joins) {
		clusterID, members, err := e.Etcd.Members(ctx, j.ClientURL())
		switch {
		case err != nil:
			last = err
		case clusterID != id.Incarnation.ClusterID:
			return nil, &cke.Error{Code: cke.CodeSplitBrain, What: fmt.Sprintf("%s answers with cluster id %s, on record is %s", j.Node.Name(), clusterID, id.Incarnation.ClusterID), Unchanged: true}
		default:
			return members, nil
		}
	}
	return nil, fmt.Errorf("no member gives a member list: %w", last)
}

// lift ends the finding, too: what is found afterward, if only a part of it was put on record, freezes the cluster again.
func (r Reclaim) lift(ctx context.Context, e Env) error {
	if err := (Unfreeze{ID: r.Freeze, Reason: "its memberships are on record again", By: r.Task.By}).lift(ctx, e); err != nil {
		return err
	}
	id, err := e.Ledger.Identity(ctx)
	if err != nil || id.Freeze == nil {
		return err
	}
	return EndFinding{Findings: []string{id.Freeze.Finding}}.end(ctx, e)
}
