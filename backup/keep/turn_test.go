package keep_test

import (
	"testing"

	"golang.org/x/sync/semaphore"

	"cke"
)

// A drill of another cluster takes hours, and this one is due for a merge. What lies beside its backups is kept up meanwhile.
func TestKeeper_PutsFilesBesideTheBackupsWhileItWaitsForItsTurn(t *testing.T) {
	h := newHouse(t)
	h.config.Turn = semaphore.NewWeighted(1)
	if err := h.config.Turn.Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	h.wanted.Spec.Cluster.Backup.Compaction.Events = 2
	h.run().await("both files", func(s *cke.BackupStatus) bool { return hasFull(s) && len(h.lineage("life1").Files) == 2 })
	last := h.put("a", "b", "c")
	h.await("the deltas", func(s *cke.BackupStatus) bool { return s.Revision >= last })
	h.wanted.Spec.Source, h.wanted.Spec.Generation = "name: prod # changed\n", 2
	h.keeper.Update(h.wanted)
	h.await("the changed file", func(*cke.BackupStatus) bool { return len(h.lineage("life1").Files) > 2 })
	h.config.Turn.Release(1)
	h.await("the merge", func(*cke.BackupStatus) bool { return len(h.lineage("life1").Fulls) > 1 })
}
