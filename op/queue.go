package op

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cke"
)

// LeaseEntry gives a node of a queue its lease and stops its member, and records that its command is next.
type LeaseEntry struct {
	Entry cke.Entry
	// Drain gives the node its lease; nil: it needs none.
	Drain *DrainNode
	// Successor is to lead in place of the node's member; nil: whichever has come furthest.
	Successor *cke.Join
	// Silent: the node does not answer.
	Silent bool
	// Node is to show which boot of it runs before anything is done, in a container of Image; an empty Image: it need not.
	Node  cke.Node
	Image string
}

var _ Operation = LeaseEntry{}

// Name implements Operation.
func (d LeaseEntry) Name() string {
	if d.Entry.Kind() == cke.RepairQueue {
		return "drain-for-repair"
	}
	return "drain-for-reboot"
}

// Targets implements Operation.
func (d LeaseEntry) Targets() []string { return []string{d.Entry.Node} }

// Stages implements Operation.
func (d LeaseEntry) Stages() []Stage {
	var stages []Stage
	if d.Image != "" {
		stages = append(stages, Stage{{Name: "boot", Node: d.Entry.Node, Limit: imageLimit, Run: func(ctx context.Context, e Env) error {
			_, err := bootOf(ctx, e, d.Node, d.Image)
			return err
		}}})
	}
	if d.Successor != nil {
		stages = append(stages, MoveLeader{Join: *d.Successor}.Stages()...)
	}
	if d.Drain != nil {
		stages = append(stages, d.Drain.Stages()...)
	}
	return append(stages, Stage{{Name: "record", Node: d.Entry.Node, Run: func(ctx context.Context, e Env) error {
		now := e.Now()
		return moveEntry(ctx, e, d.Entry, func(r *cke.Entry) {
			r.To(cke.EntryLeased, now)
			r.Silent = d.Silent
		})
	}}})
}

// bootOf reads which boot of a node runs.
func bootOf(ctx context.Context, e Env, n cke.Node, image string) (cke.Boot, error) {
	m := e.Machines.Machine(n)
	if err := m.EnsureImage(ctx, image, e.Progress); err != nil {
		return cke.Boot{}, err
	}
	return m.Boot(ctx, image)
}

// moveEntry changes an entry of the queue that is as it was seen.
func moveEntry(ctx context.Context, e Env, seen cke.Entry, do func(*cke.Entry)) error {
	return e.Ledger.EditQueue(ctx, seen.Kind(), func(q cke.Queue) (cke.Queue, error) { return q.Moved(seen, do) })
}

// RunEntry starts the command that reboots or repairs a node, or lets its agent reboot it. It does not wait for its end: what becomes of it is observed.
type RunEntry struct {
	Entry cke.Entry
	Node  cke.Node
	// Join is the membership on the node; nil: it carries none.
	Join *cke.Join
	// Command is its name in the daemon's configuration; empty: the agent of the machine reboots it. Limit is its deadline, Image one
	// that every node gets.
	Command, Image string
	Limit          time.Duration
	// Elsewhere are ids of foreign members that are known to be on other nodes; only where Join is nil.
	Elsewhere []string
	// Unleased: its member is not stopped for it.
	Unleased bool
	// Silent: nothing shows which boot of the node runs, since it does not answer or its agent reboots it.
	Silent bool
	// Ahead is how far the daemon's clock is ahead of the nodes', by which leases and pauses end.
	Ahead time.Duration
	// Again: the attempt is on record, and it is not known whether its command ran to its end. It gets as much time as the first time,
	// and so does Renew, its lease; nil: it has none.
	Again bool
	Renew *DrainNode
}

var _ Operation = RunEntry{}

// Name implements Operation.
func (r RunEntry) Name() string {
	if r.Entry.Kind() == cke.RepairQueue {
		return "repair-node"
	}
	return "reboot-node"
}

// Targets implements Operation.
func (r RunEntry) Targets() []string { return []string{r.Entry.Node} }

// Stages implements Operation.
func (r RunEntry) Stages() []Stage {
	n := r.Entry.Node
	command := Stage{{Name: "command", Node: n, Run: r.command}}
	if r.Again {
		return []Stage{{{Name: "renew", Node: n, Run: r.renew}}, command}
	}
	record := Stage{{Name: "record", Node: n, Limit: imageLimit, Run: r.record}}
	if r.Command == "" {
		return []Stage{record}
	}
	return []Stage{record, command}
}

// repairBootLimit is how long a machine that is to be repaired may take to show its boot. Else nothing is known of it.
const repairBootLimit = time.Minute

