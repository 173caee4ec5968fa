package keep_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"filippo.io/age"

	"cke"
	"cke/backup/backuptest"
)

// Somebody who may create objects, and has no key, puts many small files where records are kept. They cost no request each before anything is backed up.
func TestKeeper_ForgedRecordsHoldNothingUp(t *testing.T) {
	h := newHouse(t)
	id := newKey(t)
	h.config.Identity = func(context.Context) (age.Identity, error) { return id, nil }
	var asked atomic.Int32
	h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(_ context.Context, op, name string) error {
		for _, kind := range []string{"verified", "failed", "diverged"} {
			if op == "open" && strings.Contains(name, "/signatures/"+kind+"-") {
				asked.Add(1)
			}
		}
		return nil
	}}
	h.run().await("a full", hasFull)
	h.stop()
	const n = 500
	for _, kind := range []string{"verified", "failed", "diverged"} {
		for i := range n {
			h.memory.Set(fmt.Sprintf("prod/life1/%s/99991231T235959.%03dZ-%064x", kind, i%1000, i), []byte("{}"))
		}
	}
	asked.Store(0)
	h.run().await("the watch to begin", func(s *cke.BackupStatus) bool { return hasFull(s) && s.Known })
	last := h.put("a")
	h.await("the delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
	if asked.Load() > n/5 {
		t.Errorf("%d requests for %d forged files before the first change was stored", asked.Load(), 3*n)
	}
}
