package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/target"
	"cke/clusterfile"
)

// A cluster was restored to other nodes and serves there when its management host is lost. If the state of an earlier incarnation is restored on another one, the
// members of the last incarnation may still run: the plan has to name them.
func TestRestore_KnowsTheMembersOfTheLastIncarnation(t *testing.T) {
	h := newSignedHouse(t, backup.NewSigner(newIdentity(t)))
	h.backUp("prod")
	to, err := target.Open(t.Context(), h.url, target.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	put := func(by *backup.Signer, lineage, file string, replaced ...string) {
		t.Helper()
		s := &backup.Store{Bucket: to, Cluster: "prod", Signer: by}
		c, _, err := clusterfile.ParseCluster("cluster.yml", []byte(file))
		if err != nil {
			t.Fatal(err)
		}
		inc := cke.NewIncarnation(c.WithDefaults(), nil, time.Now())
		inc.ID, inc.State, inc.Replaced = lineage, cke.Formed, replaced
		founders := inc.Founders
		for i := range founders {
			founders[i].Incarnation, founders[i].StartedAt = lineage, time.Now()
		}
		escrow, err := json.Marshal(cke.Escrow{Format: cke.EscrowFormat, Cluster: "prod", Identity: cke.NewIdentity(&inc, founders)})
		if err != nil {
			t.Fatal(err)
		}
		for kind, data := range map[backup.FileKind][]byte{backup.FileSpec: []byte(file), backup.FileIdentity: escrow} {
			if err := s.PutFile(t.Context(), lineage, kind, data); err != nil {
				t.Fatal(err)
			}
		}
	}
	elsewhere := func(prefix, first string) string {
		return strings.NewReplacer("10.0.0.1", prefix, "cp1", first+"1", "cp2", first+"2", "cp3", first+"3").Replace(clusterFile)
	}
	put(h.signer, "a1b2", clusterFile)
	put(h.signer, "c3d4", elsewhere("10.0.0.2", "second"), "a1b2")
	put(h.signer, "e5f6", elsewhere("10.0.0.4", "third"), "a1b2", "c3d4")
	// Whoever may write there says that the cluster went on elsewhere still.
	put(nil, "9999", elsewhere("10.0.0.6", "forged"), "a1b2", "c3d4", "e5f6")
	h.house = newHouse(t)
	signer := string(h.signer.Public())
	args := []string{"restore", "--from", h.url, "--source-cluster", "prod", "--trust", signer, "--plan"}
	_, stderr := h.run(exitRefused, args...)
	contains(t, stderr, "CKE419", "incarnation, e5f6, has no backups")
	stdout, stderr := h.run(exitDone, append(args, "--lineage", "a1b2")...)
	if !strings.Contains(stdout, "10.0.0.41") || strings.Contains(stdout, "10.0.0.61") {
		t.Errorf("the plan does not name the members of the last incarnation:\n%s%s", stdout, stderr)
	}
}
