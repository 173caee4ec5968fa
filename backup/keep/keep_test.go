package keep_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/keep"
)

// wait is far above what is usual.
const wait = time.Minute

// house is a cluster of one member, a target, and a Keeper that runs until the test ends.
type house struct {
	*testing.T
	etcd    *etcdtest.Server
	memory  *backuptest.Memory
	target  backup.Bucket // what the Keeper opens
	keeper  *keep.Keeper
	wanted  cke.BackupWanted
	config  keep.Config
	opened  atomic.Int32
	deposed atomic.Bool
	revised atomic.Int64
	ahead   atomic.Int64 // of the clock, in nanoseconds
	stop    func()
}

// errTerm is what a term says that has ended.
var errTerm = fmt.Errorf("the leader key is gone: %w", cke.ErrDeposed)

// newHouse lets the test run beside others: it mostly waits.
func newHouse(t *testing.T) *house {
	t.Helper()
	t.Parallel()
	return newHouseAlone(t)
}

// newHouseAlone is for tests that change the environment.
func newHouseAlone(t *testing.T) *house {
	t.Helper()
	h := &house{T: t, etcd: etcdtest.Start(t, etcdtest.Options{}), memory: backuptest.NewMemory()}
	h.target = h.memory
	h.wanted = cke.BackupWanted{
		Spec: cke.Spec{Generation: 1, Source: "name: prod\n", Cluster: cke.Cluster{Name: "prod", Backup: cke.Backup{
			Target: "mem://one", Delta: cke.BackupDelta{Period: cke.Duration(50 * time.Millisecond)},
		}}},
		Identity: cke.Identity{Incarnation: &cke.Incarnation{ID: "life1", State: cke.Formed}, Joins: []cke.Join{{ID: "j1", StartedAt: time.Now()}}},
	}
	h.config = keep.Config{
		Cluster:     "prod",
		Open:        func(context.Context, string) (keep.Target, error) { h.opened.Add(1); return open{h.target}, nil },
		Credentials: h.revised.Load,
		Endpoint:    func(cke.Join) string { return h.etcd.Endpoint },
		TLS:         func(context.Context) (*tls.Config, error) { return nil, nil },
		Escrow: func(context.Context) (cke.Escrow, error) {
			return cke.Escrow{Format: cke.EscrowFormat, Cluster: "prod", SealedWith: "age1x"}, nil
		},
		Guard: func() error {
			if h.deposed.Load() {
				return errTerm
			}
			return nil
		},
		Writer: "boot-1", Term: 7, Scratch: t.TempDir(), Shutdown: 5 * time.Second,
		Retry: backup.Retry{First: time.Millisecond, Longest: 10 * time.Millisecond, For: 200 * time.Millisecond},
		Now:   func() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) },
		Log:   slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	return h
}

// open is a target that is open.
type open struct{ backup.Bucket }

func (open) Close() error { return nil }

func (o open) Unwrap() backup.Bucket { return o.Bucket }

// run starts a Keeper, and waits for the first full unless told otherwise.
func (h *house) run() *house {
	h.Helper()
	h.keeper = keep.New(h.config)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); h.keeper.Run(ctx) }()
	h.stop = func() {
		cancel()
		select {
		case <-done:
		case <-time.After(wait):
			h.Fatal("the Keeper does not end")
		}
	}
	h.Cleanup(h.stop)
	h.keeper.Update(h.wanted)
	return h
}

// await looks until ok, and returns the status.
func (h *house) await(what string, ok func(s *cke.BackupStatus) bool) (s *cke.BackupStatus) {
	h.Helper()
	h.until(what, func() bool {
		s = h.keeper.Status()
		return s != nil && ok(s)
	})
	return s
}

// until waits for what no status shows.
func (h *house) until(what string, ok func() bool) {
	h.Helper()
	for end := time.Now().Add(wait); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.Fatalf("waited for %s: %+v", what, h.keeper.Status())
		}
	}
}

// full has a full backup taken now.
func (h *house) full() {
	h.Helper()
	if _, err := h.keeper.Full(etcdtest.Context(h)); err != nil {
		h.Fatal(err)
	}
}

// spoil changes a bit near the end of an object.
func (h *house) spoil(name string) {
	data := h.memory.Get(name)
	data[len(data)-5] ^= 1
	h.memory.Set(name, data)
}

