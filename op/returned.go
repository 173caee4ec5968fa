package op

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cke"
)

// returnedLimit bounds asking the nodes that an operator called destroyed: most of them do not answer.
const returnedLimit = 10 * time.Second

// NoteReturned stores that nodes were seen with their members after the order of a restore had called them destroyed, whatever the restore
// waits for. It does not excuse them any more, also if they fall silent again.
type NoteReturned struct {
	// Incarnation is the one that is restoring.
	Incarnation string
	Nodes       []string
}

var _ Operation = NoteReturned{}

// Name implements Operation.
func (NoteReturned) Name() string { return "note-returned" }

// Targets implements Operation.
func (n NoteReturned) Targets() []string { return n.Nodes }

// Stages implements Operation.
func (n NoteReturned) Stages() []Stage {
	return []Stage{{{Name: "record-returned", Run: func(ctx context.Context, e Env) error {
		id, err := Restore{Incarnation: n.Incarnation}.restoring(ctx, e)
		if err != nil {
			return err
		}
		return noteReturned(ctx, e, *id.Incarnation, n.Nodes)
	}}}}
}

// noteReturned stores which nodes are not destroyed that the order of the restore under way calls so.
func noteReturned(ctx context.Context, e Env, inc cke.Incarnation, nodes []string) error {
	rest := inc.Restore.Noted(nodes...)
	if len(rest.Returned) == len(inc.Restore.Returned) && len(rest.Reappeared) == len(inc.Restore.Reappeared) {
		return nil
	}
	inc.Restore = &rest
	return e.Ledger.UpdateIncarnation(ctx, inc)
}

// notGone is what was seen of a member that an operator called destroyed.
type notGone struct {
	cke.Former
	// has: its node answers, and has a container of it that ran; answers: a member answers at its URL.
	has, answers bool
	// leads: that member knows a leader; runs: its container runs.
	leads, runs bool
}

// saw keeps what a step saw of nodes that an order calls destroyed: the store may not take it now, and they may be away when they are asked again.
func (e Env) saw(order string, seen ...notGone) {
	if e.Saw == nil {
		return
	}
	for _, n := range seen {
		what := fmt.Sprintf("%s answers with a container of its member", n.Name)
		if n.answers {
			what = fmt.Sprintf("the member on %s answers at %s", n.Name, n.URL)
		}
		e.Saw(cke.Sighting{Order: order, Node: n.Name, What: what, At: e.Now().UTC()})
	}
}

// sawRunning is saw of an order that is not on record as a restore: a container that does not run counts for nothing.
func (e Env) sawRunning(order string, seen []notGone) {
	e.saw(order, slices.DeleteFunc(slices.Clone(seen), func(n notGone) bool { return !n.answers && !n.runs })...)
}

// returned asks the members that an operator called destroyed, all at the same time: the engines of their nodes, and etcd where it is on
// record. What answers counts for more than the operator's word. next is the id of the cluster that may answer there; "": none may.
func returned(ctx context.Context, e Env, gone []cke.Former, next string) (seen []notGone) {
	ctx, cancel := context.WithTimeout(ctx, returnedLimit)
	defer cancel()
	all := make([]notGone, len(gone))
	var wg sync.WaitGroup
	for i, f := range gone {
		all[i].Former = f
		if f.Join.ID != "" {
			wg.Go(func() {
				c, err := e.Machines.Machine(f.Join.Node).Container(ctx, f.Join)
				all[i].has, all[i].runs = err == nil && c.EverRan(), err == nil && (c.Running() || c.State == cke.ContainerRestarting)
			})
		}
		wg.Go(func() {
			s := e.Etcd.Endpoint(ctx, f.URL)
			if f.Answers(s, next) {
				all[i].answers, all[i].leads = true, s.LeaderID != "" || s.Linearizable
			}
		})
	}
	wg.Wait()
	for _, n := range all {
		if n.has || n.answers {
			seen = append(seen, n)
		}
	}
	return seen
}

// stillThere is the error of an operation that has to stop a member first whose machine an operator called destroyed.
func (n notGone) stillThere(would, try string) error {
	e := &cke.Error{Code: cke.CodeFence, What: fmt.Sprintf("%s was named as destroyed, and its member answers at %s: it would serve %s", n.Name, n.URL, would), Try: try, Err: cke.ErrConflict}
	if n.has {
		e.What = fmt.Sprintf("%s was named as destroyed, and answers with a container of its member, which has to be stopped first", n.Name)
	}
	return e
}

