package op

import (
	"context"
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

// disarm takes one alarm back; one that is off already is no error.
func disarm(ctx context.Context, e Env, a cke.Alarm) error {
	if err := throughAny(ctx, e, func(url string) error { return e.Etcd.Disarm(ctx, url, a) }); err != nil {
		return fmt.Errorf("no member takes the alarm back: %w", err)
	}
	return nil
}
