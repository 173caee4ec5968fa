package keep_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"cke"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// ErrNoTarget says that the cluster file declares no target: op.LastBackup continues then.
func TestKeeper_ATargetThatDoesNotFindWhatItListsIsNoMissingTarget(t *testing.T) {
	h := newHouse(t)
	const former = "prod/life0/delta/00000000000000000002/0000000000-00000000000000000002.cke"
	h.memory.Set(former, []byte("of a former incarnation"))
	var lost atomic.Bool
	h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(_ context.Context, op, name string) error {
		if lost.Load() && op == "open" && name == former {
			return cke.ErrNotFound
		}
		return nil
	}}
	h.storeDeltas()
	lost.Store(true)
	h.put("c")
	d, err := h.keeper.Flush(etcdtest.Context(t))
	if err == nil || errors.Is(err, cke.ErrNoTarget) || errors.Is(err, cke.ErrNotFound) {
		t.Errorf("%+v, %v", d, err)
	}
}