// destroyedGone refuses to let restored members start beside a member that the order calls destroyed, and that is seen again.
// That is put on record first. One whose node answers is stopped by the restore that Decide chooses then.
func (r Restore) destroyedGone(ctx context.Context, e Env, inc cke.Incarnation) error {
	seen := returned(ctx, e, r.Gone, inc.ClusterID)
	id, err := r.restoring(ctx, e)
	if err != nil {
		e.saw(inc.Restore.ID, seen...)
		return err
	}
	if seen == nil {
		if before := id.SeenSince(id.Incarnation.Restore); before != nil { // Decide puts that on record first
			return &cke.Error{Code: cke.CodeFence, What: before[0] + " was named as destroyed, and was seen since with a member", Err: cke.ErrConflict}
		}
		return nil
	}
	name := seen[0].Name
	try := fmt.Sprintf("switch it off, and restore again: ckecli restore --destroyed %s", name)
	if seen[0].Join.ID != "" {
		try = fmt.Sprintf("let cke reach the sshd of %s, so that its member is stopped first; or %s; or, if too few of the former members could serve for a quorum: ckecli restore --without %s", name, try, name)
	}
	refused := seen[0].stillThere("beside the restored cluster", try)
	var nodes []string
	for _, n := range seen {
		nodes = append(nodes, n.Name)
	}
	if err := noteReturned(ctx, e, inc, nodes); err != nil {
		e.saw(inc.Restore.ID, seen...)
		return errors.Join(refused, err)
	}
	return refused
}

// destroyedGone refuses to put a restore on record while a member answers that the order calls destroyed. From backups, one
// whose node answers does no harm: the restore stops it, and its record names it as returned. What a recovery continues from was copied, and may lack what it acknowledged.
func (b BeginRestore) destroyedGone(ctx context.Context, e Env) (nodes []string, err error) {
	seen := returned(ctx, e, b.Gone, "")
	e.sawRunning(b.Task.ID, seen)
	for _, n := range seen {
		try := "switch it off"
		if n.Join.ID != "" {
			try = fmt.Sprintf("switch it off; or let cke reach its sshd, and: %s --without %s", b.order().Command(), n.Name)
		}
		if !n.has || b.order().Survivor != "" {
			return nil, n.stillThere("beside the restored cluster", try)
		}
		nodes = append(nodes, n.Name)
	}
	return nodes, nil
}

// recordFenced stores which members on nodes that were named as destroyed, and answered since, have no container any more: such a node is not
// waited for once it is gone for good. One of which there may be a copy on another machine is left out.
func (r Restore) recordFenced(ctx context.Context, e Env) error {
	id, err := r.restoring(ctx, e)
	if err != nil {
		return err
	}
	inc, rest := *id.Incarnation, *id.Incarnation.Restore
	var fenced []string
	for _, j := range id.Superseded() {
		at := slices.IndexFunc(r.Fence, func(f cke.Join) bool { return f.ID == j.ID && f.Node.Address == j.Node.Address })
		twin := slices.ContainsFunc(r.Fence, func(f cke.Join) bool { return f.ID == j.ID && f.Node.Address != j.Node.Address })
		if at < 0 || twin || !slices.Contains(rest.Returned, j.Node.Name()) || slices.Contains(rest.Fenced, j.ID) {
			continue
		}
		_, err := e.Machines.Machine(r.Fence[at].Node).Container(ctx, j)
		switch {
		case errors.Is(err, cke.ErrNotFound):
			rest.Fenced, fenced = append(slices.Clone(rest.Fenced), j.ID), append(fenced, j.Node.Name())
		case err == nil:
			return fmt.Errorf("a container of %s is there again: %w", j.Node.Name(), cke.ErrConflict)
		default:
			return err
		}
	}
	if fenced == nil {
		return nil
	}
	inc.Restore = &rest
	if err := e.Ledger.UpdateIncarnation(ctx, inc); err != nil {
		return err
	}
	for _, one := range id.Sightings(rest.ID) { // what was seen before its container was gone says nothing of later
		if slices.Contains(fenced, one.Node) {
			if err := e.Ledger.DropSighting(ctx, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// formers returns the members of memberships as they are asked.
func formers(joins []cke.Join) (all []cke.Former) {
	for _, j := range joins {
		all = append(all, cke.Identity{}.Former(j))
	}
	return all
}
