package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/target"
	"cke/clusterfile"
)

// lostHost is a new host of a cluster that has backups of one incarnation, a1b2.
type lostHost struct {
	*backedUpHouse
	to   *target.Target
	args []string // a restore that is only planned
}

func newLostHost(t *testing.T) *lostHost {
	t.Helper()
	h := newSignedHouse(t, backup.NewSigner(newIdentity(t)))
	h.backUp("prod")
	to, err := target.Open(t.Context(), h.url, target.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { to.Close() })
	h.house = newHouse(t)
	return &lostHost{h, to, []string{"restore", "--from", h.url, "--source-cluster", "prod", "--trust", string(h.signer.Public()), "--plan"}}
}

// identityOf is the identity of a cluster whose members were started.
func identityOf(t *testing.T, lineage, file string, replaced ...string) cke.Identity {
	t.Helper()
	c, _, err := clusterfile.ParseCluster("cluster.yml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	inc := cke.NewIncarnation(c.WithDefaults(), nil, time.Now())
	inc.ID, inc.State, inc.Replaced = lineage, cke.Formed, replaced
	for i := range inc.Founders {
		inc.Founders[i].Incarnation, inc.Founders[i].StartedAt = lineage, time.Now()
	}
	return cke.NewIdentity(&inc, inc.Founders)
}

// put writes the files beside the backups of an incarnation.
func (h *lostHost) put(t *testing.T, by *backup.Signer, lineage, file string, id cke.Identity) {
	t.Helper()
	escrow, err := json.Marshal(cke.Escrow{Format: cke.EscrowFormat, Cluster: "prod", Identity: id})
	if err != nil {
		t.Fatal(err)
	}
	s := &backup.Store{Bucket: h.to, Cluster: "prod", Signer: by}
	for kind, data := range map[backup.FileKind][]byte{backup.FileSpec: []byte(file), backup.FileIdentity: escrow} {
		if err := s.PutFile(t.Context(), lineage, kind, data); err != nil {
			t.Fatal(err)
		}
	}
}

// objects are the names of what lies in a folder of an incarnation.
func (h *lostHost) objects(t *testing.T, folder string) (names []string) {
	t.Helper()
	all, err := h.to.List(t.Context(), "prod/"+folder+"/")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		names = append(names, o.Name)
	}
	return names
}

