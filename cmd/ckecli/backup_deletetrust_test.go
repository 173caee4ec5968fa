package main

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"cke/backup"
)

// Without a key, what is signed cannot be told from what is forged. So nothing is deleted, and what prevents the key file from being read
// is named.
func TestBackup_DeletesNothingSignedWithoutAKey(t *testing.T) {
	id := newIdentity(t)
	h := newSignedHouse(t, backup.NewSigner(id))
	h.backUp("prod")
	key := string(h.signer.Public())
	old, before := strings.TrimSuffix(path.Base(h.objects("full")[0]), ".cke"), h.objects("full")
	commands := map[string][]string{
		"prune":  {"backup", "prune", "--keep-last", "1", "--confirm", "prod", "--target", h.url},
		"plan":   {"backup", "prune", "--keep-last", "1", "--dry-run", "--target", h.url},
		"delete": {"backup", "delete", old, "--confirm", "prod", "--target", h.url},
	}
	for name, args := range commands {
		_, stderr := h.run(exitDamaged, args...)
		contains(t, stderr, "CKE417", key, "management host", "--trust")
		if strings.Contains(stderr, "note:") {
			t.Errorf("%s: there is no key file: %s", name, stderr)
		}
	}
	file := h.write("secret.key", id.String()+"\n")
	h.config = h.write("config.yml", fmt.Sprintf("secret_key_file: %s\n", file))
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range commands {
		_, stderr := h.run(exitDamaged, args...)
		contains(t, stderr, "note: ", file, "can be read by others", "CKE417", key)
	}
	if left := h.objects("full"); !slices.Equal(left, before) {
		t.Fatalf("left of %q: %q", before, left)
	}
	another := h.write("another.key", newIdentity(t).String()+"\n")
	h.config = h.write("config.yml", fmt.Sprintf("secret_key_file: %s\n", another)) // of another cluster's hosts
	for _, args := range commands {
		_, stderr := h.run(exitDamaged, args...)
		contains(t, stderr, "CKE417", key)
	}
	h.config = h.write("config.yml", fmt.Sprintf("secret_key_file: %s\n", file))
	if left := h.objects("full"); !slices.Equal(left, before) {
		t.Fatalf("left of %q: %q", before, left)
	}
	h.run(exitDone, append(commands["plan"], "--trust", "any")...)
	h.run(exitDone, append(commands["delete"], "--trust", key)...)
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	h.run(exitDone, commands["prune"]...)
	if left := h.objects("full"); !slices.Equal(left, before[1:]) {
		t.Errorf("left of %q: %q", before, left)
	}
}

// The newest full is damaged, and was never read back.
func TestBackup_DeletesNothingOnAccountOfADamagedFull(t *testing.T) {
	h := newBackedUpHouse(t)
	before := h.objects("full")
	b, err := os.ReadFile(before[1])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-40] ^= 1 // its header is sound
	if err := os.WriteFile(before[1], b, 0o600); err != nil {
		t.Fatal(err)
	}
	old := strings.TrimSuffix(path.Base(before[0]), ".cke")
	prune := []string{"backup", "prune", "--keep-last", "1", "--confirm", "prod", "--target", h.url}
	_, stderr := h.run(exitDamaged, prune...)
	contains(t, stderr, "CKE401", "nothing was deleted", path.Base(before[1]), "does not count any more", "check signatures", "ckecli backup now")
	if strings.Contains(stderr, "no revision can be restored") {
		t.Errorf("all but one full can be restored: %s", stderr)
	}
	h.run(exitDone, prune...) // it does not count any more
	_, stderr = h.run(exitRefused, "backup", "delete", old, "--confirm", "prod", "--target", h.url)
	contains(t, stderr, "CKE406", "--force")
	if left := h.objects("full"); !slices.Equal(left, before) {
		t.Errorf("left of %q: %q", before, left)
	}
}

// A host that trusts a key and has none of its own cannot sign that a full is damaged, so it still counts for all that check signatures.
func TestBackup_SaysThatAnUnsignedMarkDoesNotCount(t *testing.T) {
	h := newSignedHouse(t, backup.NewSigner(newIdentity(t)))
	h.backUp("prod")
	before := h.objects("full")
	b, err := os.ReadFile(before[1])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-40] ^= 1
	if err := os.WriteFile(before[1], b, 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr := h.run(exitDamaged, "backup", "prune", "--keep-last", "1", "--confirm", "prod", "--target", h.url, "--trust", string(h.signer.Public()))
	contains(t, stderr, "CKE401", "nothing was deleted", path.Base(before[1]), "no key to sign", "management host")
	if left := h.objects("full"); !slices.Equal(left, before) {
		t.Errorf("left of %q: %q", before, left)
	}
}
