package main

import (
	"os"
	"path/filepath"
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
}