// record reads which boot of the node runs, and puts that and the attempt on record before the command is started.
func (r RunEntry) record(ctx context.Context, e Env) error {
	var before cke.Boot
	if !r.Silent {
		limited, cancel := context.WithTimeout(ctx, r.bootLimit())
		var err error
		before, err = bootOf(limited, e, r.Node, r.Image)
		cancel()
		if err != nil && (r.Entry.Kind() == cke.RebootQueue || ctx.Err() != nil) { // a machine that is to be repaired may not be able to
			return err
		}
	}
	if err := r.allowed(ctx, e, r.Entry.State); err != nil {
		return err
	}
	now := e.Now()
	return moveEntry(ctx, e, r.Entry, func(q *cke.Entry) {
		q.To(q.Kind().Acting(), now)
		q.Attempt, q.StartedAt, q.Boot = q.Attempt+1, q.Since, before
		q.CommandEndedAt, q.Error, q.Output = time.Time{}, "", ""
	})
}

// bootLimit bounds how long the node may take to show its boot.
func (r RunEntry) bootLimit() time.Duration {
	if r.Entry.Kind() == cke.RepairQueue {
		return repairBootLimit
	}
	return imageLimit
}

// renew gives the attempt and its lease their time once more: neither may end while the command runs.
func (r RunEntry) renew(ctx context.Context, e Env) error {
	err := r.allowed(ctx, e, r.Entry.State)
	if err == nil && r.Renew != nil {
		err = r.Renew.lease(ctx, e)
	}
	if err != nil {
		return err
	}
	now := e.Now().UTC()
	return moveEntry(ctx, e, r.Entry, func(q *cke.Entry) { q.StartedAt = now })
}

// command starts the command of the attempt that is on record. Nothing comes between the last look and its start.
func (r RunEntry) command(ctx context.Context, e Env) error {
	if e.Commands == nil {
		return &cke.Error{Code: cke.CodeCannot, What: "no command can be run here", Unchanged: true}
	}
	if err := r.allowed(ctx, e, r.Entry.Kind().Acting()); err != nil {
		return err
	}
	attempt := r.Entry.Attempt
	if !r.Again {
		attempt++
	} else if err := r.notRebooted(ctx, e); err != nil {
		return err
	}
	return e.Commands.StartCommand(ctx, cke.CommandRun{Name: r.Command, Entry: r.Entry.ID, Attempt: attempt, Cluster: e.Cluster, Node: r.Node, On: r.Entry.On, Limit: r.Limit})
}

// rebootedWithin bounds the look at the boot of a node whose command is started again; it may be down already.
const rebootedWithin = 10 * time.Second

// notRebooted refuses to start a command again if the node shows another boot by now: it counts as back from the next look on, and would
// go down once more.
func (r RunEntry) notRebooted(ctx context.Context, e Env) error {
	if r.Entry.Kind() != cke.RebootQueue || r.Silent || !r.Entry.Boot.Known() {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, rebootedWithin)
	defer cancel()
	if now, err := e.Machines.Machine(r.Node).Boot(limited, r.Image); err == nil && now.Known() && now != r.Entry.Boot {
		return fmt.Errorf("%s has rebooted: %w", r.Node.Name(), cke.ErrConflict)
	}
	return ctx.Err()
}

// allowed reports whether the node may go down: its entry is in this state and wanted, its lease lasts, and the others are a quorum
// without what is on the node.
func (r RunEntry) allowed(ctx context.Context, e Env, state cke.EntryState) error {
	asked, err := e.Ledger.Asked(ctx)
	if err != nil {
		return err
	}
	at := e.Now().Add(-r.Ahead)
	refused := func(code cke.Code, why string) error {
		return &cke.Error{Code: code, What: r.Entry.What() + " waits: " + why, Unchanged: true, Err: cke.ErrConflict}
	}
	now, there := asked.Entry(r.Entry.ID)
	switch {
	case !there || now.State != state:
		return fmt.Errorf("%s is no longer %s: %w", r.Entry.What(), state, cke.ErrConflict)
	case now.Canceled:
		return refused(cke.CodeCannot, "it is canceled")
	case asked.Queue(r.Entry.Kind()).Disabled:
		return refused(cke.CodeCannot, "its queue is disabled")
	case asked.Hold.Active(at):
		return refused(cke.CodeCannot, "the cluster is paused")
	}
	if r.Join != nil && !r.Unleased && !slices.ContainsFunc(asked.Drains, func(d cke.Drain) bool { return d.Entry == r.Entry.ID && d.Active(at) }) {
		return refused(cke.CodeDrain, "its lease is over")
	}
	list, id, err := readList(ctx, e)
	if err != nil {
		return err
	}
	if id.Freeze.HoldsQueued(now) {
		return refused(cke.CodeOlderStore, "it was in the store when that was found to be older than the cluster")
	}
	for _, o := range asked.Queued() { // a node that had no member as its turn came may have got one since
		for _, m := range list.members {
			if r.Join != nil && o.ID != r.Entry.ID && o.Active() && o.State != cke.EntryLeased && !m.Learner && m.At(o.Address) && !m.Of(*r.Join) {
				return refused(cke.CodeStranger, fmt.Sprintf("%s is %s, and member %s (%s) is on it", o.Node, o.State, m.Name, m.ID))
			}
		}
	}
	for _, m := range list.members {
		ours := slices.ContainsFunc(id.Joins, m.Of)
		switch {
		case m.At(r.Node.Address) && (r.Join == nil || !m.Of(*r.Join)):
			return refused(cke.CodeStranger, fmt.Sprintf("member %s (%s) is on it, which cke does not stop for it", m.Name, m.ID))
		case r.Join == nil && !ours && !m.Learner && !slices.Contains(r.Elsewhere, m.ID):
			return refused(cke.CodeStranger, fmt.Sprintf("foreign member %s (%s) may be on it", m.Name, m.ID))
		}
	}
	if r.Join != nil {
		return mayStop(ctx, e, *r.Join, false)
	}
	for _, j := range id.Joins {
		has, err := r.has(ctx, e, j)
		if err != nil {
			return err
		}
		if has {
			return refused(cke.CodeCannot, fmt.Sprintf("its member is on record at %s", j.Node.Address))
		}
	}
	return nil
}

