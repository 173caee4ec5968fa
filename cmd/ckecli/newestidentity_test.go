package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cke/backup"
)

// On a new host the identity before the newest is not used without a word, whatever became of the newest: of members that were added
// later it says nothing. `backup verify` finds what became of it, also beside an incarnation of which no backup is stored yet.
func TestNewestIdentity_ThatCannotBeUsedIsNotPassedOver(t *testing.T) {
	remove := func(file string) error { return os.Remove(file) }
	damage := func(file string) error { return os.WriteFile(file, []byte("{}"), 0o600) }
	for what, c := range map[string]struct {
		signature bool
		harm      func(file string) error
	}{
		"the file is damaged":      {false, damage},
		"the file is lost":         {false, remove},
		"the signature is damaged": {true, damage},
		"the signature is lost":    {true, remove},
	} {
		t.Run(what, func(t *testing.T) {
			h := newLostHost(t)
			moved := elsewhere("10.0.0.2", "second")
			h.put(t, h.signer, "a1b2", clusterFile, identityOf(t, "a1b2", clusterFile))
			h.put(t, h.signer, "a1b2", moved, identityOf(t, "a1b2", moved))
			h.put(t, h.signer, "c3d4", clusterFile, identityOf(t, "c3d4", clusterFile))
			h.run(exitDone, append(h.args, "--lineage", "a1b2")...)
			verify := []string{"backup", "verify", "--target", h.url, "--trust", string(h.signer.Public())}
			h.run(exitDone, verify...)
			for _, lineage := range []string{"c3d4", "a1b2"} {
				all := h.objects(t, lineage+"/identity")
				name := all[len(all)-1]
				if c.signature {
					name = strings.Replace(name, "/identity/", "/signatures/"+string(backup.FileIdentity)+"-", 1)
				}
				if err := c.harm(filepath.Join(h.dir, name)); err != nil {
					t.Fatal(err)
				}
				if lineage == "a1b2" || !c.signature { // that of c3d4 is the only one: without its signature it is like one of an earlier version
					stdout, _ := h.run(exitDamaged, verify...)
					contains(t, stdout, all[len(all)-1])
				}
			}
			_, stderr := h.run(exitDamaged, h.args...)
			contains(t, stderr, "error[CKE401]", "may not name all members", "a1b2/identity/", "cp1 (10.0.0.11)")
		})
	}
}
