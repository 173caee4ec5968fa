package main

import (
	"encoding/json"
	"fmt"
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