// has reports whether a full is in the target.
func (h *house) has(full backup.Entry) bool {
	return slices.ContainsFunc(h.lineage("life1").Fulls, func(e backup.Entry) bool { return e.Name() == full.Name() })
}

func hasFull(s *cke.BackupStatus) bool { return s.Full.Revision > 0 && s.Connected }

func (h *house) put(keys ...string) int64 {
	h.Helper()
	var last int64
	for _, k := range keys {
		r, err := h.etcd.Client.Put(etcdtest.Context(h), k, "v")
		if err != nil {
			h.Fatal(err)
		}
		last = r.Header.Revision
	}
	return last
}

func (h *house) store() *backup.Store {
	return &backup.Store{Bucket: h.memory, Cluster: "prod", Scratch: h.TempDir()}
}

func (h *house) lineage(name string) backup.Lineage {
	h.Helper()
	l, err := h.store().Lineage(etcdtest.Context(h), name)
	if err != nil {
		h.Fatal(err)
	}
	return l
}

func TestKeeper_StoresAFullThenDeltasAndTheLastOneAtItsEnd(t *testing.T) {
	h := newHouse(t)
	h.wanted.Spec.Cluster.Backup.Delta.Period = cke.Duration(time.Hour)
	h.run().await("a full", hasFull)
	last := h.put("a", "b", "c")
	s := h.await("the changes to be seen", func(s *cke.BackupStatus) bool { return s.LagRevisions == 3 })
	if s.Lineage != "life1" || s.Target != "mem://one" || s.Full.Kind != "full" || s.Full.Size == 0 || s.Full.ID == "" {
		t.Errorf("%+v", s)
	}
	h.stop()
	chains := h.lineage("life1")
	if c := chains.Chains(); len(c) != 1 || c[0].Last != last {
		t.Errorf("%+v ends before revision %d", c, last)
	}
}

// The status names the fulls, and since when every moment can be restored: after another daemon has read the target, too.
func TestKeeper_NamesItsFullsAndSinceWhenAllCanBeRestored(t *testing.T) {
	h := newHouse(t)
	h.run().await("a full", hasFull)
	for range 2 {
		h.put("a")
		if _, err := h.keeper.Flush(etcdtest.Context(t)); err != nil { // else the full may hold the change before a delta does
			t.Fatal(err)
		}
		h.full()
	}
	check := func(when string) {
		t.Helper()
		s := h.await("three fulls "+when, func(s *cke.BackupStatus) bool { return len(s.Fulls) == 3 })
		if !s.Since.Equal(s.Fulls[0]) || !s.Fulls[2].Equal(s.Full.At) || s.Time.Before(s.Since) {
			t.Errorf("%s: since %s to %s, %s, the newest of %s", when, s.Since, s.Time, s.Fulls, s.Full.At)
		}
	}
	check("as they were stored")
	h.stop()
	h.run()
	check("as they were read")
}

func TestKeeper_DoesWhatIsAskedFor(t *testing.T) {
	h := newHouse(t)
	h.wanted.Spec.Cluster.Backup.Delta.Period = cke.Duration(time.Hour)
	h.run().await("a full", hasFull)
	last := h.put("a")
	d, err := h.keeper.Flush(etcdtest.Context(t))
	if err != nil || d.Revision != last || d.ID == "" || d.Kind != "delta" {
		t.Fatalf("%+v %v", d, err)
	}
	if none, err := h.keeper.Flush(etcdtest.Context(t)); err != nil || none.Revision != last || none.ID != "" {
		t.Fatalf("nothing had changed: %+v %v", none, err)
	}
	last = h.put("b")
	f, err := h.keeper.Full(etcdtest.Context(t))
	if err != nil || f.Revision != last || f.Kind != "full" {
		t.Fatalf("%+v %v", f, err)
	}
	l := h.lineage("life1")
	if listed := l.Fulls[len(l.Fulls)-1]; listed.ID() != f.ID || listed.Size != f.Size {
		t.Errorf("a full of %d bytes is listed with %d", f.Size, listed.Size)
	}
	if listed := l.Streams[0].Deltas[0]; listed.Revision != d.Revision || listed.Size != d.Size {
		t.Errorf("a delta of %d bytes is listed with %d", d.Size, listed.Size)
	}
	if told := h.await("the full", func(s *cke.BackupStatus) bool { return s.Full.ID == f.ID }); told.Full.Size != f.Size {
		t.Errorf("a full of %d bytes has %d in the status", f.Size, told.Full.Size)
	}
}

