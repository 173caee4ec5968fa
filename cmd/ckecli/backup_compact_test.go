package main

import (
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"cke/backup"
)

func newIdentity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A new full that nobody can open who reads the backups now would end drills, merges and restores there.
func TestBackup_CompactForOthersIsConfirmed(t *testing.T) {
	ours, other := newIdentity(t), newIdentity(t)
	h := newBackedUpHouse(t, ours.Recipient())
	key := h.write("key.txt", ours.String()+"\n")
	compact := []string{"backup", "compact", "--target", h.url, "--key", key, "--recipient", other.Recipient().String()}
	fulls := len(h.objects("full"))
	_, stderr := h.run(exitRefused, compact...)
	contains(t, stderr, "The new full can be opened by "+other.Recipient().String()+" only; ", "error[CKE107]: merging backups for other recipients was not confirmed\n", "--yes")
	ask := h.onTerminal(compact...)
	ask.stdout.await(t, "No given key opens it: those who read the backups now may not be able to read it. Continue? [y/N] ")
	ask.types("\n")
	ask.must(exitRefused)
	if n := len(h.objects("full")); n != fulls {
		t.Fatalf("%d fulls, not %d", n, fulls)
	}
	stdout, _ := h.run(exitDone, append(compact, "--recipient", ours.Recipient().String(), "--revision", "9")...)
	contains(t, stdout, "holds revision 9, merged from the full before it")
	h.run(exitDone, append(compact, "--yes")...)
	if n := len(h.objects("full")); n != fulls+2 {
		t.Fatalf("%d fulls, not %d", n, fulls+2)
	}
	_, stderr = h.run(exitFailed, "backup", "extract", h.dir+"-x.db", "--target", h.url, "--key", key)
	contains(t, stderr, "CKE403")
}

// The recipients of the cluster file are those who read the backups, with or without a key at hand.
func TestBackup_CompactForTheClustersRecipientsAsksNothing(t *testing.T) {
	ours, other := newIdentity(t), newIdentity(t)
	h := newBackedUpHouse(t)
	h.withStore(t, "backup: {target: \""+h.url+"\", encryption: {recipients: [\""+ours.Recipient().String()+"\"]}}\n")
	_, stderr := h.run(exitRefused, "backup", "compact", "--recipient", other.Recipient().String())
	contains(t, stderr, "CKE107")
	_, stderr = h.run(exitDamaged, "backup", "compact", "--revision", "9") // this host signs, and nothing that is there is signed
	contains(t, stderr, "CKE417", "--trust any", "Nothing was changed.")
	_, stderr = h.run(exitDone, "backup", "compact", "--trust", "any", "--recipient", other.Recipient().String(), "--recipient", ours.Recipient().String(), "--revision", "9")
	contains(t, stderr, "can be opened by "+other.Recipient().String()+", "+ours.Recipient().String()+" only")
	if _, stderr = h.run(exitDone, "backup", "compact", "--trust", "any"); strings.Contains(stderr, "opened by") {
		t.Errorf("asked or told without need: %s", stderr)
	}
}

// Recipients were declared after the last full, and no other has been stored yet: what is encrypted is in deltas alone, and must not get into a full that is not.
func TestBackup_CompactOpensNoDeltas(t *testing.T) {
	ours := newIdentity(t)
	h := newBackedUpHouse(t)
	bucket, deltas := backup.Dir(h.dir), h.objects("delta")
	p, _ := backup.ParsePlace(strings.TrimPrefix(deltas[len(deltas)-1], h.dir+"/"))
	last, err := backup.ReadHeader(t.Context(), bucket, p)
	if err != nil {
		t.Fatal(err)
	}
	w, err := backup.NewDeltaWriter(h.last+1, []age.Recipient{ours.Recipient()})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add([]backup.Change{{Key: []byte("secret"), Value: []byte("x"), CreateRevision: h.last + 1, ModRevision: h.last + 1, Version: 1}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	next := backup.DeltaPlace(p.Cluster, p.Lineage, p.Stream, p.Sequence+1, h.last+1)
	content, _, err := w.Seal(backup.Header{Place: next, After: last.Link()})
	if err == nil {
		err = bucket.Create(t.Context(), next.Name(), content)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, stderr := h.run(exitRefused, "backup", "compact", "--target", h.url, "--key", h.write("key.txt", ours.String()+"\n"))
	contains(t, stderr, "are encrypted, and the new one would not be", "--recipient age1")
}
