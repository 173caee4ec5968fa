package op_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// fakeBackups answer as they are told.
type fakeBackups struct {
	stored cke.StoredBackup
	err    error
	status *cke.BackupStatus
	hang   bool
	during func() // happens while one is made
	calls  []string
}

var _ cke.Backups = (*fakeBackups)(nil)

func (b *fakeBackups) Full(ctx context.Context) (cke.StoredBackup, error) { return b.call(ctx, "full") }
func (b *fakeBackups) Flush(ctx context.Context) (cke.StoredBackup, error) {
	return b.call(ctx, "flush")
}
func (b *fakeBackups) Status() *cke.BackupStatus { return b.status }

func (b *fakeBackups) call(ctx context.Context, what string) (cke.StoredBackup, error) {
	b.calls = append(b.calls, what)
	if b.during != nil {
		b.during()
	}
	if b.hang {
		<-ctx.Done()
		return cke.StoredBackup{}, ctx.Err()
	}
	return b.stored, b.err
}

// sound are backups that are as they should be.
func sound() *cke.BackupStatus {
	return &cke.BackupStatus{Known: true, Connected: true, Revision: 12, Full: cke.StoredBackup{Revision: 10}}
}

// runWith runs an operation with backups, in virtual time.
func runWith(t *testing.T, b cke.Backups, o op.Operation, check func(r cke.Record, took time.Duration, err error)) {
	t.Helper()
	inWorld(t, 1, func(w *world) {
		e := op.Env{Cluster: "demo", Backups: b, Now: time.Now, Pause: pause, Log: slog.New(slog.DiscardHandler)}
		begun := time.Now()
		r, err := op.Run(w.daemon.Context(), e, w.daemon.Term(), cke.Record{Reason: "a test"}, o)
		check(r, time.Since(begun), err)
	})
}

func TestBackup_TakesWhatWasAskedForAndPutsItIntoTheRecord(t *testing.T) {
	for call, o := range map[string]op.Backup{"full": {}, "flush": {Delta: true}} {
		b := &fakeBackups{stored: cke.StoredBackup{ID: "life/1", Revision: 7, Size: 10}}
		runWith(t, b, o, func(r cke.Record, _ time.Duration, err error) {
			if err != nil || len(b.calls) != 1 || b.calls[0] != call || r.Backup == nil || *r.Backup != b.stored {
				t.Errorf("%s: %v, calls %q, record %+v", call, err, b.calls, r)
			}
		})
	}
}

