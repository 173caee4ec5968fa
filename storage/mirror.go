package storage

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// relistPause is how long a mirror waits after the store failed it.
	relistPause = 200 * time.Millisecond
	// mostRanges is how many ranges a mirror can have.
	mostRanges = 4
)

// mirror follows key ranges without a gap: it lists them at one revision and watches from the next. It lists again
// when the watch ends, be it that the store went away, a member lost its quorum, or compaction went past us, and when the store went back.
type mirror struct {
	s        *Store
	ranges   []keyRange
	keysOnly bool // values are not wanted
	// changed is told of everything after a list (keys is nil), and of the keys of each change after it; kvs is as of
	// revision rev.
	changed func(kvs map[string]*mvccpb.KeyValue, keys []string, rev int64)
}

// run mirrors until ctx ends.
func (m mirror) run(ctx context.Context) {
	for told := false; ctx.Err() == nil; {
		_, back := m.s.horizon.now()
		kvs, rev, err := m.list(ctx)
		if err == nil {
			told = false
			m.changed(kvs, nil, rev)
			err = m.follow(ctx, kvs, rev+1, back)
		}
		if ctx.Err() != nil {
			return
		}
		if !told {
			m.s.log.Debug("watch of the store ended, listing again", "key", m.ranges[0].start, "error", err)
			told = true
		}
		select {
		case <-time.After(relistPause):
		case <-ctx.Done():
		}
	}
}

func (m mirror) list(ctx context.Context) (map[string]*mvccpb.KeyValue, int64, error) {
	var gets []clientv3.Op
	for _, r := range m.ranges {
		opts := r.options()
		if m.keysOnly {
			opts = append(opts, clientv3.WithKeysOnly())
		}
		gets = append(gets, clientv3.OpGet(r.start, opts...))
	}
	resp, err := m.s.txn(ctx, nil, gets)
	if err != nil {
		return nil, 0, err
	}
	kvs := map[string]*mvccpb.KeyValue{}
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().Kvs {
			kvs[string(kv.Key)] = kv
		}
	}
	return kvs, resp.Header.Revision, nil
}

// follow applies changes from rev on to kvs until the watch ends, or the store went back: back closes, or the store has twice in a row
// something else than kvs, with no change to it in between.
func (m mirror) follow(ctx context.Context, kvs map[string]*mvccpb.KeyValue, rev int64, back <-chan struct{}) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	var watches [mostRanges]clientv3.WatchChan // nil: there are fewer ranges
	for i, r := range m.ranges {
		watches[i] = m.s.client.Watch(ctx, r.start, r.options(clientv3.WithRev(rev))...)
	}
	defer func() { // all that they started ends
		cancel()
		for _, watch := range watches[:len(m.ranges)] {
			for range watch {
			}
		}
	}()
	type answer struct {
		sample
		holds bool
		err   error
	}
	answers := make(chan answer)
	var next sample // of what is there: whether the store has it is asked when the timer fires
	timer := time.NewTimer(m.s.period)
	defer timer.Stop()
	ask := func(s sample) {
		next = s
		timer.Reset(m.s.period)
	}
	ask(sampleOf(kvs))
	doubted := false
	for {
		var resp clientv3.WatchResponse
		watched := true
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-back:
			return errWentBack
		case <-timer.C:
			s := next
			wg.Go(func() {
				holds, err := m.holds(ctx, s)
				select {
				case answers <- answer{s, holds, err}:
				case <-ctx.Done():
				}
			})
			continue
		case a := <-answers:
			if a.err != nil || a.holds || !a.of(kvs) {
				doubted = false
				ask(sampleOf(kvs))
				continue
			}
			if doubted {
				if was, err := m.had(ctx, a.sample); err != nil || was {
					return errLateWatch
				}
				m.s.wentBack()
				return errWentBack
			}
			doubted = true
			ask(a.sample)
			continue
		case resp, watched = <-watches[0]:
		case resp, watched = <-watches[1]:
		case resp, watched = <-watches[2]:
		case resp, watched = <-watches[3]:
		}
		if !watched {
			resp.Canceled = true
		}
		if err := resp.Err(); err != nil {
			return err
		}
		if n := len(resp.Events); n > 0 {
			m.changed(kvs, m.apply(kvs, resp.Events), resp.Events[n-1].Kv.ModRevision)
		}
	}
}

func (m mirror) apply(kvs map[string]*mvccpb.KeyValue, events []*clientv3.Event) (keys []string) {
	for _, e := range events {
		key := string(e.Kv.Key)
		if e.Type == clientv3.EventTypeDelete {
			delete(kvs, key)
		} else {
			if m.keysOnly {
				e.Kv.Value = nil
			}
			kvs[key] = e.Kv
		}
		keys = append(keys, key)
	}
	return keys
}

// latest runs produce and delivers the newest value it emitted; values that nobody took in time are dropped. The
// channel closes when ctx or the store ends.
func latest[T any](ctx context.Context, s *Store, produce func(ctx context.Context, emit func(T))) <-chan T {
	queue := func(pending []T, v T) []T { return append(pending[:0], v) }
	return deliver(ctx, s, queue, produce)
}

// deliver runs produce and delivers what it emits. queue adds a value to those not taken yet.
func deliver[T any](ctx context.Context, s *Store, queue func(pending []T, v T) []T, produce func(ctx context.Context, emit func(T))) <-chan T {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(s.ctx, cancel)
	emitted, out := make(chan T), make(chan T)
	s.spawn(func() {
		produce(ctx, func(v T) {
			select {
			case emitted <- v:
			case <-ctx.Done():
			}
		})
	})
	delivering := s.spawn(func() {
		defer unhook()
		defer cancel()
		defer close(out)
		var pending []T
		for {
			var ready chan T
			var next T
			if len(pending) > 0 {
				ready, next = out, pending[0]
			}
			select {
			case v := <-emitted:
				pending = queue(pending, v)
			case ready <- next:
				pending = pending[1:]
			case <-ctx.Done():
				return
			}
		}
	})
	if !delivering {
		cancel()
		close(out)
	}
	return out
}

// sortedKeys returns the keys of kvs below prefix.
func sortedKeys(kvs map[string]*mvccpb.KeyValue, prefix string) []string {
	var keys []string
	for key := range maps.Keys(kvs) {
		if below(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
