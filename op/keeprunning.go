package op

import (
	"context"

	"cke"
)

// KeepRunning lets the engines start members by themselves after a crash and after a reboot. It stops and starts nobody.
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
			return e.Machines.Machine(j.Node).KeepRunning(ctx, j)
		}}))
	}
	return []Stage{keep}
}
