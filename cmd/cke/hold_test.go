package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/take"
	"cke/storage"
)

// Between its reads a restore holds its backups: another host may have to read them again.
func TestRestore_HoldsItsBackupsUntilItIsOver(t *testing.T) {
	store, wire, lead, inc := formedIn(t)
	ctx, must := t.Context(), mustIn(t)
	dir := t.TempDir()
	_, err := take.Full(ctx, take.Config{Bucket: backup.Dir(dir), Cluster: "prod", Lineage: inc.ID, Scratch: t.TempDir(),
		Endpoints: []string{"http://" + wire.listener.Addr().String()}, Notify: func(take.Event) {}})
	must(err)
	task := cke.NewTask(cke.TaskRestore, "", "", "me@here", time.Now())
	task.Restore = &cke.RestoreOrder{Target: "file://" + dir, Source: "prod", Trust: []string{cke.TrustAny}}
	must(store.AskRestore(ctx, "prod", task, storage.RestoreAsked{}))
	s := &snapshots{store: store, term: &term{Term: lead}, cluster: "prod", dir: filepath.Join(t.TempDir(), "s"), scratch: t.TempDir(),
		holdEvery: time.Millisecond}
	if _, err := s.Fetch(ctx, task.ID, *task.Restore, nil, func(string) {}); err != nil {
		t.Fatal(err)
	}
	held := func() int {
		locks, err := os.ReadDir(filepath.Join(dir, ".locks", "prod"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return len(locks)
	}
	if held() != 1 {
		t.Errorf("%d locks, want that of the hold", held())
	}
	must(lead.FinishTask(ctx, task.ID)) // it was refused
	for end := time.Now().Add(time.Minute); held() > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the hold does not end with the restore")
		}
	}
}
