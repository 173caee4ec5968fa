package op

import (
	"context"
	"errors"

	"cke"
)

// KeepRunning lets the engines start members by themselves after a crash and after a reboot. It stops and starts no
// member.
type KeepRunning struct{ Joins []cke.Join }

var _ Operation = KeepRunning{}

// Name implements Operation.
func (KeepRunning) Name() string { return "keep-running" }

// Targets implements Operation.
func (k KeepRunning) Targets() []string { return joinNames(k.Joins) }

// Stages implements Operation.
func (k KeepRunning) Stages() []Stage {
	var keep Stage
	for _, j := range k.Joins {
		keep = append(keep, only(isFormed, Step{Name: "keep-running", Node: j.Node.Name(), Run: func(ctx context.Context, e Env) error {
			return keepRunning(ctx, e, j)
		}}))
	}
	return []Stage{keep}
}

// keepRunning lets the engine start a member by itself. A container that could start it empty, as an earlier version of cke made
// them, stays down instead after a crash until cke has made another one.
func keepRunning(ctx context.Context, e Env, j cke.Join) error {
	m := e.Machines.Machine(j.Node)
	err := m.KeepRunning(ctx, j)
	if errors.Is(err, cke.ErrConflict) {
		if c, lookErr := m.Container(ctx, j); lookErr == nil && c.StartsEmpty {
			return nil
		}
	}
	return err
}
