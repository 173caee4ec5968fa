package keep_test

import (
	"context"
	"syscall"
	"testing"

	"filippo.io/age"

	"cke"
	"cke/backup/backuptest"
)

// The first sector of an old full cannot be read any more, or a rule of the store has moved it to an archive. A daemon that starts to lead continues the
// backups: the newest full leads to all that is new.
func TestKeeper_OneOldFullThatIsRefusedStopsNoBackups(t *testing.T) {
	h := newHouse(t)
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	h.config.Identity = func(context.Context) (age.Identity, error) { return id, nil }
	h.storeDeltas()
	old := h.keeper.Status().Full.ID
	h.full()
	h.await("another full", func(s *cke.BackupStatus) bool { return s.Full.ID != old })
	fulls, err := h.memory.List(t.Context(), "prod/life1/full/")
	if err != nil || len(fulls) != 2 {
		t.Fatal(fulls, err)
	}
	h.stop()
	h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(_ context.Context, op, name string) error {
		if op == "open" && name == fulls[0].Name {
			return syscall.EIO
		}
		return nil
	}}
	last := h.put("x")
	h.run().await("the change", func(s *cke.BackupStatus) bool { return hasFull(s) && s.Revision >= last && s.Lost == nil })
}
