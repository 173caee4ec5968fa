package op

import (
	"context"
	"fmt"
	"slices"

	"cke"
)

// DeleteCluster stops every member, removes its container, keeps its volume, and moves the cluster out of the store.
// It completes only when every node of a member has answered, and can be canceled until it is sealed. Without its
// container a member cannot start again, neither by a late start of an earlier daemon nor by a mistake.
// Nodes are marked then, for a store that is restored from before: the cluster may be declared again on other nodes.
type DeleteCluster struct {
	Joins []cke.Join
	// Nodes are those of the cluster that answer, to be marked.
	Nodes []cke.Node
	// Gone are memberships on nodes that the operator called destroyed, and that do not answer.
	Gone []cke.Join
	// Foreign are members that the operator called destroyed, and that no membership names.
	Foreign []cke.Former
	// Excused are the ids of all such members, also of those that cannot be asked.
	Excused []string
	// Down are the ids of other listed members that are down, or that this stops, as the decision has found.
	Down []string
	// Listed are those members of the lists that are known that may be foreign, with the ids of their clusters.
	Listed []cke.MemberList
	// Deletion is the id of the request, see cke.Sighting.
	Deletion string
	// CouldServe: the voters that are not stopped could be a quorum, foreign ones included.
	CouldServe bool
	// Sealed: the deletion cannot be canceled any more, so what answers does not keep it waiting.
	Sealed bool
}

var _ Operation = DeleteCluster{}

// Name implements Operation.
func (DeleteCluster) Name() string { return "delete-cluster" }

// Targets implements Operation.
func (d DeleteCluster) Targets() []string { return joinNames(d.Joins) }

// Stages implements Operation.
func (d DeleteCluster) Stages() []Stage {
	var ask, stop, remove Stage
	if len(d.Joins) > 0 {
		ask = Stage{whileDeleting(Step{Name: "ask-members", Run: d.noneLeft})}
	}
	for _, j := range d.Joins {
		stop = append(stop, whileDeleting(stopStep(j)))
		remove = append(remove, whileDeleting(Step{Name: "remove-container", Node: j.Node.Name(), Run: func(ctx context.Context, e Env) error {
			return removeContainer(ctx, e, j)
		}}))
	}
	seal := Stage{{Name: "seal", Run: func(ctx context.Context, e Env) error {
		if n, serve := d.mayServe(ctx, e); serve {
			return n.stillThere("in the name of a deleted cluster", fmt.Sprintf("switch %s off, or let cke reach its sshd, so that its member is stopped; or ckecli cluster delete %s --cancel", n.Name, e.Cluster))
		}
		if err := d.seenServing(ctx, e); err != nil {
			return err
		}
		return e.Ledger.SealDelete(ctx)
	}}}
	last := Stage{{Name: "archive-record", Run: func(ctx context.Context, e Env) error { return e.Ledger.FinishDelete(ctx) }}}
	return nonEmpty(ask, stop, remove, seal, markOver(d.Nodes, withPresent), last)
}

// mayServe is a member that answers on a node that the operator called destroyed, if its container can be stopped, or if it may serve: it has
// a leader, though all others were stopped, or those that are not stopped could be a quorum. Those that do not answer cke may answer it, and
// have no leader only until they have elected one.
func (d DeleteCluster) mayServe(ctx context.Context, e Env) (first notGone, serve bool) {
	if d.Sealed {
		return first, false
	}
	seen := returned(ctx, e, append(formers(d.Gone), d.Foreign...), "")
	e.sawRunning(d.Deletion, seen)
	for _, n := range seen {
		if n.has || n.leads || d.CouldServe {
			return n, true
		}
		e.Note(fmt.Sprintf("%s was named as destroyed, and its member answers at %s: it is left running, and cannot serve without the others", n.Name, n.URL))
	}
	return first, false
}

// seenServing is an error if a node that the operator called destroyed was seen since, is away again, and may serve with others like it.
func (d DeleteCluster) seenServing(ctx context.Context, e Env) error {
	if d.Sealed || !d.CouldServe {
		return nil
	}
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	for _, s := range id.Sightings(d.Deletion) {
		gone := slices.ContainsFunc(d.Gone, func(j cke.Join) bool { return s.Node == j.Node.Name() || id.NameIn([]string{s.Node}, j) != "" })
		if gone || slices.ContainsFunc(d.Foreign, func(f cke.Former) bool { return s.Node == f.Name }) {
			return s.Contradicts(e.Cluster)
		}
	}
	return nil
}

// withPresent are the lives that are over once the present one is, too, and with it those that a restore under way was to replace.
func withPresent(i cke.Identity) []string {
	if i.Incarnation == nil || i.Incarnation.State == cke.Awaiting {
		return nil
	}
	over := append(i.Incarnation.DeletedMark(), i.Over()...)
	for _, id := range slices.Backward(i.Incarnation.Lives()) {
		if !slices.Contains(over, id) {
			over = append(over, id)
		}
	}
	return over
}

// whileDeleting lets a step run unless the deletion was canceled. What was stopped until then is started again on its own
// data: containers are all that a deletion removes before its last step.
func whileDeleting(s Step) Step {
	return while(s, func(ctx context.Context, e Env) (string, error) {
		deleting, err := e.Ledger.Deleting(ctx)
		if err != nil || deleting {
			return "", err
		}
		return "the deletion was canceled", nil
	})
}

// errTakenBack is of an operation that people do not want any more. It has not failed.
var errTakenBack = fmt.Errorf("withdrawn: %w", cke.ErrConflict)

// while lets a step run as long as people want what it is for, which is read again: over is why they do not any more, or "".
func while(s Step, over func(context.Context, Env) (string, error)) Step {
	run := s.Run
	s.Run = func(ctx context.Context, e Env) error {
		why, err := over(ctx, e)
		if err == nil && why != "" {
			err = fmt.Errorf("%s: %w", why, errTakenBack)
		}
		if err != nil {
			return err
		}
		return run(ctx, e)
	}
	return s
}
