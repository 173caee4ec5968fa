package take_test

import (
	"context"
	"sync/atomic"
	"testing"

	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// A member computes one hash for each full: while the snapshot arrives if the cluster is quiet, else once its revision is known.
func TestFull_AsksForOneHashAsSoonAsItCan(t *testing.T) {
	for name, busy := range map[string]bool{"quiet": false, "busy": true} {
		t.Run(name, func(t *testing.T) {
			s := etcdtest.Start(t, etcdtest.Options{})
			before := &taketest.Rig{T: t, Server: s}
			revision := before.Put("k", "v")
			var hashes atomic.Int32
			asked := make(chan struct{})
			var early atomic.Bool
			proxy := etcdtest.SlowProxy(t, s, func(ctx context.Context, method string, answers int) {
				switch method {
				case "/etcdserverpb.Maintenance/HashKV":
					if hashes.Add(1) == 1 {
						close(asked)
					}
				case "/etcdserverpb.Maintenance/Snapshot":
					if answers == 0 && busy {
						before.Put("k", "w")
					}
					if answers == 1 && !busy { // the rest of it waits
						select {
						case <-asked:
							early.Store(true)
						case <-ctx.Done():
						}
					}
				}
			})
			c := taketest.Config(s, backuptest.NewMemory())
			c.Endpoints = []string{proxy}
			h, err := take.Full(etcdtest.Context(t), c)
			if err != nil {
				t.Fatal(err)
			}
			if h.Last != revision || len(h.Hashes) != 1 || h.Hashes[0].Revision != revision {
				t.Errorf("full %+v, revision %d", h, revision)
			}
			if hashes.Load() != 1 || early.Load() == busy {
				t.Errorf("%d hashes were computed; while the snapshot arrived: %v", hashes.Load(), early.Load())
			}
		})
	}
}
