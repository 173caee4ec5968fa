package main

import (
	"slices"
	"testing"

	"filippo.io/age"

	"cke"
	"cke/backup"
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
	if err := store.Secrets("prod").CreateSecret(t.Context(), "restore-key", []byte(lent.String())); err != nil {
		t.Fatal(err)
	}
	own, err := store.KeyIdentity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	from, err := (&snapshots{store: store, cluster: "prod"}).source(t.Context(), cke.RestoreOrder{Source: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	if len(from.Identities) != 2 || !slices.Equal(from.Trusted, backup.SignersOf([]age.Identity{own})) || from.AllowUntrusted {
		t.Errorf("%d identities, trusted %q", len(from.Identities), from.Trusted)
	}
	named := string(backup.NewSigner(lent).Public())
	from, err = (&snapshots{store: store, cluster: "prod"}).source(t.Context(), cke.RestoreOrder{Source: "prod", Trust: []string{named}})
	if err != nil || !slices.Contains(from.Trusted, backup.PublicKey(named)) {
		t.Errorf("a key that is named: %v, %v", from, err)
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
