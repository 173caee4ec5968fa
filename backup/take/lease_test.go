package take_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"cke"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// A management host is 50 ms away from the members, and there are 4,000 leases: the first list of leases does not come to an end in time. The next one goes
// on from there, so that not each delta is followed by a full.
func TestTaker_ManyLeasesOverASlowLineMakeOneFull(t *testing.T) {
	if testing.Short() {
		t.Skip("lists leases for longer than a list may take")
	}
	s := etcdtest.Start(t, etcdtest.Options{})
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(64)
	for range 4000 {
		g.Go(func() error { _, err := s.Client.Grant(ctx, 7200); return err })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	url := etcdtest.SlowProxy(t, s, func(ctx context.Context, method string, _ int) {
		if !strings.HasSuffix(method, "/Watch") && !strings.HasSuffix(method, "/Snapshot") {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	c := taketest.Config(s, backuptest.NewMemory())
	c.Endpoints = []string{url}
	c.Delta = cke.BackupDelta{Period: cke.Duration(100 * time.Millisecond), Size: 1 << 20}
	r := taketest.Start(t, s, c)
	r.Await(take.FullStored)
	fulls := 0
	for i := range 3 {
		r.Put(fmt.Sprint("k", i), "v")
		for deadline := time.After(30 * time.Second); ; {
			var e take.Event
			select {
			case e = <-r.Events:
			case <-deadline:
			}
			if e.Type == take.FullStored {
				fulls++
			}
			if e.Type == take.FullStored || e.Type == "" {
				break
			}
			t.Log(e.Type, e.Err)
			if e.Type == take.DeltaStored && e.Header.Leases == 0 {
				deadline = time.After(5 * time.Second)
			}
		}
	}
	if fulls > 1 {
		t.Errorf("%d fulls for 3 changes: %+v", fulls, r.Taker.Status())
	}
}
