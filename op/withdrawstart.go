package op

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"cke"
)

// WithdrawStart withdraws the start of restored members that is on record, while none of them ever ran, so that the recovery can be
// canceled. The record comes last: until then another one may continue from any step.
type WithdrawStart struct {
	// Incarnation is the one that is restoring.
	Incarnation string
	// Founders are its memberships whose nodes answer: those of the others could not have a quorum.
	Founders []cke.Join
}

var _ Operation = WithdrawStart{}

// Name implements Operation.
func (WithdrawStart) Name() string { return "withdraw-start" }

// Targets implements Operation.
func (t WithdrawStart) Targets() []string { return joinNames(t.Founders) }

// Stages implements Operation.
func (t WithdrawStart) Stages() []Stage {
	r := Restore{Incarnation: t.Incarnation, Founders: t.Founders}
	return nonEmpty(r.each("empty-certificates", 0, emptyCertificates), Stage{{Name: "record-not-started", Run: func(ctx context.Context, e Env) error {
		id, err := r.restoring(ctx, e)
		if err != nil || !id.Started() {
			return err
		}
		joins := slices.Clone(id.Joins)
		for i := range joins {
			joins[i].StartedAt = time.Time{}
		}
		return e.Ledger.PutJoins(ctx, id, joins...)
	}}})
}

// emptyCertificates lets a restored member that never ran serve no client: a start that was requested before and lands late ends at once,
// because etcd does not start with empty certificates. Without files no start was requested yet.
func emptyCertificates(ctx context.Context, e Env, inc cke.Incarnation, j cke.Join) error {
	if err := neverRan(ctx, e, inc, j); err != nil {
		return err
	}
	m := e.Machines.Machine(j.Node)
	files, _, err := m.Certificates(ctx, j)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return nil
	}
	empty := slices.Clone(files)
	for i := range empty {
		empty[i].Data = nil
	}
	if err := m.PutFiles(ctx, j, empty); err != nil {
		return err
	}
	if err := neverRan(ctx, e, inc, j); err != nil { // it may serve, and needs them
		return errors.Join(err, m.PutFiles(ctx, j, files))
	}
	return nil
}

func neverRan(ctx context.Context, e Env, inc cke.Incarnation, j cke.Join) error {
	c, err := e.Machines.Machine(j.Node).Container(ctx, j)
	if err == nil && !inc.Restore.NeverRan(c) {
		err = fmt.Errorf("container %s on %s may have run: %w", c.Name, j.Node.Name(), cke.ErrConflict)
	}
	return err
}

// recordPrepared stores which containers the restored members are about to be started with: as long as none of them ran, the start of a
// recovery can be withdrawn. A restore from backups gives up what clients write until its members serve.
func (r Restore) recordPrepared(ctx context.Context, e Env, id cke.Identity) (cke.Identity, error) {
	if id.Incarnation.Restore.Order.Survivor == "" {
		return id, nil
	}
	prepared := map[cke.JoinID]string{}
	for _, f := range r.Founders {
		c, err := e.Machines.Machine(f.Node).Container(ctx, f)
		if err != nil {
			return id, err
		}
		if !c.EverRan() {
			prepared[f.ID] = c.ID
		}
	}
	if maps.Equal(prepared, id.Incarnation.Restore.Prepared) {
		return id, nil
	}
	inc, rest := *id.Incarnation, *id.Incarnation.Restore
	rest.Prepared, inc.Restore = prepared, &rest
	if err := e.Ledger.UpdateIncarnation(ctx, inc); err != nil {
		return id, err
	}
	return r.restoring(ctx, e)
}
