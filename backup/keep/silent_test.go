package keep_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"cke"
	"cke/backup/internal/etcdtest"
)

// Clients write, and the watch is open and brings nothing: the status must not say that all is stored.
func TestKeeper_ASilentWatchIsLag(t *testing.T) {
	h := newHouse(t)
	var silent atomic.Bool
	url := etcdtest.SlowProxy(t, h.etcd, func(ctx context.Context, method string, _ int) {
		if strings.HasSuffix(method, "/Watch") && silent.Load() {
			<-ctx.Done()
		}
	})
	h.config.Endpoint = func(cke.Join) string { return url }
	h.run().await("a full", hasFull)
	first := h.put("a")
	h.await("the delta", func(s *cke.BackupStatus) bool { return s.Revision >= first })
	silent.Store(true)
	last := h.put("b", "c", "d")
	h.await("the lag", func(s *cke.BackupStatus) bool {
		return s.LagRevisions == last-s.Revision && s.Lag > 0 && s.Revision < last
	})
}
