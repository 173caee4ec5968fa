package keep_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// storeDeltas stores some deltas after a full, one after the other.
func (h *house) storeDeltas() (last int64) {
	h.Helper()
	h.run().await("a full", hasFull)
	for range 4 {
		last = h.put("a", "b")
		h.await("a delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
	}
	return last
}

// loseDelta removes a delta that is not the newest one.
func (h *house) loseDelta() {
	h.Helper()
	all, err := h.memory.List(h.Context(), "prod/life1/delta/")
	if err != nil || len(all) < 3 {
		h.Fatal(all, err)
	}
	h.memory.Delete(h.Context(), all[len(all)/2].Name)
}

// A restore asks for this last: that all is stored. A delta that is not the newest one has just disappeared.
func TestKeeper_FlushFailsIfADeltaInTheMiddleIsMissing(t *testing.T) {
	h := newHouse(t)
	h.storeDeltas()
	h.loseDelta()
	last := h.put("c")
	if d, err := h.keeper.Flush(etcdtest.Context(t)); err == nil {
		_, missing := h.store().Find(t.Context(), backup.At{Revision: last})
		t.Errorf("stored, it says: %+v; but: %v", d, missing)
	}
	h.await("the full that makes up for it", func(s *cke.BackupStatus) bool { return s.Lost != nil && hasFull(s) && well(s) && s.Revision >= last })
	if _, err := h.keeper.Flush(etcdtest.Context(t)); err != nil {
		t.Error(err)
	}
	if found, err := h.store().Find(t.Context(), backup.At{}); err != nil || found.Revision < last {
		t.Errorf("%+v, %v", found, err)
	}
}

// A target with many objects takes longer to list than to probe: what is missing is noticed all the same.
func TestKeeper_ListsATargetThatTakesLong(t *testing.T) {
	h := newHouse(t)
	h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(ctx context.Context, op, name string) error {
		if end, limited := ctx.Deadline(); limited && time.Until(end) < time.Minute && op == "list" && name == "prod/" {
			return context.DeadlineExceeded
		}
		return nil
	}}
	h.storeDeltas()
	h.loseDelta()
	h.ahead.Add(int64(11 * time.Minute))
	h.await("the loss to be noticed, and a full", func(s *cke.BackupStatus) bool { return s.Lost != nil && hasFull(s) && well(s) })
}

// While the target cannot be listed, it is not known whether anything is missing.
func TestKeeper_ReportsThatTheTargetCannotBeListed(t *testing.T) {
	h := newHouse(t)
	var refused atomic.Bool
	h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(_ context.Context, op, name string) error {
		if refused.Load() && op == "list" && name == "prod/" {
			return errors.New("503 slow down")
		}
		return nil
	}}
	h.storeDeltas()
	refused.Store(true)
	h.ahead.Add(int64(11 * time.Minute))
	s := h.await("the trouble", func(s *cke.BackupStatus) bool { return s.Trouble("list") != nil })
	if tr := s.Trouble("list"); tr.Code != cke.CodeTarget || !strings.Contains(tr.Message, "503 slow down") {
		t.Errorf("%+v", tr)
	}
	if d, err := h.keeper.Flush(etcdtest.Context(t)); err == nil {
		t.Errorf("stored, it says, and could not list what is there: %+v", d)
	}
	refused.Store(false)
	h.ahead.Add(int64(11 * time.Minute))
	h.await("its end", func(s *cke.BackupStatus) bool { return s.Trouble("list") == nil })
}
