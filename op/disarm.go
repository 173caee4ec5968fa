package op

import (
	"context"
	"errors"
	"fmt"

	"cke"
)

// Disarm takes active alarms of etcd back. One whose cause lasts is raised again by etcd.
type Disarm struct{ Alarms []cke.Alarm }

var _ Operation = Disarm{}

// Name implements Operation.
func (Disarm) Name() string { return "disarm" }

// Targets implements Operation.
func (Disarm) Targets() []string { return nil }

// Stages implements Operation.
func (d Disarm) Stages() []Stage {
	var all []Stage
	for _, a := range d.Alarms {
		all = append(all, Stage{{Name: "disarm " + a.Kind, Run: func(ctx context.Context, e Env) error { return disarm(ctx, e, a) }}})
	}
	return all
}

// disarm asks one member after the other until one has done it; an alarm that is off already is no error.
func disarm(ctx context.Context, e Env, a cke.Alarm) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, j := range id.Joins {
		err := e.Etcd.Disarm(ctx, j.ClientURL(), a)
		if err == nil {
			return nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", j.Node.Name(), err))
	}
	return fmt.Errorf("no member takes the alarm back: %w", errors.Join(failed...))
}
