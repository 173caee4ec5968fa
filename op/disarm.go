package op

import (
	"context"
	"fmt"

	"cke"
)

// Disarm clears active alarms of etcd. If the cause remains, etcd raises the alarm again.
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

// disarm clears one alarm; one that is off already is no error.
func disarm(ctx context.Context, e Env, a cke.Alarm) error {
	all := a.StopsWrites() // one that continued alone has a log of its own
	if err := through(ctx, e, all, func(url string) error { return e.Etcd.Disarm(ctx, url, a) }); err != nil {
		return fmt.Errorf("no member clears the alarm: %w", err)
	}
	return nil
}