// has reports whether the node has a membership that is on record at another address, or may have it since it does not answer.
func (r RunEntry) has(ctx context.Context, e Env, j cke.Join) (bool, error) {
	if j.Node.SameSerial(r.Node) {
		return true, nil
	}
	if r.Silent && r.Command != "" {
		return j.Node.Name() == r.Node.Name(), nil
	}
	_, err := e.Machines.Machine(r.Node).Container(ctx, j)
	if errors.Is(err, cke.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// NoteEntry puts on record how far the reboot or the repair of a node has come. It changes nothing on nodes.
type NoteEntry struct {
	Entry cke.Entry
	// To is its next state; empty: it keeps its state, or leaves the queue. Without To, Result and Ended only its lease is given back.
	To cke.EntryState
	// Result is how it leaves the queue; empty: it stays.
	Result cke.EntryResult
	// Release: it gives its lease back, so that its member is started again.
	Release bool
	// Why is what went wrong; empty: nothing did.
	Why string
	// NextStep: the next step of its procedure is its next one.
	NextStep bool
	// Cancel: it is watched to its end, and not attempted again, as one that an operator canceled.
	Cancel bool
	// Ended is how its command ended; nil: there is no news of that.
	Ended *cke.CommandEnd
}

var _ Operation = NoteEntry{}

// Name implements Operation.
func (n NoteEntry) Name() string {
	if n.Entry.Kind() == cke.RepairQueue {
		return "note-repair"
	}
	return "note-reboot"
}

// Targets implements Operation.
func (n NoteEntry) Targets() []string { return []string{n.Entry.Node} }

// Stages implements Operation.
func (n NoteEntry) Stages() []Stage {
	var stages []Stage
	if n.Release {
		stages = append(stages, Stage{{Name: "release", Node: n.Entry.Node, Run: n.release}})
	}
	if n.To != "" || n.Result != "" || n.Ended != nil || n.Cancel {
		stages = append(stages, Stage{{Name: "record", Node: n.Entry.Node, Run: n.record}})
	}
	return stages
}

// release ends the lease of the entry, and no other one. It goes first: killed before the record, it is repeated.
func (n NoteEntry) release(ctx context.Context, e Env) error {
	asked, err := e.Ledger.Asked(ctx)
	if err != nil {
		return err
	}
	for _, d := range asked.Drains {
		if d.Entry == n.Entry.ID {
			return e.Ledger.EndDrain(ctx, d.Node)
		}
	}
	return nil
}

func (n NoteEntry) record(ctx context.Context, e Env) error {
	now := e.Now()
	return e.Ledger.EditQueue(ctx, n.Entry.Kind(), func(q cke.Queue) (cke.Queue, error) {
		if n.Result != "" && n.To == "" {
			return q.Ended(n.Entry, n.Result, n.Why, now)
		}
		q, err := q.Moved(n.Entry, func(r *cke.Entry) {
			if n.To != "" {
				r.To(n.To, now)
				r.Error = n.Why
			}
			if n.NextStep {
				r.Step, r.Earlier = r.Step+1, r.Attempt
			}
			r.Canceled = r.Canceled || n.Cancel
			if n.Ended != nil {
				r.CommandEndedAt, r.Error, r.Output = n.Ended.At.UTC(), n.Ended.Error, n.Ended.StoredOutput()
			}
		})
		if err == nil && n.Result != "" {
			q = q.Counted(n.Result)
		}
		return q, err
	})
}
