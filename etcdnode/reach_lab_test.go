package etcdnode_test

import (
	"context"
	"sync"
	"testing"

	"cke"
)

// An engine before 23.0 deletes the data in a volume where its container is removed while somebody looks into it.
func TestMachine_LooksBesideARemovalCostNoData(t *testing.T) {
	r := newRig(t, 1, nil)
	inc := r.bootstrap(t)
	j, ctx := inc.Founders[0], t.Context()
	m := r.Machine(j.Node)
	must(t, m.StopContainer(ctx, j, 0))
	for i := range 120 {
		looking, end := context.WithCancel(ctx)
		var looks sync.WaitGroup
		for range 16 {
			looks.Go(func() {
				for looking.Err() == nil {
					_, _ = m.Data(ctx, j)
					_, _, _ = m.Certificates(ctx, j)
				}
			})
		}
		err := m.RemoveContainer(ctx, j)
		end()
		looks.Wait()
		must(t, err)
		must(t, m.EnsureContainer(ctx, r.spec(inc, j, cke.StartOwnData)))
		if data, err := m.Data(ctx, j); err != nil || data != cke.DataPresent {
			t.Fatalf("after removal %d: %q, %v", i+1, data, err)
		}
	}
	must(t, m.StartContainer(ctx, j))
	r.awaitServing(t, j)
}
