package storage

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"cke"
)

func TestSSHKey_IsTheNodesThenTheClustersThenThatOfAll(t *testing.T) {
	c := testConfig(t)
	startEmbeddedStore(t, c)
	s := openStore(t, c)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	setCluster(t, s, "test")
	all, cluster, node := newSSHKey(t, ""), newSSHKey(t, ""), newSSHKey(t, "")

	if err := s.SetSSHKey(ctx, "", "", all); cke.CodeOf(err) != cke.CodeSecret {
		t.Errorf("sealed before there is a key: %v", err)
	}
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	_, err := s.SSHKey(ctx, "prod", "cp1")
	if cke.CodeOf(err) != cke.CodeNoSSHKey || !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	noKey := c
	noKey.SecretKeyFile = filepath.Join(t.TempDir(), "none") // sealing needs no private key
	setter := openStore(t, noKey)
	for _, k := range []struct {
		cluster, node string
		pem           []byte
	}{{"", "", all}, {"prod", "", cluster}, {"prod", "cp1", node}} {
		if err := setter.SetSSHKey(ctx, k.cluster, k.node, k.pem); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []struct {
		cluster, node string
		pem           []byte
	}{{"prod", "cp1", node}, {"prod", "cp2", cluster}, {"prod", "", cluster}, {"test", "cp1", all}} {
		if got, err := s.SSHKey(ctx, want.cluster, want.node); err != nil || !bytes.Equal(got, want.pem) {
			t.Errorf("%s/%s: got another key, %v", want.cluster, want.node, err)
		}
	}
	infos, err := s.SSHKeys(ctx)
	if err != nil || len(infos) != 3 {
		t.Fatalf("got %v, %v", infos, err)
	}
	signer, err := ssh.ParsePrivateKey(all)
	if err != nil {
		t.Fatal(err)
	}
	if got := infos[0]; got.Cluster != "" || got.Fingerprint != ssh.FingerprintSHA256(signer.PublicKey()) || !strings.HasPrefix(got.PublicKey, "ssh-ed25519 AAAA") {
		t.Errorf("got %+v", got)
	}
}

// Requirement D4: a key in use stays.
func TestDeleteSSHKey_RefusesToLeaveANodeWithout(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	set := func(cluster, node string) {
		t.Helper()
		if err := s.SetSSHKey(ctx, cluster, node, newSSHKey(t, "")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.DeleteSSHKey(ctx, "prod", ""); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	set("", "")
	if err := s.DeleteSSHKey(ctx, "", ""); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("the only key of all: got %v", err)
	}
	set("prod", "cp1")
	if err := s.DeleteSSHKey(ctx, "", ""); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("cp2 needs it: got %v", err)
	}
	set("prod", "")
	for _, k := range [][2]string{{"", ""}, {"prod", "cp1"}} {
		if err := s.DeleteSSHKey(ctx, k[0], k[1]); err != nil {
			t.Errorf("%v: %v", k, err)
		}
	}
	if err := s.DeleteSSHKey(ctx, "prod", ""); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("the last: got %v", err)
	}
}

func TestSetSSHKey_RefusesWhatCannotBeUsed(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string][]byte{"Passphrase": newSSHKey(t, "secret"), "NoKey": []byte("x"), "Nothing": nil} {
		if err := s.SetSSHKey(ctx, "prod", "", key); cke.CodeOf(err) != cke.CodeSSHKey {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