func TestBackup_SaysWhyThereIsNone(t *testing.T) {
	for name, row := range map[string]struct {
		backups cke.Backups
		code    cke.Code
	}{
		"a daemon without backups": {nil, cke.CodeNotBackedUp},
		"the target is full":       {&fakeBackups{err: &cke.Error{Code: cke.CodeTarget, What: "no room"}}, cke.CodeTarget},
	} {
		runWith(t, row.backups, op.Backup{}, func(r cke.Record, _ time.Duration, err error) {
			if r.State != cke.RecordFailed || r.Code != row.code || r.Backup != nil {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		})
	}
}

// dangerous is an operation that begins with a last backup.
type dangerous struct{ done *bool }

func (dangerous) Name() string      { return "dangerous" }
func (dangerous) Targets() []string { return nil }
func (dangerous) Traits() op.Traits { return op.Traits{} }
func (d dangerous) Stages() []op.Stage {
	return []op.Stage{op.LastBackup(), {{Name: "do", Run: func(context.Context, op.Env) error { *d.done = true; return nil }}}}
}

func TestLastBackup_HoldsUpForABoundedTimeAndNotWithoutNeed(t *testing.T) {
	gone := &cke.Error{Code: cke.CodeTarget, What: "the target is gone"}
	missing := &cke.Error{Code: cke.CodeTarget, What: "not known to be there", Err: fmt.Errorf("open the object: %w", cke.ErrNotFound)}
	stale := sound()
	stale.Lag = 3600
	cut := sound()
	cut.Connected = false
	for name, row := range map[string]struct {
		backups cke.Backups
		done    bool
		note    string
	}{
		"no backups":                  {nil, true, "no backups are taken"},
		"no target":                   {&fakeBackups{err: &cke.Error{Code: cke.CodeNotBackedUp, Err: cke.ErrNoTarget}}, true, "declares no backup target"},
		"stored":                      {&fakeBackups{stored: cke.StoredBackup{Revision: 12}, status: sound()}, true, "all is stored, up to revision 12"},
		"not stored, and fresh":       {&fakeBackups{err: gone, status: sound()}, true, "the target is gone; the existing backup is fresh, up to revision 12"},
		"the target hangs, and fresh": {&fakeBackups{hang: true, status: sound()}, true, "deadline"},
		"not stored, and old":         {&fakeBackups{err: gone, status: stale}, false, ""},
		"an object is not found":      {&fakeBackups{err: missing, status: stale}, false, ""},
		"stored behind a gap":         {&fakeBackups{status: cut}, false, ""},
		"nothing known":               {&fakeBackups{err: gone}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			done := false
			runWith(t, row.backups, dangerous{&done}, func(r cke.Record, took time.Duration, err error) {
				if done != row.done || !strings.Contains(r.Steps[0].Note, row.note) {
					t.Errorf("done %t, record %+v, %v", done, r, err)
				}
				if took > 31*time.Second {
					t.Errorf("took %s", took)
				}
				var e *cke.Error
				if !done && (!errors.As(err, &e) || e.Code != cke.CodeStaleBackup || !e.Unchanged || len(e.Facts) == 0) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// What stops members first sees to it that all they hold is stored, and leaves them alone if it is not.
func TestLastBackup_ComesBeforeAnyMemberIsStopped(t *testing.T) {
	stale := sound()
	stale.Lag = 3600
	for name, operation := range map[string]func(w *world) op.Operation{
		"hibernate": func(w *world) op.Operation {
			w.Store().Hibernate(true)
			return op.Hibernate{Joins: w.joins(), Leader: w.joins()[0].ID, Backup: true}
		},
		"restart-member": func(w *world) op.Operation {
			next := w.cluster().Options.Etcd
			next.Version, next.Image = "3.6.99", "etcd:3.6.99"
			return op.RestartMember{Join: w.joins()[2], Etcd: next, Backup: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				w.mustRun(w.bootstrap(false))
				run := func(b *fakeBackups) (cke.Record, error) {
					e := op.Env{Cluster: "demo", Machines: w.daemon.Machines(), Etcd: w.daemon.Etcd(), Authority: w.daemon.Authority(), Ledger: w.daemon.Term(),
						Backups: b, Now: time.Now, Pause: pause, Log: slog.New(slog.DiscardHandler)}
					return op.Run(w.daemon.Context(), e, w.daemon.Term(), cke.Record{Reason: "a test"}, operation(w))
				}
				running := w.states()
				w.trace = nil
				_, err := run(&fakeBackups{err: &cke.Error{Code: cke.CodeTarget, What: "the target is gone"}, status: stale})
				if cke.CodeOf(err) != cke.CodeStaleBackup {
					t.Errorf("%v", err)
				}
				if now := w.states(); now != running || w.calls("StopContainer") > 0 {
					t.Errorf("a member was stopped: %s\n%s", now, strings.Join(w.trace, "\n"))
				}
				fresh := &fakeBackups{stored: cke.StoredBackup{Revision: 12}, status: sound()}
				if r, err := run(fresh); err != nil || len(fresh.calls) != 1 || !strings.Contains(steps(r), "last-backup") {
					t.Errorf("with a fresh backup: %s, %v", steps(r), err)
				}
				if w.calls("StopContainer") == 0 {
					t.Errorf("no member was stopped:\n%s", strings.Join(w.trace, "\n"))
				}
			})
		})
	}
}

// A hibernation that is ended while its backup is made stops nobody.
func TestHibernate_EndedWhileItsBackupIsMade(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		w.Store().Hibernate(true)
		running := w.states()
		w.trace = nil
		e := op.Env{Cluster: "demo", Machines: w.daemon.Machines(), Etcd: w.daemon.Etcd(), Authority: w.daemon.Authority(), Ledger: w.daemon.Term(),
			Backups: &fakeBackups{status: sound(), during: func() { w.Store().Hibernate(false) }}, Now: time.Now, Pause: pause, Log: slog.New(slog.DiscardHandler)}
		_, err := op.Run(w.daemon.Context(), e, w.daemon.Term(), cke.Record{Reason: "a test"}, op.Hibernate{Joins: w.joins(), Leader: w.joins()[0].ID, Backup: true})
		if !errors.Is(err, cke.ErrConflict) || w.states() != running || w.calls("StopContainer") > 0 {
			t.Errorf("%v: %s\n%s", err, w.states(), strings.Join(w.trace, "\n"))
		}
	})
}
