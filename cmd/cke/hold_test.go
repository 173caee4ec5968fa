package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/take"
	"cke/storage"
)

// heldIn counts the locks of cluster prod in a target.
func heldIn(t *testing.T, dir string) int {
	t.Helper()
	locks, err := os.ReadDir(filepath.Join(dir, ".locks", "prod"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return len(locks)
}

// orderedIn orders a restore of prod from a target with one full, and returns what its leader fetches it with.
func orderedIn(t *testing.T) (s *snapshots, task cke.Task, dir string) {
	t.Helper()
	store, wire, lead, inc := formedIn(t)
	ctx, must := t.Context(), mustIn(t)
	dir = t.TempDir()
	_, err := take.Full(ctx, take.Config{Bucket: backup.Dir(dir), Cluster: "prod", Lineage: inc.ID, Scratch: t.TempDir(),
		Endpoints: []string{"http://" + wire.listener.Addr().String()}, Notify: func(take.Event) {}})
	must(err)
	task = cke.NewTask(cke.TaskRestore, "", "", "me@here", time.Now())
	task.Restore = &cke.RestoreOrder{Target: "file://" + dir, Source: "prod", Trust: []string{cke.TrustAny}}
	must(store.AskRestore(ctx, "prod", task, storage.RestoreAsked{}))
	return &snapshots{store: store, term: &term{Term: lead}, cluster: "prod", dir: filepath.Join(t.TempDir(), "s"), scratch: t.TempDir(),
		holdEvery: time.Millisecond}, task, dir
}

// recordedFor puts the restore on record that a task orders; compared: by a version that compares it before.
func recordedFor(t *testing.T, s *snapshots, task cke.Task, compared bool) {
	t.Helper()
	id, err := s.store.Identity(t.Context(), "prod")
	mustIn(t)(err)
	mustIn(t)(s.term.BeginRestore(t.Context(), cke.NewRestoration(prod, id, cke.Restoration{ID: task.ID, Order: *task.Restore, Compared: compared}, time.Now())))
}

// Between its reads a restore holds its backups: another host may have to read them again.
func TestRestore_HoldsItsBackupsUntilItIsOver(t *testing.T) {
	s, task, dir := orderedIn(t)
	for range 2 { // what was fetched is held once
		if got, err := s.Fetch(t.Context(), task.ID, *task.Restore, nil, func(string) {}); err != nil || got.Etcd != "3.7.0" {
			t.Fatalf("data of etcd %q, %v", got.Etcd, err)
		}
		if n := heldIn(t, dir); n != 1 {
			t.Errorf("%d locks, want that of the hold", n)
		}
	}
	mustIn(t)(s.term.FinishTask(t.Context(), task.ID)) // it was refused
	for end := time.Now().Add(time.Minute); heldIn(t, dir) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the hold does not end with the restore")
		}
	}
}

// A daemon that is started again finds the snapshot on its host, and may lose it, or its leadership, later.
func TestRestore_HoldsItsBackupsAgainAfterTheDaemonWasStartedAgain(t *testing.T) {
	s, task, dir := orderedIn(t)
	if _, err := s.Fetch(t.Context(), task.ID, *task.Restore, nil, func(string) {}); err != nil {
		t.Fatal(err)
	}
	locks, err := filepath.Glob(filepath.Join(dir, ".locks", "prod", "*"))
	mustIn(t)(err)
	for _, l := range locks { // as those of a killed process end
		mustIn(t)(os.Remove(l))
	}
	again := &snapshots{store: s.store, term: s.term, cluster: s.cluster, dir: s.dir, scratch: s.scratch, holdEvery: s.holdEvery}
	if _, err := again.Fetch(t.Context(), task.ID, *task.Restore, nil, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if n := heldIn(t, dir); n != 1 {
		t.Errorf("%d locks, want that of the hold", n)
	}
	recordedFor(t, s, task, true)
	mustIn(t)(os.RemoveAll(dir))
	mustIn(t)(os.WriteFile(dir, nil, 0o600))
	notes := 0
	last := &snapshots{store: s.store, term: s.term, cluster: s.cluster, dir: s.dir, scratch: s.scratch, holdEvery: s.holdEvery}
	if _, err := last.Fetch(t.Context(), task.ID, *task.Restore, nil, func(string) { notes++ }); err != nil || notes == 0 {
		t.Errorf("without its target: %v, %d notes", err, notes)
	}
}

// A target that hangs, or a deletion that makes no way, keeps nobody from restoring what was fetched.
func TestRestore_WaitsBrieflyToHoldItsBackupsAgain(t *testing.T) {
	s, task, dir := orderedIn(t)
	if _, err := s.Fetch(t.Context(), task.ID, *task.Restore, nil, func(string) {}); err != nil {
		t.Fatal(err)
	}
	recordedFor(t, s, task, true)
	mustIn(t)(os.WriteFile(filepath.Join(dir, ".locks", "prod", "deleting-AAAA-0000000001"), []byte("{}"), 0o600))
	again := &snapshots{store: s.store, term: s.term, cluster: s.cluster, dir: s.dir, scratch: s.scratch, holdEvery: s.holdEvery}
	var notes []string
	begun := time.Now()
	if _, err := again.Fetch(t.Context(), task.ID, *task.Restore, nil, func(n string) { notes = append(notes, n) }); err != nil || len(notes) != 1 || time.Since(begun) > time.Minute {
		t.Fatalf("%v, %q after %s", err, notes, time.Since(begun))
	}
	if !strings.Contains(notes[0], "a deletion in it has not made way") { // the target answers
		t.Errorf("%q", notes)
	}
}

// A fault in what opens a target is one of this restore.
func TestRestore_APanicWhileItsBackupsAreHeldEndsNothing(t *testing.T) {
	s, task, _ := orderedIn(t)
	if _, err := s.Fetch(t.Context(), task.ID, *task.Restore, nil, func(string) {}); err != nil {
		t.Fatal(err)
	}
	again := &snapshots{term: s.term, cluster: s.cluster, dir: s.dir, scratch: s.scratch, log: slog.New(slog.NewTextHandler(t.Output(), nil)), // without a store
		compared: map[string]bool{task.ID: true}}
	var notes []string
	if _, err := again.Fetch(t.Context(), task.ID, *task.Restore, nil, func(n string) { notes = append(notes, n) }); err != nil || len(notes) != 1 || !strings.Contains(notes[0], "fault in cke") {
		t.Errorf("%v, %q", err, notes)
	}
	if !again.claims(task.ID) {
		t.Error("backups that are not held are not held later either")
	}
}

// What becomes of one restore's backups says nothing about those of another.
func TestRestore_HoldsOfSeveralRestores(t *testing.T) {
	var s snapshots
	if !s.claims("first") || !s.claims("second") || s.claims("first") {
		t.Error("each is to be held once")
	}
	s.holdsNot("first", nil)
	if s.claims("second") || !s.claims("first") {
		t.Error("the first one alone is no longer held")
	}
}
