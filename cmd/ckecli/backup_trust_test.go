package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"cke/backup"
)

// The hash in all headers is another one than that of the data.
func TestBackup_IgnoresAHashIfAsked(t *testing.T) {
	h := newBackedUpHouse(t)
	for _, file := range append(h.objects("full"), h.objects("delta")...) {
		name, err := filepath.Rel(h.dir, file)
		p, ok := backup.ParsePlace(name)
		head, bad := backup.ReadHeader(t.Context(), backup.Dir(h.dir), p)
		whole, unread := os.ReadFile(file)
		if err := errors.Join(err, bad, unread, os.Remove(file)); err != nil || !ok {
			t.Fatal(name, err)
		}
		head.After, head.Base = nil, nil
		for i := range head.Hashes {
			head.Hashes[i].Hash ^= 1
		}
		c, err := backup.BodyContent(nil, whole[int64(len(whole))-head.BodySize:]).WithHeader(head)
		if err == nil {
			err = backup.Dir(h.dir).Create(t.Context(), name, c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "db")
	_, stderr := h.run(exitDamaged, "backup", "extract", out, "--target", h.url)
	contains(t, stderr, "CKE401", backup.HashAdvice)
	stdout, stderr := h.run(exitDone, "backup", "extract", out, "--ignore-hash", "--target", h.url)
	contains(t, stderr, "note: the data at revision ", "this was ignored, as requested")
	contains(t, stdout, "HashKV    not equal to the cluster's, which was ignored\n")
}

// Whose backups are accepted: the host's own key file's, those of keys that are named, or anybody's.
func TestBackup_TrustsWhoItIsToldTo(t *testing.T) {
	signer, other := newIdentity(t), newIdentity(t)
	h := newSignedHouse(t, backup.NewSigner(signer))
	h.backUp("prod")
	key := string(backup.NewSigner(signer).Public())
	stranger := string(backup.NewSigner(other).Public())
	extract := func(code int, args ...string) string {
		t.Helper()
		out := filepath.Join(t.TempDir(), "db")
		c := h.start(append([]string{"backup", "extract", out, "--target", h.url}, args...)...).must(code)
		if _, err := os.Stat(out); (err == nil) != (code == exitDone) {
			t.Errorf("%v: exit code %d and the file: %v", args, code, err)
		}
		return c.stdout.String() + c.stderr.String()
	}
	const unknown = "nothing here shows whether the key"
	contains(t, extract(exitDone), unknown, key) // no key file, and nobody named
	if text := extract(exitDone, "--trust", key); strings.Contains(text, unknown) {
		t.Errorf("the key was named:\n%s", text)
	}
	contains(t, extract(exitDone, "--trust", "any"), unknown)
	contains(t, extract(exitDamaged, "--trust", stranger), "CKE417", key)
	contains(t, extract(exitDamaged, "--trust", "nonsense"), "CKE417", "is not a signing key")

	// With a key file of its own a host trusts nobody else, unless it is told to.
	h.config = h.write("config.yml", fmt.Sprintf("secret_key_file: %s\n", h.write("secret.key", other.String()+"\n")))
	contains(t, extract(exitDamaged), "CKE417", key)
	if text := extract(exitDone, "--trust", key); strings.Contains(text, unknown) {
		t.Errorf("the key was named:\n%s", text)
	}
	h.write("secret.key", signer.String()+"\n")
	if text := extract(exitDone); strings.Contains(text, unknown) {
		t.Errorf("it is this host's own key:\n%s", text)
	}
}

// A full that a drill found wrong has a problem in the list.
func TestBackup_ListTellsWhatADrillFoundWrong(t *testing.T) {
	h := newBackedUpHouse(t)
	newest := path.Base(h.objects("full")[1])
	mark := fmt.Sprintf(`{"wrong":["a1b2/%s"]}`, strings.TrimSuffix(newest, ".cke"))
	file := filepath.Join(h.dir, "prod", "a1b2", "verified", fmt.Sprintf("20260101T000000.000Z-%x", sha256.Sum256([]byte(mark))))
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(mark), 0o600)); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	h.told(&b, exitDone, "backup", "list", "--target", h.url)
	if n := strings.Count(b.String(), "a restore drill found"); n != 1 {
		t.Errorf("%d problems:\n%s", n, b.String())
	}
}

// A drill that passes over the newest full is none that says that all is well.
func TestVerify_TellsThatTheNewestFullWasPassedOver(t *testing.T) {
	h := newBackedUpHouse(t)
	var b strings.Builder
	h.told(&b, exitDone, "backup", "compact", "--target", h.url)
	newest := h.objects("full")[2]
	place, _ := backup.ParsePlace("prod/a1b2/full/" + path.Base(newest))
	head, err := backup.ReadHeader(t.Context(), backup.Dir(h.dir), place)
	if err != nil || len(head.Hashes) == 0 {
		t.Fatal(head, err)
	}
	whole, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	head.Hashes[0].Hash ^= 1
	c, err := backup.BodyContent(nil, whole[int64(len(whole))-head.BodySize:]).WithHeader(head)
	if err := errors.Join(err, os.Remove(newest), backup.Dir(h.dir).Create(t.Context(), place.Name(), c)); err != nil {
		t.Fatal(err)
	}
	_, stderr := h.run(exitDamaged, "backup", "verify", "--restore", "--target", h.url)
	if !strings.Contains(stderr, "CKE401") || !strings.Contains(stderr, place.ID()+" was skipped") {
		t.Error(stderr)
	}
}
