package keep_test

import (
	"context"
	"errors"
	"testing"

	"cke"
	"cke/backup/backuptest"
)

// The credentials may create and must not delete, as docs/security.md recommends.
func TestKeeper_WorksOnATargetThatLetsNothingBeDeleted(t *testing.T) {
	h := newHouse(t)
	h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(_ context.Context, op, _ string) error {
		if op == "delete" {
			return errors.New("api error AccessDenied: Access Denied")
		}
		return nil
	}}
	h.run().await("a full", hasFull)
	for range 2 {
		last := h.put("a")
		if _, err := h.keeper.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		h.await("no problem", func(s *cke.BackupStatus) bool { return s.Problem == nil && s.Revision >= last })
	}
	if list, err := h.memory.List(t.Context(), ".target/probe-"); err != nil || len(list) > 1 {
		t.Errorf("%d probes, %v", len(list), err)
	}
}