func TestKeeper_SaysWhyItTakesNone(t *testing.T) {
	h := newHouse(t)
	h.keeper = keep.New(h.config)
	refused := func(words string, undeclared bool) {
		t.Helper()
		_, err := h.keeper.Full(t.Context())
		var e *cke.Error
		if !errors.As(err, &e) || e.Code != cke.CodeNotBackedUp || !strings.Contains(strings.Join(e.Facts, " "), words) || errors.Is(err, cke.ErrNoTarget) != undeclared {
			t.Errorf("%v does not say %q", err, words)
		}
	}
	refused("just taken charge", false)
	target := h.wanted.Spec.Cluster.Backup.Target
	h.wanted.Spec.Cluster.Backup.Target = ""
	h.run()
	refused("no backup target", true)
	if s := h.keeper.Status(); s != nil {
		t.Errorf("without a target: %+v", s)
	}
	h.wanted.Spec.Cluster.Backup.Target, h.wanted.Idle = target, "frozen: two clusters"
	h.keeper.Update(h.wanted)
	refused("two clusters", false)
	if s := h.keeper.Status(); s.Idle == "" || h.opened.Load() != 0 {
		t.Errorf("%+v, the target was opened %d times", s, h.opened.Load())
	}
	h.wanted.Idle = ""
	h.keeper.Update(h.wanted)
	h.await("a full", hasFull)
	h.wanted.Idle = "frozen: two clusters"
	h.keeper.Update(h.wanted)
	h.await("the end", func(s *cke.BackupStatus) bool { return s.Idle != "" && s.Full.Revision == 0 })
}

func TestKeeper_BeginsAnewWhereItWasWhenItsSettingsChange(t *testing.T) {
	h := newHouse(t)
	h.run().await("a full", hasFull)
	last := h.put("a")
	h.await("the delta", func(s *cke.BackupStatus) bool { return s.Revision == last })
	for name, change := range map[string]func(){
		"schedule":    func() { h.wanted.Spec.Cluster.Backup.Full.Schedule = "0 0 1 1 *" },
		"credentials": func() { h.revised.Add(1) },
		"members": func() {
			h.wanted.Identity.Joins = append(h.wanted.Identity.Joins, cke.Join{ID: "j2", StartedAt: time.Now()})
		},
	} {
		before := h.opened.Load()
		change()
		h.keeper.Update(h.wanted)
		h.await("another session after a change of "+name, func(s *cke.BackupStatus) bool { return h.opened.Load() > before && s.Known && hasFull(s) })
		last = h.put(name)
		h.await("the delta after a change of "+name, func(s *cke.BackupStatus) bool { return s.Revision == last })
	}
	h.stop()
	l := h.lineage("life1")
	if len(l.Fulls) != 1 || len(l.Streams) != 1 || l.Streams[0].Last != last {
		t.Errorf("%d fulls, streams %+v", len(l.Fulls), l.Streams)
	}
}

func TestKeeper_GivesARestoredClusterALineageOfItsOwn(t *testing.T) {
	h := newHouse(t)
	h.run().await("a full", hasFull)
	h.wanted.Identity.Incarnation = &cke.Incarnation{ID: "life2", State: cke.Formed}
	h.keeper.Update(h.wanted)
	h.await("a full of the new life", func(s *cke.BackupStatus) bool { return s.Lineage == "life2" && hasFull(s) })
	if l := h.lineage("life1"); len(l.Fulls) != 1 {
		t.Errorf("%+v", l)
	}
}

func TestKeeper_WritesNothingOnceItsTermHasEnded(t *testing.T) {
	h := newHouse(t)
	h.wanted.Spec.Cluster.Backup.Delta.Period = cke.Duration(time.Hour)
	h.run().await("a full", hasFull)
	h.await("what lies beside", func(*cke.BackupStatus) bool { l := h.lineage("life1"); return len(l.Files) == 2 })
	h.put("a")
	h.deposed.Store(true)
	h.stop()
	if l := h.lineage("life1"); len(l.Streams) != 0 || len(l.Fulls) != 1 {
		t.Errorf("%+v", l)
	}
}

