package op

import (
	"context"
	"fmt"
	"time"

	"cke"
)

// DrainForReboot gives a node of the reboot queue its lease and stops its member, and records that its command is next.
type DrainForReboot struct {
	Reboot cke.Reboot
	// Drain gives the node its lease; nil: it carries no member and needs none.
	Drain *DrainNode
	// Successor is to lead in place of the node's member; nil: whichever has come furthest.
	Successor *cke.Join
}

var _ Operation = DrainForReboot{}

// Name implements Operation.
func (DrainForReboot) Name() string { return "drain-for-reboot" }

// Targets implements Operation.
func (d DrainForReboot) Targets() []string { return []string{d.Reboot.Node} }

// Stages implements Operation.
func (d DrainForReboot) Stages() []Stage {
	var stages []Stage
	if d.Successor != nil {
		stages = append(stages, MoveLeader{Join: *d.Successor}.Stages()...)
	}
	if d.Drain != nil {
		stages = append(stages, d.Drain.Stages()...)
	}
	return append(stages, Stage{{Name: "record", Node: d.Reboot.Node, Run: func(ctx context.Context, e Env) error {
		now := e.Now()
		return moveReboot(ctx, e, d.Reboot, func(r *cke.Reboot) { r.To(cke.RebootLeased, now) })
	}}})
}

// moveReboot changes an entry of the queue that is as it was seen.
func moveReboot(ctx context.Context, e Env, seen cke.Reboot, do func(*cke.Reboot)) error {
	return e.Ledger.EditReboots(ctx, func(q cke.Reboots) (cke.Reboots, error) { return q.Moved(seen, do) })
}

// RunReboot starts the command that reboots a node. It does not wait for its end: what becomes of it is observed.
type RunReboot struct {
	Reboot cke.Reboot
	Node   cke.Node
	// Join is the membership on the node; nil: it carries none.
	Join *cke.Join
	// Command is its name in the daemon's configuration, Limit its deadline, Image one that every node gets.
	Command, Image string
	Limit          time.Duration
	// Silent: the node does not answer, so nothing shows which boot of it runs.
	Silent bool
	// Again: the attempt is on record, and it is not known whether its command ran to its end.
	Again bool
}

var _ Operation = RunReboot{}

// Name implements Operation.
func (RunReboot) Name() string { return "reboot-node" }

// Targets implements Operation.
func (r RunReboot) Targets() []string { return []string{r.Reboot.Node} }

// Stages implements Operation.
func (r RunReboot) Stages() []Stage {
	n := r.Reboot.Node
	command := Stage{{Name: "command", Node: n, Run: r.command}}
	if r.Again {
		return []Stage{command}
	}
	return []Stage{{{Name: "record", Node: n, Limit: imageLimit, Run: r.record}}, command}
}

// record reads which boot of the node runs, and puts that and the attempt on record before the command is started.
func (r RunReboot) record(ctx context.Context, e Env) error {
	var before cke.Boot
	if !r.Silent {
		m := e.Machines.Machine(r.Node)
		err := m.EnsureImage(ctx, r.Image, e.Progress)
		if err == nil {
			before, err = m.Boot(ctx, r.Image)
		}
		if err != nil {
			return err
		}
	}
	if err := r.allowed(ctx, e); err != nil {
		return err
	}
	now := e.Now()
	return moveReboot(ctx, e, r.Reboot, func(q *cke.Reboot) {
		q.To(cke.RebootRebooting, now)
		q.Attempt, q.StartedAt, q.Boot = q.Attempt+1, q.Since, before
		q.CommandEndedAt, q.Error, q.Output = time.Time{}, "", ""
	})
}

// command starts the command of the attempt that is on record. Nothing comes between the last look and its start.
func (r RunReboot) command(ctx context.Context, e Env) error {
	asked, err := e.Ledger.Asked(ctx)
	if err != nil {
		return err
	}
	now, there := asked.Reboots.Entry(r.Reboot.ID)
	switch {
	case !there || now.State != cke.RebootRebooting:
		return fmt.Errorf("%s is no longer to be rebooted: %w", r.Reboot.Node, cke.ErrConflict)
	case e.Commands == nil:
		return &cke.Error{Code: cke.CodeCannot, What: "no command can be run here", Unchanged: true}
	}
	if err := r.allowed(ctx, e); err != nil {
		return err
	}
	return e.Commands.StartCommand(ctx, cke.CommandRun{Name: r.Command, Reboot: now.ID, Attempt: now.Attempt, Cluster: e.Cluster, Node: r.Node, Limit: r.Limit})
}

// allowed reports whether the node may go down: its lease lasts, and the others are a quorum without its member.
func (r RunReboot) allowed(ctx context.Context, e Env) error {
	asked, err := e.Ledger.Asked(ctx)
	if err != nil {
		return err
	}
	if asked.Hold.Active(e.Now()) {
		return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("%s is not rebooted: the cluster is paused", r.Reboot.Node), Unchanged: true, Err: cke.ErrConflict}
	}
	if r.Join == nil {
		return nil
	}
	for _, d := range asked.Drains {
		if d.Reboot == r.Reboot.ID && d.Active(e.Now()) {
			return mayStop(ctx, e, *r.Join, false)
		}
	}
	return &cke.Error{Code: cke.CodeDrain, What: fmt.Sprintf("the lease of %s is over", r.Reboot.Node), Unchanged: true, Err: cke.ErrConflict}
}

// NoteReboot puts on record how far the reboot of a node has come. It changes nothing on nodes.
type NoteReboot struct {
	Reboot cke.Reboot
	// To is its next state; empty: it keeps its state, or leaves the queue.
	To cke.RebootState
	// Result is how it leaves the queue; empty: it stays.
	Result cke.RebootResult
	// Release: it gives its lease back, so that its member is started again.
	Release bool
	// Why is what went wrong; empty: nothing did.
	Why string
	// Ended is how its command ended; nil: there is no news of that.
	Ended *cke.CommandEnd
}

var _ Operation = NoteReboot{}

// Name implements Operation.
func (NoteReboot) Name() string { return "note-reboot" }

// Targets implements Operation.
func (n NoteReboot) Targets() []string { return []string{n.Reboot.Node} }

// Stages implements Operation.
func (n NoteReboot) Stages() []Stage {
	record := Stage{{Name: "record", Node: n.Reboot.Node, Run: n.record}}
	if !n.Release {
		return []Stage{record}
	}
	return []Stage{{{Name: "release", Node: n.Reboot.Node, Run: n.release}}, record}
}

// release ends the lease of the entry, and no other one. It goes first: killed before the record, it is repeated.
func (n NoteReboot) release(ctx context.Context, e Env) error {
	asked, err := e.Ledger.Asked(ctx)
	if err != nil {
		return err
	}
	for _, d := range asked.Drains {
		if d.Reboot == n.Reboot.ID {
			return e.Ledger.EndDrain(ctx, d.Node)
		}
	}
	return nil
}

func (n NoteReboot) record(ctx context.Context, e Env) error {
	now := e.Now()
	return e.Ledger.EditReboots(ctx, func(q cke.Reboots) (cke.Reboots, error) {
		if n.Result != "" && n.To == "" {
			return q.Ended(n.Reboot, n.Result, n.Why, now)
		}
		q, err := q.Moved(n.Reboot, func(r *cke.Reboot) {
			if n.To != "" {
				r.To(n.To, now)
				r.Error = n.Why
			}
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
