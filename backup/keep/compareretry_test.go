package keep_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/backup/backuptest"
)

// A deletion waits for the comparison with what lies beside the backups. The target did not show that for hours: once it does, it is compared soon.
func TestKeeper_ComparesSoonAfterTheTargetAnswersAgain(t *testing.T) {
	h, set, _ := besideHouse(t)
	set(identityOf(nil, "j1", "j2"))
	h.run().await("a full", hasFull)
	h.stop()
	var silent atomic.Bool
	var failed atomic.Int64
	silent.Store(true)
	h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(_ context.Context, op, name string) error {
		if silent.Load() && op == "list" && strings.Contains(name, "/identity") {
			failed.Add(1)
			return errors.New("503 slow down")
		}
		return nil
	}}
	looks := 0
	later := func(by time.Duration) {
		looks++
		h.ahead.Add(int64(by))
		h.wanted.Spec.Source = "name: prod # " + strings.Repeat("x", looks) + "\n"
		h.keeper.Update(h.wanted)
	}
	h.wanted.Idle = "frozen" // nothing else reads what lies there
	h.run()
	h.until("a failure", func() bool { return failed.Load() > 0 })
	for range 6 {
		was := failed.Load()
		later(time.Hour)
		h.until("one more failure", func() bool { return failed.Load() > was })
	}
	silent.Store(false)
	later(30 * time.Second)
	h.await("the comparison", func(s *cke.BackupStatus) bool { return s.Compared })
}