func TestKeeper_TellsOfATargetThatFailsAndOfItsReturn(t *testing.T) {
	h := newHouse(t)
	var broken atomic.Bool
	h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(context.Context, string, string) error {
		if broken.Load() {
			return errors.New("no space left on device")
		}
		return nil
	}}
	h.run().await("a full", hasFull)
	broken.Store(true)
	last := h.put("a")
	s := h.await("the problem", func(s *cke.BackupStatus) bool { return s.Problem != nil })
	if s.Problem.Code != cke.CodeTarget || !strings.Contains(s.Problem.Message, "no space left") {
		t.Errorf("%+v", s.Problem)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := h.keeper.Flush(ctx); err == nil || cke.CodeOf(err) != cke.CodeTarget {
		t.Errorf("flush: %v", err)
	}
	h.await("the lag", func(s *cke.BackupStatus) bool { return s.Lag > 0 && s.LagRevisions == 1 })
	broken.Store(false)
	s = h.await("its end", func(s *cke.BackupStatus) bool { return s.Problem == nil && s.Revision == last })
	if s.Lag != 0 || s.LagRevisions != 0 {
		t.Errorf("%+v", s)
	}
}

func TestKeeper_WaitsForATargetThatCannotBeOpened(t *testing.T) {
	h := newHouse(t)
	open := h.config.Open
	h.config.Open = func(ctx context.Context, url string) (keep.Target, error) {
		if h.opened.Load() < 1 {
			h.opened.Add(1)
			return nil, &cke.Error{Code: cke.CodeSecret, What: "no key file"}
		}
		return open(ctx, url)
	}
	h.run()
	if s := h.await("the problem", func(s *cke.BackupStatus) bool { return s.Problem != nil }); s.Problem.Code != cke.CodeSecret || s.Known {
		t.Errorf("%+v", s)
	}
	h.await("a full", func(s *cke.BackupStatus) bool { return hasFull(s) && s.Problem == nil })
}

// A daemon that has just begun to lead is asked for a backup at once.
func TestKeeper_ABackupWaitsUntilTheTargetIsRead(t *testing.T) {
	h := newHouse(t)
	opens, open := make(chan struct{}), h.config.Open
	h.config.Open = func(ctx context.Context, url string) (keep.Target, error) {
		<-opens
		return open(ctx, url)
	}
	h.run()
	type answer struct {
		kind string
		err  error
	}
	answers := make(chan answer, 2)
	for _, take := range []func(context.Context) (cke.StoredBackup, error){h.keeper.Full, h.keeper.Flush} {
		go func() { s, err := take(etcdtest.Context(t)); answers <- answer{s.Kind, err} }()
	}
	canceled, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := h.keeper.Full(canceled); cke.CodeOf(err) != cke.CodeTarget || !strings.Contains(err.Error(), "opened and read") {
		t.Errorf("one that waits no longer: %v", err)
	}
	close(opens)
	for range 2 {
		if a := <-answers; a.err != nil {
			t.Errorf("%+v", a)
		}
	}
}

func TestKeeper_TellsOfTheEndOfTroubleThoughNothingChanges(t *testing.T) {
	h := newHouse(t)
	h.run().await("a full", hasFull)
	h.stop()
	var broken atomic.Bool
	broken.Store(true)
	open := h.config.Open
	h.config.Open = func(ctx context.Context, url string) (keep.Target, error) {
		if broken.Load() {
			return nil, errors.New("connection refused")
		}
		return open(ctx, url)
	}
	h.run().await("the problem", func(s *cke.BackupStatus) bool { return s.Problem != nil })
	broken.Store(false)
	h.await("its end", func(s *cke.BackupStatus) bool { return s.Problem == nil && hasFull(s) })
	if l := h.lineage("life1"); len(l.Fulls) != 1 || len(l.Streams) != 0 {
		t.Errorf("something was written: %+v", l)
	}
}

func TestKeeper_WritesNothingIntoTheLineageOfAnotherHistory(t *testing.T) {
	h := newHouse(t)
	h.put("a", "b", "c")
	h.run().await("a full", hasFull)
	h.stop()
	h.etcd = etcdtest.Start(t, etcdtest.Options{}) // blank
	h.run()
	s := h.await("the problem", func(s *cke.BackupStatus) bool { return s.Problem != nil })
	if s.Problem.Code != cke.CodeOtherHistory || !strings.Contains(s.Problem.Message, "history differs from") {
		t.Errorf("%+v", s.Problem)
	}
	h.stop()
	if l := h.lineage("life1"); len(l.Fulls) != 1 || len(l.Streams) != 0 {
		t.Errorf("%+v", l)
	}
}
