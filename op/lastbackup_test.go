package op_test

import (
	"fmt"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// A target that does not find what it lists fails like any other: a change that could cost data waits where the backups are not fresh.
func TestLastBackup_AnObjectThatIsNotFoundIsNoMissingTarget(t *testing.T) {
	status := sound()
	status.Lost = &cke.BackupTrouble{Code: cke.CodeLostBackups, Message: "lost"}
	status.Connected, status.LagRevisions, status.Lag = false, 1000, 3600
	b := &fakeBackups{status: status, err: &cke.Error{Code: cke.CodeTarget, What: "it is not known that all earlier backups are still in the target",
		Err: fmt.Errorf("read the target: %w", fmt.Errorf("open prod/a1b2/delta/…: %w", cke.ErrNotFound))}}
	runWith(t, b, lastOnly{}, func(r cke.Record, _ time.Duration, err error) {
		if cke.CodeOf(err) != cke.CodeStaleBackup {
			t.Errorf("%v; %+v", err, r.Steps)
		}
	})
}

// lastOnly is an operation that has only the last backup.
type lastOnly struct{}

func (lastOnly) Name() string       { return "last-only" }
func (lastOnly) Targets() []string  { return nil }
func (lastOnly) Stages() []op.Stage { return []op.Stage{op.LastBackup()} }
func (lastOnly) Traits() op.Traits  { return op.Traits{} }
