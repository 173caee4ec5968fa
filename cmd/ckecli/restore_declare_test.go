package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/target"
	"cke/clusterfile"
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
	h := newSignedHouse(t, backup.NewSigner(newIdentity(t)))
	h.backUp("prod")
	to, err := target.Open(t.Context(), h.url, target.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	s := &backup.Store{Bucket: to, Cluster: "prod", Signer: h.signer}
	c, _, err := clusterfile.ParseCluster("cluster.yml", []byte(clusterFile))
	if err != nil {
		t.Fatal(err)
	}
	put := func(s *backup.Store, lineage string, replaced ...string) {
		t.Helper()
		inc := cke.NewIncarnation(c.WithDefaults(), nil, time.Now())
		inc.ID, inc.State, inc.Replaced = lineage, cke.Formed, replaced
		for i := range inc.Founders {
			inc.Founders[i].Incarnation, inc.Founders[i].StartedAt = lineage, time.Now()
		}
		escrow, err := json.Marshal(cke.Escrow{Format: cke.EscrowFormat, Cluster: "prod", Identity: cke.NewIdentity(&inc, inc.Founders)})
		if err != nil {
			t.Fatal(err)
		}
		for kind, data := range map[backup.FileKind][]byte{backup.FileSpec: []byte(clusterFile), backup.FileIdentity: escrow} {
			if err := s.PutFile(t.Context(), lineage, kind, data); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.house = newHouse(t)
	args := []string{"restore", "--from", h.url, "--source-cluster", "prod", "--trust", string(h.signer.Public()), "--plan"}
	refused := func(what string) {
		t.Helper()
		t.Log(what)
		_, stderr := h.run(exitRefused, args...)
		contains(t, stderr, "error[CKE419]", "incarnation, c3d4, has no backups in this target", "--lineage a1b2")
		stdout, _ := h.run(exitDone, append(args, "--lineage", "a1b2")...)
		contains(t, stdout, "cluster file, members and authorities are those of the last ")
	}
	put(s, "c3d4", "a1b2")
	put(&backup.Store{Bucket: to, Cluster: "prod"}, "9999", "a1b2", "c3d4") // whoever may write there
	refused("nothing lies beside the backups of the earlier one")
	put(s, "a1b2")
	refused("its own identity lies beside the backups of the earlier one")

	file := h.write("prod.yml", clusterFile)
	_, stderr := h.run(exitRefused, append(args, "-f", file)...)
	contains(t, stderr, "error[CKE419]", "--lineage a1b2")

	for _, folder := range []string{"identity", "spec", "signatures"} {
		all, err := to.List(t.Context(), "prod/c3d4/"+folder+"/")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			if err := to.Delete(t.Context(), o.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	stdout, _ := h.run(exitDone, args...)
	if strings.Contains(stdout, "has no backups") || strings.Contains(stdout, "last incarnation") {
		t.Errorf("the last incarnation has backups: %s", stdout)
	}
}
