package take_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// firstLife backs up a cluster, stops, and returns the bucket and the newest revision in it.
func firstLife(t *testing.T, writes int) (*backuptest.Memory, int64) {
	b := backuptest.NewMemory()
	r := begin(t, b, nil)
	for i := range writes {
		r.Put("k", fmt.Sprint("first life ", i))
	}
	r.Flush()
	last := r.Taker.Status().Revision
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	return b, last
}

// secondLife is another etcd, as after a restore by other means.
func secondLife(t *testing.T) *taketest.Rig {
	return &taketest.Rig{T: t, Server: etcdtest.Start(t, etcdtest.Options{})}
}

// refused checks that nothing is taken of a server, and that nothing is stored but the record of why.
func refused(t *testing.T, s *etcdtest.Server, b *backuptest.Memory) {
	t.Helper()
	before := len(backups(t, b))
	taker, err := take.New(taketest.Config(s, b))
	if err != nil {
		t.Fatal(err)
	}
	if err := taker.Run(etcdtest.Context(t)); !errors.Is(err, take.ErrDiverged) {
		t.Fatal(err)
	}
	if n := len(backups(t, b)); n != before {
		t.Errorf("%d backups instead of %d", n, before)
	}
}

// backups are the names of fulls and deltas.
func backups(t *testing.T, b backup.Bucket) (names []string) {
	t.Helper()
	objects, err := b.List(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if _, ok := backup.ParsePlace(o.Name); ok {
			names = append(names, o.Name)
		}
	}
	return names
}

func TestTaker_AnotherHistoryStaysRefusedOnceItHasOvertaken(t *testing.T) {
	b, last := firstLife(t, 20)
	r := secondLife(t)
	r.Put("k", "second life")
	refused(t, r.Server, b)
	for r.Put("k", "second life, later") <= last+10 {
	}
	refused(t, r.Server, b)
	// What the first life had written is no longer in the way of noticing, but compacted.
	if _, err := r.Server.Client.Compact(etcdtest.Context(t), last+5, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	refused(t, r.Server, b)
}

// Nobody looked while the cluster was behind: the changes of one revision, or the length of the log, tell.
func TestTaker_AnotherHistoryIsNoticedByItsContent(t *testing.T) {
	t.Run("changes", func(t *testing.T) {
		b, last := firstLife(t, 20)
		r := secondLife(t)
		for range 200 { // the log is longer than that of the first life
			if _, err := r.Server.Client.Grant(etcdtest.Context(t), 1000); err != nil {
				t.Fatal(err)
			}
		}
		for r.Put("k", "second life") <= last+10 {
		}
		refused(t, r.Server, b)
	})
	t.Run("changes before a full that no delta leads to", func(t *testing.T) {
		b := backuptest.NewMemory()
		var full atomic.Bool
		r := begin(t, &backuptest.Faulty{Bucket: b, Before: func(_ context.Context, op, name string) error {
			if full.Load() && op == "create" && strings.Contains(name, "/delta/") {
				return errors.New("the target takes no deltas")
			}
			return nil
		}}, func(c *take.Config) { c.Shutdown = 100 * time.Millisecond })
		r.Put("k", "first life")
		r.Flush()
		full.Store(true)
		r.Put("k", "in the full alone")
		h, err := r.Taker.Full(etcdtest.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		r.Abandon()
		second := secondLife(t)
		for range 200 {
			if _, err := second.Server.Client.Grant(etcdtest.Context(t), 1000); err != nil {
				t.Fatal(err)
			}
		}
		for second.Put("k", "second life") <= h.Last+10 {
		}
		refused(t, second.Server, b)
	})
	t.Run("log", func(t *testing.T) {
		b, last := firstLife(t, 20)
		r := secondLife(t)
		ctx := etcdtest.Context(t)
		for r.Put("k", "second life") <= last+3 {
		}
		if _, err := r.Server.Client.Compact(ctx, last+2); err != nil {
			t.Fatal(err)
		}
		s, err := r.Server.Client.Status(ctx, r.Server.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range backups(t, b) { // the first life had done much that is no change of a key
			rehead(t, b, name, func(h *backup.Header) { h.RaftIndex, h.After, h.Base = s.RaftAppliedIndex+1000, nil, nil })
		}
		refused(t, r.Server, b)
	})
}

// rehead gives an object another header.
func rehead(t *testing.T, b *backuptest.Memory, name string, change func(h *backup.Header)) {
	t.Helper()
	p, _ := backup.ParsePlace(name)
	h, err := backup.ReadHeader(t.Context(), b, p)
	if err != nil {
		t.Fatal(err)
	}
	whole := b.Get(name)
	change(&h)
	c, err := backup.BodyContent(nil, whole[int64(len(whole))-h.BodySize:]).WithHeader(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Delete(t.Context(), name), b.Create(t.Context(), name, c)); err != nil {
		t.Fatal(err)
	}
}

// The cluster is put back while its backups are being taken.
func TestTaker_AHistoryThatGoesBackEndsTheSession(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	s := etcdtest.Start(t, etcdtest.Options{})
	first := &taketest.Rig{T: t, Server: s}
	first.Put("k", "0")
	c := taketest.Config(s, b)
	c.Delta.Period = cke.Duration(20 * time.Millisecond)
	r := taketest.Start(t, s, c)
	r.Await(take.FullStored)
	for i := range 50 {
		r.Put("k", fmt.Sprint(i))
	}
	r.Flush()
	s.Stop()
	other := etcdtest.Start(t, etcdtest.Options{Address: s.Address})
	o := &taketest.Rig{T: t, Server: other}
	o.Put("k", "second life")
	if err := r.Ended(); !errors.Is(err, take.ErrDiverged) {
		t.Fatal(err)
	}
	for range 100 {
		o.Put("k", "second life")
	}
	refused(t, other, b)
}

// The same cluster goes on, whatever it compacted: only what was compacted after the newest backup is missing.
func TestTaker_ItsOwnHistoryIsContinued(t *testing.T) {
	t.Parallel()
	for _, compactTo := range []int64{-1, 0} { // before, at the newest revision backed up
		t.Run(fmt.Sprint(compactTo), func(t *testing.T) {
			b := backuptest.NewMemory()
			r := begin(t, b, nil)
			r.Put("k", "1")
			r.Put("gone", "1")
			if _, err := r.Server.Client.Delete(etcdtest.Context(t), "gone"); err != nil {
				t.Fatal(err)
			}
			r.Flush()
			last := r.Taker.Status().Revision
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			r.Put("k", "2")
			if _, err := r.Server.Client.Compact(etcdtest.Context(t), last+compactTo, clientv3.WithCompactPhysical()); err != nil {
				t.Fatal(err)
			}
			r2 := taketest.Start(t, r.Server, taketest.Config(r.Server, b))
			r2.Put("k", "3")
			r2.Flush()
			same(t, r2, b)
		})
	}
}
