package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"cke"
	"cke/backup"
	"cke/storage"
)

// The private part of a recipient opens backups. It signs nothing that a restore believes.
func TestRestore_AKeyThatIsLentVouchesForNone(t *testing.T) {
	lent, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	store, _ := externalStore(t)
	if err := store.OpenSecrets(t.Context()); err != nil {
		t.Fatal(err)
	}
	declare(t, store, "prod")
	if err := store.Secrets("prod").CreateSecret(t.Context(), "restore-key/t1", []byte(lent.String())); err != nil {
		t.Fatal(err)
	}
	own, err := store.KeyIdentity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	from, err := (&snapshots{store: store, cluster: "prod"}).source(t.Context(), "t1", cke.RestoreOrder{Source: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	if len(from.Identities) != 2 || !slices.Equal(from.Trusted, backup.SignersOf([]age.Identity{own})) || from.AllowUntrusted {
		t.Errorf("%d identities, trusted %q", len(from.Identities), from.Trusted)
	}
	named := string(backup.NewSigner(lent).Public())
	from, err = (&snapshots{store: store, cluster: "prod"}).source(t.Context(), "t1", cke.RestoreOrder{Source: "prod", Trust: []string{named}})
	if err != nil || !slices.Contains(from.Trusted, backup.PublicKey(named)) {
		t.Errorf("a key that is named: %v, %v", from, err)
	}
}

// prod is a cluster of one node.
var prod = cke.Cluster{Name: "prod", Nodes: []cke.Node{{Address: "127.0.0.101", ControlPlane: true}}}.WithDefaults()

// mustIn returns what ends a test at an error.
func mustIn(t *testing.T) func(error) {
	return func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// formedIn is a store, the way to it, and a term of a cluster prod of one node whose incarnation is formed.
func formedIn(t *testing.T) (*storage.Store, *wire, *storage.Term, cke.Incarnation) {
	t.Helper()
	store, w := externalStore(t)
	ctx, must := t.Context(), mustIn(t)
	must(store.OpenSecrets(ctx))
	declare(t, store, "prod")
	lead, err := store.Campaign(ctx, "prod", "here")
	must(err)
	inc := cke.NewIncarnation(prod, nil, time.Now())
	must(lead.CreateIncarnation(ctx, inc))
	inc.State = cke.Formed
	must(lead.UpdateIncarnation(ctx, inc))
	return store, w, lead, inc
}

// Another restore may be asked for while one waits: what that one has fetched stays until the one that takes its place ends, with the
// steps of the operation in their order.
func TestRestore_KeepsWhatTheOneUnderWayNeeds(t *testing.T) {
	store, _, lead, _ := formedIn(t)
	ctx, must := t.Context(), mustIn(t)
	scratch := t.TempDir()
	leads := func() *snapshots {
		t.Helper()
		made, err := snapshotsOf(store, cke.Config{Backup: cke.BackupConfig{ScratchDir: scratch}}, slog.New(slog.DiscardHandler))(&term{Term: lead}, nil)
		must(err)
		return made.(*snapshots)
	}
	s := leads()
	must(os.MkdirAll(s.dir, 0o700))
	ask := func() cke.Task {
		t.Helper()
		task := cke.NewTask(cke.TaskRestore, "", "", "me@here", time.Now())
		task.Restore = &cke.RestoreOrder{Target: "file://" + t.TempDir(), Source: "prod"}
		must(store.AskRestore(ctx, "prod", task, storage.RestoreAsked{Key: []byte("AGE")}))
		must(os.WriteFile(s.file(task.ID), nil, 0o600))
		return task
	}
	begin := func(task cke.Task) cke.Incarnation {
		t.Helper()
		id, err := lead.Identity(ctx)
		must(err)
		next := cke.NewRestoration(prod, id, cke.Restoration{ID: task.ID}, time.Now())
		must(lead.BeginRestore(ctx, next))
		must(lead.FinishTask(ctx, task.ID))
		return next
	}
	left := func(want ...cke.Task) {
		t.Helper()
		var files []string
		for _, task := range want {
			files = append(files, filepath.Base(s.file(task.ID)))
			if _, err := store.RestoreKey(ctx, "prod", task.ID); err != nil {
				t.Errorf("the key of %s: %v", task.ID, err)
			}
		}
		slices.Sort(files)
		var names []string
		there, err := os.ReadDir(s.dir)
		must(err)
		for _, f := range there {
			names = append(names, f.Name())
		}
		if !slices.Equal(names, files) {
			t.Errorf("left are %v, want %v", names, files)
		}
	}
	fetch := func(id string) {
		t.Helper()
		if _, err := s.Fetch(ctx, id, cke.RestoreOrder{Target: "file://" + t.TempDir(), Source: "prod"}, nil, func(string) {}); err == nil || !strings.Contains(err.Error(), "no full backup") && !strings.Contains(err.Error(), "age identity") {
			t.Fatalf("an empty target has a backup: %v", err)
		}
	}
	waiting := ask()
	begin(waiting)
	must(os.WriteFile(s.file("other"), nil, 0o600))
	fetch("next")
	left(waiting)
	fetch(waiting.ID) // half of what it had fetched is not in its way
	left()
	must(os.WriteFile(s.file(waiting.ID), nil, 0o600))

	canceled := ask()
	inc := begin(canceled)
	must(lead.CancelRestore(ctx, inc)) // and the daemon is killed: the files stay until the next one leads
	s = leads()
	left(waiting)

	better := ask()
	inc = begin(better)
	next := ask()
	s = leads()
	left(waiting, better, next)
	id, err := lead.Identity(ctx)
	must(err)
	for i := range id.Joins { // record-start, forget-snapshot, record-formed
		id.Joins[i].StartedAt = time.Now().UTC()
	}
	must(lead.PutJoins(ctx, id, id.Joins...))
	must(s.Forget(ctx, better.ID))
	inc.State = cke.Formed
	must(lead.UpdateIncarnation(ctx, inc))
	left(next)
	// A host that does not lead the cluster, or of a cluster that was deleted.
	gone := &snapshots{dir: snapshotDir(scratch, "gone")}
	for _, of := range []*snapshots{s, gone} {
		must(os.MkdirAll(of.dir, 0o700))
		must(os.WriteFile(of.file("over"), nil, 0o600))
	}
	must(os.WriteFile(filepath.Join(gone.dir, "notes.txt"), nil, 0o600)) // a person's
	must(sweepSnapshots(ctx, store, scratch))
	left(next)
	if files, err := os.ReadDir(gone.dir); err != nil || len(files) != 1 || files[0].Name() != "notes.txt" {
		t.Errorf("of a cluster that is gone there are left %v, %v", files, err)
	}
	for _, task := range []cke.Task{waiting, better, canceled} {
		if _, err := store.RestoreKey(ctx, "prod", task.ID); !errors.Is(err, cke.ErrNotFound) {
			t.Errorf("the key of %s is left: %v", task.ID, err)
		}
	}
}

// The way out names the target, too: it need not be that of the cluster file.
func TestRestore_OfADamagedBackupNamesTheLastGoodRevision(t *testing.T) {
	damage := &backup.DamagedError{Object: "prod/a1b2/delta/00000000000000000003/0000000001-00000000000000000017.cke", LastGood: 16}
	err := cannotExtract(t.Context(), cke.RestoreOrder{Target: "s3://bucket/x?region=eu", Source: "prod"}, damage)
	e, is := err.(*cke.Error)
	if want := "ckecli restore --from 's3://bucket/x?region=eu' --source-cluster prod --lineage a1b2 --revision 16"; !is || e.Code != cke.CodeBackupDamaged || e.Try != want {
		t.Errorf("%+v", err)
	}
}

// A status that cannot be read does not say that nothing was stored.
func TestRestore_OfAnEarlierLifeIsRefusedWhereTheStatusCannotBeRead(t *testing.T) {
	store, wire := externalStore(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	must(store.OpenSecrets(ctx))
	declare(t, store, "prod")
	lead, err := store.Campaign(ctx, "prod", "here")
	must(err)
	must(lead.CreateIncarnation(ctx, cke.NewIncarnation(prod, nil, time.Now())))
	must(lead.PutStatus(ctx, cke.Status{Cluster: "prod"}))
	dir := t.TempDir()
	full := filepath.Join(dir, backup.FullPlace("prod", "a1b2", 7, time.Now()).Name())
	must(os.MkdirAll(filepath.Dir(full), 0o700))
	must(os.WriteFile(full, []byte("x"), 0o600))
	s := &snapshots{store: store, term: &term{Term: lead}, cluster: "prod", dir: t.TempDir(), scratch: t.TempDir()}
	order := cke.RestoreOrder{Target: "file://" + dir, Source: "prod"}
	if _, err := s.extract(ctx, "t1", order, func(string) {}); cke.CodeOf(err) != cke.CodeBackupDamaged {
		t.Fatalf("nothing was stored: %v", err)
	}

	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + wire.listener.Addr().String()}, Logger: zap.NewNop()})
	must(err)
	defer client.Close()
	keys, err := client.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	must(err)
	for _, kv := range keys.Kvs {
		if strings.HasSuffix(string(kv.Key), "status/prod") {
			_, err := client.Put(ctx, string(kv.Key), "{")
			must(err)
		}
	}
	for _, s.cluster = range []string{"prod", "other"} { // the store knows prod, whichever cluster is restored from its backups
		_, err = s.extract(ctx, "t1", order, func(string) {})
		if cke.CodeOf(err) != cke.CodeStore || !strings.Contains(err.Error(), "not known") || !strings.Contains(err.Error(), "--lineage a1b2") {
			t.Errorf("it is not known to a restore of %s: %v", s.cluster, err)
		}
	}
	order.Lineage = "a1b2"
	if _, err := s.extract(ctx, "t1", order, func(string) {}); cke.CodeOf(err) != cke.CodeBackupDamaged {
		t.Errorf("named: %v", err)
	}
}
