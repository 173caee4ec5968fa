package keep_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/backup"
)

// What a disk has written wrong shows only when it is read. In a directory no full is read back when it is stored, so one is read before others are deleted on
// its account, also by the process that has stored it.
func TestKeeper_ReadsAFullInADirectoryBeforeItPrunesOnItsAccount(t *testing.T) {
	h := newHouse(t)
	dir := t.TempDir()
	h.target = backup.Dir(dir)
	var busy atomic.Bool
	busy.Store(true)
	h.config.Ordered = func(context.Context) error {
		if busy.Load() {
			return backup.ErrBusy
		}
		return nil
	}
	h.wanted.Spec.Cluster.Backup.Retention = cke.Retention{Last: 1}
	first := h.run().await("a full", hasFull).Full.ID
	h.put("a")
	h.full()
	file := func(id string) string {
		lineage, name := filepath.Split(id)
		return filepath.Join(dir, "prod", lineage, "full", name+".cke")
	}
	second := h.await("the second full", func(s *cke.BackupStatus) bool { return s.Full.ID != first }).Full.ID
	data, err := os.ReadFile(file(second))
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(file(second), data, 0o600); err != nil {
		t.Fatal(err)
	}
	busy.Store(false)
	h.ahead.Add(int64(2 * time.Minute))
	h.put("b")
	gone := func() bool { _, err := os.Stat(file(first)); return os.IsNotExist(err) }
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && h.keeper.Status().Trouble("prune") == nil; time.Sleep(10 * time.Millisecond) {
		if gone() {
			t.Fatalf("full %s was deleted on account of %s, which is damaged and was never read", first, second)
		}
	}
	if h.keeper.Status().Trouble("prune") == nil {
		t.Error("the damage is not reported")
	}
}
