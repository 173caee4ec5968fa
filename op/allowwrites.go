package op

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cke"
)

// AllowWrites allows clients of the incarnation before to write again after a restore was cut off while their writes
// were stopped. Its recorded last revision no longer counts; the restore stops the writes again when it continues.
type AllowWrites struct {
	// Incarnation is the one that is restoring.
	Incarnation string
	// Fence are the memberships of the incarnation before that answer.
	Fence []cke.Join
	// Alarms are the observed ones that stop writes, including those of a restore that was called off before this one.
	Alarms []cke.Alarm
}

var _ Operation = AllowWrites{}

// Name implements Operation.
func (AllowWrites) Name() string { return "allow-writes" }

// Targets implements Operation.
func (AllowWrites) Targets() []string { return nil }

// Stages implements Operation.
func (a AllowWrites) Stages() []Stage {
	return []Stage{{{Name: "disarm", Limit: 3 * DefaultStepLimit, Run: a.disarm}}}
}

func (a AllowWrites) disarm(ctx context.Context, e Env) error {
	id, err := Restore{Incarnation: a.Incarnation}.restoring(ctx, e)
	if err != nil {
		return err
	}
	if id.Started() {
		return fmt.Errorf("the restored members may have been started: %w", cke.ErrConflict)
	}
	inc := *id.Incarnation
	urls, err := allServingBefore(ctx, e, a.Fence, *inc.Restore)
	if err != nil {
		return err // nobody can write, and the last revision stands
	}
	if err := recordWrites(ctx, e, inc, true, 0); err != nil {
		return err
	}
	stops := slices.Clone(a.Alarms)
	for i := &inc; i != nil && i.State == cke.Restoring; i = i.Restore.Before { // one whose place it takes may have stopped them too
		for n := range i.Restore.Stops {
			if stop := cke.WriteStop(i.ID, n+1); !slices.Contains(stops, stop) {
				stops = append(stops, stop)
			}
		}
	}
	var failed []error
	for _, url := range urls { // one that continued alone has a log of its own
		for _, stop := range stops {
			if err := e.Etcd.Disarm(ctx, url, stop); err != nil {
				failed = append(failed, fmt.Errorf("allow clients to write: %w", err))
				break
			}
		}
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return recordWrites(ctx, e, inc, false, 0)
}