func (h *lostHost) remove(t *testing.T, folder string) {
	t.Helper()
	lineage, kind, _ := strings.Cut(folder, "/")
	signatures := slices.DeleteFunc(h.objects(t, lineage+"/signatures"), func(name string) bool { return !strings.HasPrefix(path.Base(name), kind+"-") })
	for _, name := range append(signatures, h.objects(t, folder)...) {
		if err := h.to.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
}

// damageNewest alters the newest file of a folder.
func (h *lostHost) damageNewest(t *testing.T, folder string) {
	t.Helper()
	all := h.objects(t, folder)
	if err := os.WriteFile(filepath.Join(h.dir, all[len(all)-1]), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// elsewhere is a cluster file of other nodes.
func elsewhere(prefix, first string) string {
	return strings.NewReplacer("10.0.0.1", prefix, "cp1", first+"1", "cp2", first+"2", "cp3", first+"3").Replace(clusterFile)
}

// A cluster was restored to other nodes and serves there when its management host is lost. If the state of an earlier incarnation is restored on another one, the
// members of the last incarnation may still run: the plan has to name them. A copy of the backups may lack cluster files.
func TestRestore_KnowsTheMembersOfTheLastIncarnation(t *testing.T) {
	h := newLostHost(t)
	second, third, forged := elsewhere("10.0.0.2", "second"), elsewhere("10.0.0.4", "third"), elsewhere("10.0.0.6", "forged")
	h.put(t, h.signer, "a1b2", clusterFile, identityOf(t, "a1b2", clusterFile))
	h.put(t, h.signer, "c3d4", second, identityOf(t, "c3d4", second, "a1b2"))
	h.put(t, h.signer, "e5f6", third, identityOf(t, "e5f6", third, "a1b2", "c3d4"))
	// Whoever may write there says that the cluster went on elsewhere still.
	h.put(t, nil, "9999", forged, identityOf(t, "9999", forged, "a1b2", "c3d4", "e5f6"))
	file := h.write("prod.yml", clusterFile)
	for _, args := range [][]string{h.args, append(h.args, "--file", file)} {
		_, stderr := h.run(exitRefused, args...)
		contains(t, stderr, "CKE419", "incarnation, e5f6, has no backups")
		stdout, stderr := h.run(exitDone, append(args, "--lineage", "a1b2")...)
		if !strings.Contains(stdout, "10.0.0.41") || strings.Contains(stdout, "10.0.0.61") {
			t.Errorf("the plan does not name the members of the last incarnation:\n%s%s", stdout, stderr)
		}
		for _, lineage := range []string{"a1b2", "c3d4", "e5f6"} {
			h.remove(t, lineage+"/spec")
		}
	}
	_, stderr := h.run(exitRefused, append(h.args, "--file", file)...)
	contains(t, stderr, "CKE419", "incarnation, e5f6, has no backups")
	_, stderr = h.run(exitRefused, append(h.args, "--lineage", "a1b2")...)
	contains(t, stderr, "only its cluster file is missing", "--file FILE")
}

// A cluster is declared from a copy of its backups of before it moved; the target that its own cluster file names has the identity of after that.
func TestRestore_ComparesWhatItDeclaresWithItsOwnTarget(t *testing.T) {
	h := newLostHost(t)
	own := filepath.Join(h.house.dir, "own")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	file := clusterFile + "backup: {target: \"file://" + own + "\"}\n"
	was := identityOf(t, "a1b2", file)
	h.put(t, h.signer, "a1b2", file, was)
	to := *h
	var err error
	if to.to, err = target.Open(t.Context(), "file://"+own, target.Credentials{}); err != nil {
		t.Fatal(err)
	}
	defer to.to.Close()
	to.put(t, h.signer, "a1b2", file, was)
	h.run(exitDone, h.args...)
	moved := identityOf(t, "a1b2", elsewhere("10.0.0.2", "second"))
	moved.Ended = was.Joins
	to.put(t, h.signer, "a1b2", file, moved)
	id := string(moved.Joins[0].ID)
	for _, args := range [][]string{h.args, append(h.args, "--file", h.write("prod.yml", file)), append(h.args, "--lineage", "a1b2")} {
		_, stderr := h.run(exitRefused, args...)
		contains(t, stderr, "error[CKE317]", "the member of second1", "--accept "+id)
	}
	accept := slices.Clone(h.args)
	for _, j := range moved.Joins {
		accept = append(accept, "--accept", string(j.ID))
	}
	h.run(exitDone, accept...)
	if err := errors.Join(os.RemoveAll(own), os.WriteFile(own, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	stdout, _ := h.run(exitDone, h.args...)
	contains(t, stdout, "target that the cluster file names cannot be read from here")
}

// While a cluster is restored in place, the identity beside the backups of its former incarnation shows the restore under way,
// and stays like that. The restored cluster moved since.
func TestRestore_KnowsTheMembersOfARestoreThatWasUnderWay(t *testing.T) {
	h := newLostHost(t)
	was := identityOf(t, "a1b2", clusterFile)
	c, _, err := clusterfile.ParseCluster("cluster.yml", []byte(clusterFile))
	if err != nil {
		t.Fatal(err)
	}
	inc := cke.NewRestoration(c.WithDefaults(), was, cke.Restoration{}, time.Now())
	underWay, err := was.Restoring(inc)
	if err != nil {
		t.Fatal(err)
	}
	moved := elsewhere("10.0.0.2", "second")
	h.put(t, h.signer, "a1b2", clusterFile, underWay)
	h.put(t, h.signer, inc.ID, moved, identityOf(t, inc.ID, moved, "a1b2"))
	stdout, stderr := h.run(exitDone, append(h.args, "--lineage", "a1b2")...)
	if !strings.Contains(stdout, "10.0.0.21") {
		t.Errorf("the plan does not name the members of the restored cluster:\n%s%s", stdout, stderr)
	}
}

// The newest identity is damaged. The one before it may be from before members were added: they may serve.
func TestRestore_UsesAnOlderIdentityOnlyWhereTheOperatorSaysSo(t *testing.T) {
	h := newLostHost(t)
	h.put(t, h.signer, "a1b2", clusterFile, identityOf(t, "a1b2", clusterFile))
	moved := elsewhere("10.0.0.2", "second")
	h.put(t, h.signer, "a1b2", moved, identityOf(t, "a1b2", moved))
	h.damageNewest(t, "a1b2/spec")
	stdout, _ := h.run(exitDone, h.args...)
	contains(t, stdout, "an older cluster file is used")

	h.damageNewest(t, "a1b2/identity")
	for _, args := range [][]string{h.args, append(h.args, "--file", h.write("prod.yml", clusterFile))} {
		_, stderr := h.run(exitDamaged, args...)
		contains(t, stderr, "error[CKE401]", "may not name all members", "a1b2/identity/", "cp1 (10.0.0.11)", "--accept a1b2/identity")
		if strings.Contains(stderr, "no revision can be restored") {
			t.Errorf("the backups are not damaged: %s", stderr)
		}
		h.run(exitDamaged, append(args, "--lineage", "a1b2")...) // that names a state
		stdout, _ := h.run(exitDone, append(args, "--accept", "a1b2/identity")...)
		contains(t, stdout, "which is accepted", "members that were added later are not known")
	}
}

// The identity of a later incarnation is damaged: that there is one, and who serves in it, is not known to be harmless.
func TestRestore_ADamagedIdentityOfALaterIncarnationIsNoNote(t *testing.T) {
	h := newLostHost(t)
	h.put(t, h.signer, "a1b2", clusterFile, identityOf(t, "a1b2", clusterFile, "9999"))
	later := elsewhere("10.0.9.1", "x")
	h.put(t, h.signer, "c3d4", later, identityOf(t, "c3d4", later, "a1b2", "9999"))
	h.put(t, h.signer, "9999", clusterFile, identityOf(t, "9999", clusterFile))
	h.damageNewest(t, "9999/identity") // known to be an earlier one
	_, stderr := h.run(exitRefused, h.args...)
	contains(t, stderr, "error[CKE419]")
	h.damageNewest(t, "c3d4/identity")
	for _, args := range [][]string{h.args, append(h.args, "--lineage", "a1b2"), append(h.args, "--accept", "a1b2/identity")} {
		_, stderr = h.run(exitDamaged, args...)
		contains(t, stderr, "error[CKE401]", "c3d4/identity/", "cp1 (10.0.0.11)", "--accept c3d4/identity")
	}
	stdout, _ := h.run(exitDone, append(h.args, "--accept", "c3d4/identity")...)
	contains(t, stdout, "of incarnation c3d4 cannot be read, which is accepted")
}

// Nothing lies beside the backups, or not the identity: the plan says that members may be unknown.
func TestRestore_SaysWhereMembersAreNotKnown(t *testing.T) {
	h := newLostHost(t)
	args := append(h.args, "--file", h.write("prod.yml", clusterFile))
	stdout, _ := h.run(exitDone, args...)
	contains(t, stdout, "no identity lies beside the backups, so the nodes of ")

	h.put(t, h.signer, "a1b2", clusterFile, identityOf(t, "a1b2", clusterFile, "9999"))
	for _, lineage := range []string{"9999", "c3d4"} {
		h.put(t, h.signer, lineage, clusterFile, identityOf(t, lineage, clusterFile))
		h.remove(t, lineage+"/identity")
	}
	stdout, _ = h.run(exitDone, args...)
	contains(t, stdout, "no identity lies beside the backups of incarnation c3d4; if that incarnation is a later one, its members are not known")
	if strings.Contains(stdout, "9999") {
		t.Errorf("an incarnation that is known to be an earlier one: %s", stdout)
	}
}

// Anybody can put any number of small objects where signatures are. They hide no identity: it is read, and the error says what to delete before more is.
func TestRestore_ReadsTheIdentityBesideManySignaturesOfAnybody(t *testing.T) {
	h := newLostHost(t)
	h.put(t, h.signer, "a1b2", clusterFile, identityOf(t, "a1b2", clusterFile))
	junk := func(from, to int) {
		t.Helper()
		for n := from; n < to; n++ {
			for _, kind := range []string{"identity", "spec"} {
				if err := os.WriteFile(filepath.Join(h.dir, "prod", "a1b2", "signatures", fmt.Sprintf("%s-20990101T000000.%03dZ-%064x", kind, n, n)), []byte("{}"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	junk(0, 100)
	h.run(exitDone, h.args...)
	junk(100, 130)
	_, stderr := h.run(exitDamaged, h.args...)
	contains(t, stderr, "error[CKE401]", "the 100 newest signatures of files that are missing, down to prod/a1b2/signatures/identity-20990101T000000.030Z-", "delete these", "cp1 (10.0.0.11)", "--accept a1b2/identity")
	stdout, _ := h.run(exitDone, append(h.args, "--accept", "a1b2/identity")...)
	contains(t, stdout, "which is accepted")
}

// The only identity cannot be read. Accepting that declares no nodes: a file does, and the plan says what is lost.
func TestRestore_WhereNoIdentityCanBeRead(t *testing.T) {
	h := newLostHost(t)
	h.put(t, h.signer, "a1b2", clusterFile, identityOf(t, "a1b2", clusterFile))
	h.damageNewest(t, "a1b2/identity")
	h.run(exitDamaged, h.args...)
	accepted := append(h.args, "--accept", "a1b2/identity")
	_, stderr := h.run(exitDamaged, accepted...)
	contains(t, stderr, "error[CKE401]", "no older identity of the cluster can be read", "--file FILE")
	if strings.Contains(stderr, "only its cluster file is missing") {
		t.Errorf("the identity is what cannot be read: %s", stderr)
	}
	stdout, _ := h.run(exitDone, append(accepted, "--file", h.write("prod.yml", clusterFile))...)
	contains(t, stdout, "no identity beside the backups can be read, which is accepted", "new certificate authorities")
}

// The identity of a later incarnation has lost its signature, and backups of that incarnation are signed: its members are not passed over.
func TestRestore_AnUnsignedIdentityOfALaterIncarnationIsNoNote(t *testing.T) {
	h := newLostHost(t)
	h.put(t, h.signer, "c3d4", clusterFile, identityOf(t, "c3d4", clusterFile))
	h.put(t, nil, "a1b2", clusterFile, identityOf(t, "a1b2", clusterFile, "c3d4")) // the backups of a1b2 are signed
	args := append(h.args, "--lineage", "c3d4")
	_, stderr := h.run(exitDamaged, args...)
	contains(t, stderr, "error[CKE401]", "incarnation a1b2", "no trusted key signed it", "--accept a1b2/identity")
}
