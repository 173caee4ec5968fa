package storage

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// lateWatcher delivers what a watch brings late, as a follower does that has not applied it yet.
type lateWatcher struct {
	clientv3.Watcher
	by time.Duration
}

func (l lateWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	in, out := l.Watcher.Watch(ctx, key, opts...), make(chan clientv3.WatchResponse)
	go func() {
		defer close(out)
		for r := range in {
			select {
			case <-time.After(l.by):
			case <-ctx.Done():
				return
			}
			select {
			case out <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// A watch on a member that lags brings changes late: no term ends for it.
func TestStore_ALateWatchEndsNoTerm(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	root := t.TempDir()
	e := plainEtcd(t, filepath.Join(root, "etcd"), addr)
	t.Cleanup(e.Close) // after the stores, whose farewells it answers
	c := Config{Endpoints: []string{"http://" + addr}, Prefix: "/cke/", SecretKeyFile: filepath.Join(root, "secret.key"), SessionTTL: 20 * time.Second, Patience: 2 * time.Second}
	s, other := openStore(t, c), openStore(t, c)
	s.period = 500 * time.Millisecond
	setCluster(t, s, "prod")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	term, err := s.Campaign(ctx, "prod", "h1")
	if err != nil {
		t.Fatal(err)
	}
	s.client.Watcher = lateWatcher{s.client.Watcher, 4 * s.period}
	states := s.WatchCluster(ctx, "prod")
	<-states
	go func() {
		for range states {
		}
	}()
	if err := other.AddTask(ctx, "prod", cke.NewTask(cke.TaskCompare, "", "", "eve@here", time.Now())); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	select {
	case <-term.Done():
		t.Errorf("the term ended %s after a change that the watch brings late; the store never went back", time.Since(begun).Round(time.Second))
	case <-time.After(6 * s.period):
	}
}
