package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/storage"
)

// A cluster is declared for the data of another one, by a ckecli that cannot read the target, or reads another directory. The target has a
// cluster of its name, whose members may serve.
func TestRestore_OtherDataMakesNoSecondCluster(t *testing.T) {
	store, _ := externalStore(t)
	must := mustIn(t)
	must(store.OpenSecrets(t.Context()))
	from, own := t.TempDir(), filepath.Join(t.TempDir(), "own")
	c := prod
	c.Backup.Target = "file://" + own
	task := cke.NewTask(cke.TaskRestore, "", "", "me@here", time.Now())
	task.Restore = &cke.RestoreOrder{Target: "file://" + from, Source: "other"}
	must(store.AskRestore(t.Context(), "prod", task, storage.RestoreAsked{Declare: &storage.Declared{Cluster: c, Source: []byte("name: prod")}}))
	put := func(dir, cluster string) {
		must((&backup.Store{Bucket: backup.Dir(dir), Cluster: cluster}).PutFile(t.Context(), "a1b2", backup.FileIdentity, []byte("{}")))
	}
	put(from, "other")
	compare := func(what string, want cke.Code) {
		t.Helper()
		err := (&snapshots{store: store, cluster: "prod"}).compareFetched(t.Context(), task.ID, *task.Restore, func(string) {})
		if want == "" && err != nil || want != "" && cke.CodeOf(err) != want {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	compare("its own target is not mounted", cke.CodeTarget)
	must(os.Mkdir(own, 0o700))
	compare("nothing of its name", "")
	put(own, "prod")
	compare("its own target has a cluster of its name", cke.CodeOlderStore)
	must(os.RemoveAll(filepath.Join(own, "prod")))
	put(from, "prod")
	compare("the target of the data has a cluster of its name", cke.CodeOlderStore)

	lead, err := store.Campaign(t.Context(), "prod", "other")
	must(err)
	id, err := lead.Identity(t.Context())
	must(err)
	must(lead.BeginRestore(t.Context(), cke.NewRestoration(c, id, cke.Restoration{ID: task.ID, Order: *task.Restore, Compared: true}, time.Now())))
	resume := func(what string) {
		t.Helper()
		s := &snapshots{store: store, cluster: "prod"}
		if err := s.compare(t.Context(), task.ID, *task.Restore, &backup.Store{Bucket: backup.Dir(from), Cluster: "other"}, func(string) {}); err != nil {
			t.Errorf("another daemon continues it: %s: %v", what, err)
		}
	}
	resume("a deletion before it left backups of its name")
	must(os.RemoveAll(own))
	resume("its own target cannot be read any more")
}

// The store was lost, and the members moved since the copy of the cluster file was made that an operator stores: its nodes are blank, and the
// target has the cluster.
func TestBootstrap_MakesNoClusterBesideThatOfTheTarget(t *testing.T) {
	store, _ := externalStore(t)
	s, dir := &snapshots{store: store, cluster: "prod"}, t.TempDir()
	bootstrap := func(what string, id cke.Identity, want cke.Code) (notes string) {
		t.Helper()
		err := s.NoSecond(t.Context(), "file://"+dir, id, func(text string) { notes += text })
		if want == "" && err != nil || want != "" && cke.CodeOf(err) != want {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
		return notes
	}
	if notes := bootstrap("it is empty, as the place where it is mounted", cke.Identity{}, ""); !strings.Contains(notes, "not mounted") {
		t.Errorf("an empty directory: %q", notes)
	}
	mustIn(t)(os.WriteFile(filepath.Join(dir, "used"), nil, 0o600))
	if notes := bootstrap("nothing of its name is there", cke.Identity{}, ""); notes != "" {
		t.Errorf("nothing of its name: %q", notes)
	}
	mustIn(t)((&backup.Store{Bucket: backup.Dir(dir), Cluster: "prod"}).PutFile(t.Context(), "a1b2", backup.FileIdentity, []byte("{}")))
	bootstrap("the store has no record of it", cke.Identity{}, cke.CodeOlderStore)
	bootstrap("it was deleted", cke.Identity{Deleted: []string{"a1b2"}}, "")
	bootstrap("its bootstrap was abandoned", cke.NewIdentity(&cke.Incarnation{ID: "c3d4", Previous: []string{"a1b2"}, State: cke.Abandoned}, nil), "")
	mustIn(t)(os.RemoveAll(dir))
	if notes := bootstrap("the directory is missing", cke.Identity{}, ""); !strings.Contains(notes, "not mounted") {
		t.Errorf("a missing directory: %q", notes)
	}
	mustIn(t)(os.WriteFile(dir, nil, 0o600))
	if notes := bootstrap("it cannot be read", cke.Identity{}, ""); notes == "" {
		t.Error("it is not reported")
	}
}
