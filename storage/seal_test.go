package storage

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"golang.org/x/crypto/ssh"

	"cke"
)

const marker = "no-eye-may-see-this-in-the-store"

func newSSHKey(t testing.TB, passphrase string) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(key, "")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

func TestSecrets_ComeBackAndAreNeverOverwritten(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	c := s.Secrets("prod")
	if _, err := c.Secret(ctx, "ca"); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if err := c.CreateSecret(ctx, "ca", []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateSecret(ctx, "ca", []byte("second")); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("got %v", err)
	}
	if got, err := c.Secret(ctx, "ca"); err != nil || string(got) != "first" {
		t.Errorf("got %q, %v", got, err)
	}
}

// A daemon that has just started serves the store a moment before it has its key.
func TestSecrets_WaitForTheKeyOfADaemonThatHasJustStarted(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	set := make(chan error, 1)
	go func() { set <- s.SetSSHKey(ctx, "", "", newSSHKey(t, "")) }()
	select {
	case err := <-set:
		t.Fatalf("without a key: %v", err)
	case <-time.After(keyPatience / 10):
	}
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-set; err != nil {
		t.Error(err)
	}
}

func TestSecrets_AreNowhereOnDiskInPlain(t *testing.T) {
	c := testConfig(t)
	e := startEmbeddedStore(t, c)
	s := openStore(t, c)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	key := newSSHKey(t, "")
	if err := s.Secrets("prod").CreateSecret(ctx, "ca", []byte(marker)); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"", "cp1"} {
		if err := s.SetSSHKey(ctx, "prod", node, key); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	e.Close()
	plain := [][]byte{[]byte(marker), bytes.Split(key, []byte("\n"))[2], []byte("PRIVATE KEY")}
	for _, p := range plain[:3] {
		plain = append(plain, []byte(base64.StdEncoding.EncodeToString(p))[:len(p)/3*4])
	}
	sealedThere := false
	filepath.WalkDir(c.Embedded.DataDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range plain {
			if bytes.Contains(b, p) {
				t.Errorf("%s holds %q", path, p)
			}
		}
		sealedThere = sealedThere || bytes.Contains(b, []byte(`"age":"`))
		return nil
	})
	if !sealedThere {
		t.Error("the search finds nothing at all")
	}
}

func TestSecrets_DoNotOpenInAnotherPlace(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	setCluster(t, s, "test")
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Secrets("prod").CreateSecret(ctx, "ca", []byte("x")); err != nil {
		t.Fatal(err)
	}
	stored, err := s.client.Get(ctx, s.keys.secret("prod", "ca"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Put(ctx, s.keys.secret("test", "ca"), string(stored.Kvs[0].Value)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Secrets("test").Secret(ctx, "ca"); cke.CodeOf(err) != cke.CodeSecret {
		t.Errorf("got %v", err)
	}
}

func TestOpenSecrets_RefusesAnyOtherKeyThanTheStores(t *testing.T) {
	c := testConfig(t)
	startEmbeddedStore(t, c)
	s := openStore(t, c)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Secrets("prod").CreateSecret(ctx, "ca", []byte("x")); err != nil {
		t.Fatal(err)
	}
	m, err := s.marker(ctx)
	if err != nil {
		t.Fatal(err)
	}
	right, err := os.ReadFile(c.SecretKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		spoil func() error
		says  []string
	}{
		"Missing":    {func() error { return os.Remove(c.SecretKeyFile) }, []string{"is missing", c.SecretKeyFile, m.Recipient, "copy"}},
		"Wrong":      {func() error { return os.WriteFile(c.SecretKeyFile, []byte(other.String()), 0o600) }, []string{"another key", c.SecretKeyFile, m.Recipient, other.Recipient().String()}},
		"Readable":   {func() error { return os.Chmod(c.SecretKeyFile, 0o640) }, []string{"mode 0640", c.SecretKeyFile, "chmod 600"}},
		"NoKeyInIt":  {func() error { return os.WriteFile(c.SecretKeyFile, []byte("AGE-SECRET-KEY-1OOPS"), 0o600) }, []string{"no age identity", m.Recipient}},
		"Empty":      {func() error { return os.WriteFile(c.SecretKeyFile, nil, 0o600) }, []string{c.SecretKeyFile, m.Recipient}},
		"TwoKeys":    {func() error { return os.WriteFile(c.SecretKeyFile, append(right, []byte(other.String())...), 0o600) }, []string{"one X25519 identity"}},
		"IsDirector": {func() error { os.Remove(c.SecretKeyFile); return os.Mkdir(c.SecretKeyFile, 0o700) }, []string{c.SecretKeyFile}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.spoil(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				os.RemoveAll(c.SecretKeyFile)
				writeFile(t, c.SecretKeyFile, string(right))
			})
			before, _ := os.ReadFile(c.SecretKeyFile)
			err := s.OpenSecrets(ctx)
			if cke.CodeOf(err) != cke.CodeSecret {
				t.Fatalf("got %v", err)
			}
			for _, part := range test.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "AGE-SECRET-KEY") {
				t.Errorf("%q tells the key", err)
			}
			if _, err := s.Secrets("prod").Secret(ctx, "ca"); cke.CodeOf(err) != cke.CodeSecret {
				t.Errorf("unsealed all the same: %v", err)
			}
			if after, _ := os.ReadFile(c.SecretKeyFile); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
			if now, err := s.marker(ctx); err != nil || now.Recipient != m.Recipient {
				t.Errorf("the store is sealed with %v, %v", now, err)
			}
		})
	}
	if err := s.OpenSecrets(ctx); err != nil {
		t.Errorf("with the right key again: %v", err)
	}
}

func TestOpenSecrets_NeverMakesAKeyOverSecrets(t *testing.T) {
	c := testConfig(t)
	startEmbeddedStore(t, c)
	s := openStore(t, c)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Secrets("prod").CreateSecret(ctx, "ca", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Delete(ctx, s.keys.sealedWith()); err != nil {
		t.Fatal(err)
	}
	os.Remove(c.SecretKeyFile)
	if err := s.OpenSecrets(ctx); cke.CodeOf(err) != cke.CodeSecret {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(c.SecretKeyFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a key was made: %v", err)
	}
}

func TestOpenSecrets_OfTwoFirstDaemonsOneWins(t *testing.T) {
	const daemons = 5
	c := testConfig(t)
	startEmbeddedStore(t, c)
	var mu sync.Mutex
	var won []string
	var wg sync.WaitGroup
	for range daemons {
		mine := c
		mine.SecretKeyFile = filepath.Join(t.TempDir(), "secret.key")
		s := openStore(t, mine)
		wg.Go(func() {
			err := s.OpenSecrets(testContext(t))
			_, there := os.Stat(mine.SecretKeyFile)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && there == nil:
				won = append(won, mine.SecretKeyFile)
			case cke.CodeOf(err) == cke.CodeSecret && errors.Is(there, fs.ErrNotExist):
			default:
				t.Errorf("got %v, and of the file %v", err, there)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("won: %v", won)
	}
	// The others start once they were given the winner's file.
	c.SecretKeyFile = won[0]
	if err := openStore(t, c).OpenSecrets(testContext(t)); err != nil {
		t.Error(err)
	}
}
