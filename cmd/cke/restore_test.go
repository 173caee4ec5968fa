package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

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

// Another restore may be asked for while one waits: what that one has fetched stays.
func TestRestore_KeepsWhatTheOneUnderWayNeeds(t *testing.T) {
	store, _ := externalStore(t)
	if err := store.OpenSecrets(t.Context()); err != nil {
		t.Fatal(err)
	}
	declare(t, store, "prod")
	lead, err := store.Campaign(t.Context(), "prod", "here")
	if err != nil {
		t.Fatal(err)
	}
	spec := cke.Cluster{Name: "prod", Nodes: []cke.Node{{Address: "127.0.0.101", ControlPlane: true}}}.WithDefaults()
	inc := cke.NewIncarnation(spec, nil, time.Now())
	if err := lead.CreateIncarnation(t.Context(), inc); err != nil {
		t.Fatal(err)
	}
	inc.State = cke.Formed
	if err := lead.UpdateIncarnation(t.Context(), inc); err != nil {
		t.Fatal(err)
	}
	task := cke.NewTask(cke.TaskRestore, "", "", "me@here", time.Now())
	task.Restore = &cke.RestoreOrder{Target: "file:///b", Source: "prod"}
	if err := store.AskRestore(t.Context(), "prod", task, storage.RestoreAsked{}); err != nil {
		t.Fatal(err)
	}
	id, err := lead.Identity(t.Context())
	if err == nil {
		err = lead.BeginRestore(t.Context(), cke.NewRestoration(spec, id, cke.Restoration{ID: task.ID}, time.Now()))
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &snapshots{store: store, term: &term{Term: lead}, cluster: "prod", dir: t.TempDir()}
	fetched, other := s.file(task.ID), s.file("other")
	for _, file := range []string{fetched, other} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Fetch(t.Context(), "next", cke.RestoreOrder{Target: "file://" + t.TempDir(), Source: "prod"}, nil, func(string) {}); err == nil {
		t.Fatal("an empty target has a backup")
	}
	left, err := os.ReadDir(s.dir)
	if err != nil || len(left) != 1 || left[0].Name() != filepath.Base(fetched) {
		t.Errorf("left are %v, %v", left, err)
	}
	again := func() error {
		_, err := s.Fetch(t.Context(), task.ID, cke.RestoreOrder{Target: "file://" + t.TempDir(), Source: "prod"}, nil, func(string) {})
		return err
	}
	if err := again(); err == nil || !strings.Contains(err.Error(), "no full backup") {
		t.Errorf("half of what it had fetched is in its way: %v", err)
	}
	if err := os.WriteFile(fetched, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Forget(t.Context(), task.ID); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
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
