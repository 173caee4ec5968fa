package storage

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"cke"
)

func TestBackupCredentials_AreTheClustersThenThoseOfAll(t *testing.T) {
	c := testConfig(t)
	startEmbeddedStore(t, c)
	s := openStore(t, c)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	setCluster(t, s, "test")
	all, own := BackupCredentials{AccessKey: "ALL", SecretKey: "s1"}, BackupCredentials{AccessKey: "OWN", SecretKey: "s2", SessionToken: "t"}
	if err := s.SetBackupCredentials(ctx, "", all); cke.CodeOf(err) != cke.CodeSecret {
		t.Errorf("sealed before there is a key: %v", err)
	}
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.BackupCredentials(ctx, "prod"); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	noKey := c
	noKey.SecretKeyFile = filepath.Join(t.TempDir(), "none")
	setter := openStore(t, noKey) // sealing needs no private key
	for cluster, k := range map[string]BackupCredentials{"": all, "prod": own} {
		if err := setter.SetBackupCredentials(ctx, cluster, k); err != nil {
			t.Fatal(err)
		}
	}
	for cluster, want := range map[string]BackupCredentials{"prod": own, "test": all} {
		if got, err := s.BackupCredentials(ctx, cluster); err != nil || got != want {
			t.Errorf("%s: got those of %s, %v", cluster, got.AccessKey, err)
		}
	}
	if _, err := setter.BackupCredentials(ctx, "prod"); cke.CodeOf(err) != cke.CodeSecret {
		t.Errorf("without the key file: %v", err)
	}
	infos, err := s.ListBackupCredentials(ctx)
	if err != nil || len(infos) != 2 || infos[0].AccessKey != "ALL" || infos[1].Cluster != "prod" {
		t.Errorf("got %+v, %v", infos, err)
	}
	if err := s.SetBackupCredentials(ctx, "none", all); cke.CodeOf(err) != cke.CodeCluster {
		t.Errorf("of no cluster: %v", err)
	}
	if err := s.SetBackupCredentials(ctx, "", BackupCredentials{AccessKey: "x"}); cke.CodeOf(err) != cke.CodeConfig || strings.Contains(err.Error(), "s1") {
		t.Errorf("half of them: %v", err)
	}
}

// Requirement D4.
func TestDeleteBackupCredentials_RefusesWhileATargetNeedsThem(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "test")
	prod := setCluster(t, s, "prod")
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	c := BackupCredentials{AccessKey: "A", SecretKey: "s"}
	set := func(cluster string) {
		t.Helper()
		if err := s.SetBackupCredentials(ctx, cluster, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.DeleteBackupCredentials(ctx, ""); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	set("")
	if err := s.DeleteBackupCredentials(ctx, ""); err != nil {
		t.Errorf("nobody needs them: %v", err)
	}
	changed := prod.Cluster
	changed.Backup.Target = "s3://bucket/prefix?region=x"
	if _, err := s.SetSpec(ctx, "prod", changed, []byte("name: prod\n"), "me", SetOptions{}); err != nil {
		t.Fatal(err)
	}
	set("")
	if err := s.DeleteBackupCredentials(ctx, ""); !errors.Is(err, cke.ErrConflict) || !strings.Contains(err.Error(), "prod") {
		t.Errorf("prod needs them: got %v", err)
	}
	set("prod")
	if err := s.DeleteBackupCredentials(ctx, ""); err != nil {
		t.Errorf("prod has its own: %v", err)
	}
	if err := s.DeleteBackupCredentials(ctx, "prod"); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("the last: got %v", err)
	}
	set("")
	if err := s.DeleteBackupCredentials(ctx, "prod"); err != nil {
		t.Errorf("those of all are left: %v", err)
	}
}
