package op

import (
	"context"

	"cke"
)

// Refuse completes a task that cannot be done, and records why.
type Refuse struct {
	Task cke.Task
	// Why is what the record says; never nil.
	Why *cke.Error
}

var _ Operation = Refuse{}

// Name implements Operation.
func (r Refuse) Name() string { return string(r.Task.Kind) }

// Targets implements Operation.
func (r Refuse) Targets() []string { return targetOf(r.Task) }

// Stages implements Operation.
func (r Refuse) Stages() []Stage {
	return []Stage{{{Name: "check", Node: r.Task.Node, Run: func(context.Context, Env) error { return r.Why }}}}
}

// Settled completes a task of which all is done already.
type Settled struct{ Task cke.Task }

var _ Operation = Settled{}

// Name implements Operation.
func (s Settled) Name() string { return string(s.Task.Kind) }

// Targets implements Operation.
func (s Settled) Targets() []string { return targetOf(s.Task) }

// Stages implements Operation: there is nothing to do.
func (Settled) Stages() []Stage { return nil }

func targetOf(t cke.Task) []string {
	if t.Node == "" {
		return nil
	}
	return []string{t.Node}
}
