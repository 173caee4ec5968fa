package storage

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke"
)

func TestEscrow_HoldsAllThatABlankStoreNeedsAndNothingInClear(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Escrow(ctx, "prod"); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("there is no cluster yet: %v", err)
	}
	setCluster(t, s, "prod")
	setCluster(t, s, "other")
	term := campaign(t, s, "prod", "here")
	inc := cke.NewIncarnation(testCluster("prod"), nil, time.Now())
	if err := term.CreateIncarnation(ctx, inc); err != nil {
		t.Fatal(err)
	}
	if err := term.PutFreeze(ctx, cke.Freeze{ID: "f1"}); err != nil {
		t.Fatal(err)
	}
	if err := term.PinHostKey(ctx, "10.0.0.1", "ssh-ed25519 AAAA"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{secretRestoreKey, lentFor("t1")} {
		if err := s.Secrets("prod").CreateSecret(ctx, name, []byte("lent")); err != nil {
			t.Fatal(err)
		}
	}
	for cluster, value := range map[string]string{"prod": "top secret", "other": "not mine"} {
		if err := s.Secrets(cluster).CreateSecret(ctx, "pki/peer-ca", []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	general, own := newSSHKey(t, ""), newSSHKey(t, "")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.SetSSHKey(ctx, "", "", general))
	must(s.SetSSHKey(ctx, "prod", "cp/1", own))

	e, err := s.Escrow(ctx, "prod")
	must(err)
	if e.Format != cke.EscrowFormat || e.Cluster != "prod" || e.Identity.Incarnation.ID != inc.ID || len(e.Identity.Joins) != len(inc.Founders) ||
		e.Identity.Freeze != nil || e.HostKeys["10.0.0.1"] != "ssh-ed25519 AAAA" || !strings.HasPrefix(e.SealedWith, "age1") {
		t.Errorf("%+v", e)
	}
	want := map[string]string{"pki/peer-ca": "top secret", "ssh-key": string(general), "ssh-key/cp/1": string(own)}
	if len(e.Secrets) != len(want) {
		t.Fatalf("%d secrets", len(e.Secrets))
	}
	for _, secret := range e.Secrets {
		if bytes.Contains(secret.Age, []byte(want[secret.Name])) {
			t.Errorf("%s is in clear", secret.Name)
		}
		plain, err := OpenSealed(s.keyFile, e, secret)
		if err != nil || string(plain) != want[secret.Name] {
			t.Errorf("%s: %q %v", secret.Name, plain, err)
		}
	}
	must(s.SetSSHKey(ctx, "prod", "", own)) // the cluster's own key is the one that counts
	e, err = s.Escrow(ctx, "prod")
	must(err)
	for _, secret := range e.Secrets {
		if plain, err := OpenSealed(s.keyFile, e, secret); secret.Name == "ssh-key" && (err != nil || string(plain) != string(own)) {
			t.Errorf("%s: %v", secret.Name, err)
		}
	}

	moved := e.Secrets[0]
	moved.Key += "x"
	for name, row := range map[string]struct {
		file   string
		secret cke.SealedSecret
	}{
		"no key file":      {filepath.Join(t.TempDir(), "none"), e.Secrets[0]},
		"another key file": {anotherKey(t), e.Secrets[0]},
		"moved":            {s.keyFile, moved},
	} {
		if _, err := OpenSealed(row.file, e, row.secret); cke.CodeOf(err) != cke.CodeSecret {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// anotherKey makes a key file that sealed nothing.
func anotherKey(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret.key")
	if _, err := makeKeyFile(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	return path
}

func TestWatchCluster_TellsOfBackupCredentials(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	setCluster(t, s, "prod")
	states := s.WatchCluster(ctx, "prod")
	before := await(t, states, func(c ClusterState) bool { return c.Spec.Generation > 0 }).BackupCredentialsRevision
	for _, cluster := range []string{"prod", ""} {
		if err := s.SetBackupCredentials(ctx, cluster, BackupCredentials{AccessKey: "a", SecretKey: "b"}); err != nil {
			t.Fatal(err)
		}
		before = await(t, states, func(c ClusterState) bool { return c.BackupCredentialsRevision != before }).BackupCredentialsRevision
	}
	if err := s.DeleteBackupCredentials(ctx, "prod"); err != nil {
		t.Fatal(err)
	}
	await(t, states, func(c ClusterState) bool { return c.BackupCredentialsRevision != before })
}
