package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cke"
	"cke/backup"
	"cke/backup/target"
)

// What a recipient of the encryption signs does not run as root on nodes because its key was lent to read the backups.
func TestRestore_DeclaresNothingThatALentKeySigned(t *testing.T) {
	genuine, recipient := newIdentity(t), newIdentity(t)
	h := newSignedHouse(t, backup.NewSigner(genuine))
	h.backUp("prod")
	to, err := target.Open(t.Context(), h.url, target.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	escrow, err := json.Marshal(cke.Escrow{Format: cke.EscrowFormat, Cluster: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	signer := backup.NewSigner(recipient)
	theirs := &backup.Store{Bucket: to, Cluster: "prod", Signer: signer}
	for kind, data := range map[backup.FileKind][]byte{backup.FileSpec: []byte(clusterFile), backup.FileIdentity: escrow} {
		if err := theirs.PutFile(t.Context(), "a1b2", kind, data); err != nil {
			t.Fatal(err)
		}
	}
	h.house = newHouse(t)
	key := h.write("recipient.key", recipient.String()+"\n")
	restore := []string{"restore", "--from", h.url, "--source-cluster", "prod", "--key", key, "--plan"}
	_, stderr := h.run(exitDamaged, restore...)
	contains(t, stderr, "CKE417", fmt.Sprintf("--trust %s", signer.Public()))
	h.run(exitDone, append(restore, "--trust", string(signer.Public()))...) // as for a former management host
}

// On a blank host nothing but the identity beside the backups says that there was a later incarnation.
func TestRestore_DeclaresNoStateBeforeTheLastLife(t *testing.T) {
	h := newLostHost(t)
	put := func(by *backup.Signer, lineage string, replaced ...string) {
		t.Helper()
		h.put(t, by, lineage, clusterFile, identityOf(t, lineage, clusterFile, replaced...))
	}
	args := h.args
	refused := func(what string) {
		t.Helper()
		t.Log(what)
		_, stderr := h.run(exitRefused, args...)
		contains(t, stderr, "error[CKE419]", "incarnation, c3d4, has no backups in this target", "--lineage a1b2")
		stdout, _ := h.run(exitDone, append(args, "--lineage", "a1b2")...)
		contains(t, stdout, "cluster file, members and authorities are those of the last ")
	}
	put(h.signer, "c3d4", "a1b2")
	put(nil, "9999", "a1b2", "c3d4") // whoever may write there
	refused("nothing lies beside the backups of the earlier one")
	put(h.signer, "a1b2")
	refused("its own identity lies beside the backups of the earlier one")

	file := h.write("prod.yml", clusterFile)
	_, stderr := h.run(exitRefused, append(args, "-f", file)...)
	contains(t, stderr, "error[CKE419]", "--lineage a1b2")

	for _, folder := range []string{"identity", "spec", "signatures"} {
		h.remove(t, "c3d4/"+folder)
	}
	stdout, _ := h.run(exitDone, args...)
	if strings.Contains(stdout, "has no backups") || strings.Contains(stdout, "last incarnation") {
		t.Errorf("the last incarnation has backups: %s", stdout)
	}
}
