package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cke"
)

// The newest state of an earlier life is restored only on a person's word while backups of the present one were stored: these are missing.
func TestRestore_AnEarlierLifeIsNamedOrNoted(t *testing.T) {
	h := newBackedUpHouse(t)
	h.withStore(t, "backup: {target: \""+h.url+"\"}\n")
	l := h.lead("prod")
	inc := h.incarnation(l, "")
	has := "present incarnation, " + inc.ID + ", has no backups in this target"
	stdout, _ := h.run(exitDone, "restore", "--plan")
	contains(t, stdout, has, "a1b2")
	l.status(cke.Status{Backup: &cke.BackupStatus{Target: h.url, Lineage: inc.ID, Revision: 7}})
	_, stderr := h.run(exitRefused, "restore", "--plan")
	contains(t, stderr, "error[CKE419]", has, "--lineage a1b2")
	h.run(exitDone, "restore", "--plan", "--lineage", "a1b2")

	// The leader has noticed the loss: its figures are those of what is left.
	before, now := cke.Status{Backup: &cke.BackupStatus{Target: h.url, Lineage: inc.ID, Revision: 7}}, &cke.BackupStatus{Target: h.url, TargetID: "M1", Lineage: inc.ID, Known: true}
	l.status(cke.Status{Backup: now, Targets: before.KnownTargets(now)})
	_, stderr = h.run(exitRefused, "restore", "--plan")
	contains(t, stderr, "error[CKE419]", has, "--lineage a1b2")

	l.status(cke.Status{Backup: now})
	stdout, _ = h.run(exitDone, "restore", "--plan")
	contains(t, stdout, has)
	for what, unread := range map[string]unreadable{"the status": {status: errors.New("timed out")}, "the identity": {identity: errors.New("timed out")}} {
		h.opened = func(s store) store { unread.store = s; return unread }
		_, stderr = h.run(exitRefused, "restore", "--plan")
		t.Log("without " + what)
		contains(t, stderr, "error[CKE102]", "not known", "timed out", "--lineage a1b2")
		h.run(exitDone, "restore", "--plan", "--lineage", "a1b2")
	}
}

// storedHouse is a house whose store knows how far its backups led, once the cluster is lost.
func storedHouse(t *testing.T) (*backedUpHouse, *leader, cke.BackupStatus) {
	t.Helper()
	h := newBackedUpHouse(t)
	h.withStore(t, "backup: {target: \""+h.url+"\"}\n")
	l := h.lead("prod")
	h.incarnation(l, "a1b2")
	stored := cke.BackupStatus{Target: h.url, TargetID: "M1", Lineage: "a1b2", Known: true, Connected: true, Revision: h.last}
	l.status(cke.Status{Backup: &stored, Health: cke.HealthLost})
	return h, l, stored
}

// setBack removes the newest backups from the target.
func (h *backedUpHouse) setBack() {
	h.t.Helper()
	deltas := h.objects("delta")
	for _, d := range deltas[len(deltas)-2:] {
		if err := os.Remove(d); err != nil {
			h.t.Fatal(err)
		}
	}
}

// The cluster is gone, and the target no longer leads to all that was stored in it: that is refused, unless the operator names the incarnation.
func TestRestore_BackupsThatAreKnownToBeMissing(t *testing.T) {
	h, l, stored := storedHouse(t)
	h.run(exitDone, "restore", "--plan")
	h.setBack()
	now := stored
	now.Revision, now.Problem = h.fulls[1], &cke.BackupTrouble{Work: "take", Code: cke.CodeLostBackups, Message: "missing"}
	was := cke.Status{Backup: &stored, Health: cke.HealthLost}
	for _, s := range []cke.Status{was, {Backup: &now, Targets: was.KnownTargets(&now), Health: cke.HealthLost}} { // before and after a leader noticed it
		l.status(s)
		_, stderr := h.run(exitRefused, "restore", "--plan")
		contains(t, stderr, "error[CKE419]", fmt.Sprintf("stored up to revision %d", h.last), "--lineage a1b2")
		stdout, _ := h.run(exitDone, "restore", "--plan", "--lineage", "a1b2")
		contains(t, stdout, fmt.Sprintf("stored up to revision %d", h.last))
	}
}

// Another cluster is restored from the backups of one in the same store, which knows what is missing.
func TestRestore_AnotherClusterFromBackupsThatAreKnownToBeMissing(t *testing.T) {
	h, _, _ := storedHouse(t)
	h.setBack()
	file := h.write("other.yml", strings.NewReplacer("prod", "other", "10.0.0.", "10.0.9.").Replace(clusterFile))
	args := []string{"restore", "--plan", "--from", h.url, "--source-cluster", "prod", "--file", file}
	_, stderr := h.run(exitRefused, args...)
	contains(t, stderr, "error[CKE419]", fmt.Sprintf("stored up to revision %d", h.last), "--lineage a1b2")
	stdout, _ := h.run(exitDone, append(args, "--lineage", "a1b2")...)
	contains(t, stdout, fmt.Sprintf("stored up to revision %d", h.last))
}

// Backups of another cluster do not become a cluster of a name under which the target has one that the store does not know.
func TestRestore_AnotherClustersBackupsBesideThoseOfTheName(t *testing.T) {
	h, _, _ := storedHouse(t)
	file := h.write("other.yml", strings.NewReplacer("prod", "other", "10.0.0.", "10.0.9.").Replace(clusterFile))
	args := []string{"restore", "--plan", "--from", h.url, "--source-cluster", "prod", "--file", file}
	h.run(exitDone, args...)
	h.backUp("other")
	_, stderr := h.run(exitRefused, args...)
	contains(t, stderr, "error[CKE317]", "backups of a cluster other", "its members may serve", "another name")
	_, stderr = h.run(exitRefused, append(args, "--profile", "x", "--from", "s3://b/x?region=eu-west-1")...) // no such profile
	contains(t, stderr, "error[CKE405]", "may have another cluster other", "--credentials")
}

// An extract of the newest state is refused as a restore of it is, unless no store is read.
func TestBackupExtract_RefusesTheNewestStateIfALaterOneWasStored(t *testing.T) {
	h, _, _ := storedHouse(t)
	h.setBack()
	out := func() string { return filepath.Join(t.TempDir(), "db") }
	_, stderr := h.run(exitFailed, "backup", "extract", out())
	contains(t, stderr, "error[CKE419]", fmt.Sprintf("stored up to revision %d", h.last), "--lineage a1b2")
	_, stderr = h.run(exitDone, "backup", "extract", out(), "--lineage", "a1b2")
	contains(t, stderr, fmt.Sprintf("stored up to revision %d", h.last))
	h.run(exitDone, "backup", "extract", out(), "--target", h.url)
	h.opened = func(s store) store { return unreadable{store: s, identity: errors.New("timed out")} }
	_, stderr = h.run(exitStore, "backup", "extract", out())
	contains(t, stderr, "error[CKE102]", "not known", "timed out", "--lineage a1b2")
}

// The leader reads the target again, which may have changed since: the order says what the operator confirmed.
func TestRestore_TheOrderHasWhatThePlanShowed(t *testing.T) {
	h := newBackedUpHouse(t)
	h.withStore(t, "backup: {target: \""+h.url+"\"}\n")
	h.form(h.lead("prod"))
	h.run(exitDone, "restore", "--confirm", "prod", "--no-wait")
	asked, err := h.store.RequestsOf(h.ctx(), "prod")
	if err != nil || len(asked.Tasks) != 1 {
		t.Fatalf("%+v, %v", asked.Tasks, err)
	}
	id, err := h.store.Identity(h.ctx(), "prod")
	if err != nil || id.Incarnation == nil {
		t.Fatalf("%+v, %v", id, err)
	}
	if o := asked.Tasks[0].Restore; o.ShownIncarnation != id.Incarnation.ID || o.ShownGeneration != 1 {
		t.Errorf("%+v", o)
	}
	if o := asked.Tasks[0].Restore; o.ShownLineage != "a1b2" || o.ShownRevision != h.last || o.Lineage != "" || o.Revision != 0 {
		t.Errorf("%+v", o)
	}
}

// Without the key file it is not known here what the leader leaves out: the order confirms no state that it may never find.
func TestRestore_TheOrderHasNoStateFromAHostWithoutTheKeyFile(t *testing.T) {
	h := newBackedUpHouse(t)
	h.withStore(t, "backup: {target: \""+h.url+"\"}\n")
	h.lead("prod")
	if err := os.Remove(filepath.Join(h.house.dir, "secret.key")); err != nil {
		t.Fatal(err)
	}
	stdout, _ := h.run(exitDone, "restore", "--plan")
	contains(t, stdout, fmt.Sprintf("revision %d", h.last), "Note: no key file can be read here")
	h.run(exitDone, "restore", "--confirm", "prod", "--no-wait")
	asked, err := h.store.RequestsOf(h.ctx(), "prod")
	if err != nil || len(asked.Tasks) != 1 {
		t.Fatalf("%+v, %v", asked.Tasks, err)
	}
	if o := asked.Tasks[0].Restore; o.ShownLineage != "" || o.ShownRevision != 0 {
		t.Errorf("%+v", o)
	}
}

// A restore ends in the store before its record does: the command waits for the record, which says why.
func TestRestore_SaysWhyItWasCalledOffOnceTheRecordHasEnded(t *testing.T) {
	h := newBackedUpHouse(t)
	h.withStore(t, "backup: {target: \""+h.url+"\"}\n")
	l := h.lead("prod")
	formed := h.form(l)
	over := make(chan struct{}, 100)
	h.opened = func(s store) store { return noticing{store: s, over: over} }
	c := h.start("restore", "--confirm", "prod")
	task := h.awaitTask()
	begun := l.begin(cke.Record{Operation: "begin-restore", Task: task.ID})
	inc := cke.Incarnation{ID: "b1", State: cke.Restoring, Restore: &cke.Restoration{ID: task.ID, Order: *task.Restore, Before: formed.Incarnation}}
	if err := l.term.BeginRestore(h.ctx(), inc); err != nil {
		t.Fatal(err)
	}
	l.end(begun)
	restoring := threeServing(1)
	restoring.Health = cke.HealthRestoring
	l.status(restoring)
	work := l.begin(cke.Record{Operation: "restore", Targets: []string{"cp1"}})
	c.stderr.awaitTimes(t, "restore", 1)
	if err := l.term.CancelRestore(h.ctx(), inc); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time that it reads so, it did not end the first time
		l.status(restoring)
		select {
		case <-over:
		case <-c.ended:
			t.Fatalf("it ended before the record did: %s", c.stderr)
		}
	}
	why := &cke.Error{Code: cke.CodeNotStored, What: "the last writes could not be stored, so the restore was called off"}
	work.State, work.EndedAt, work.Error, work.Code, work.Refusal = cke.RecordFailed, work.StartedAt, why.Error(), why.Code, cke.RefusalOf(why)
	l.put(work)
	l.status(threeServing(1))
	c.must(exitFailed)
	contains(t, c.stderr.String(), "error["+string(cke.CodeNotStored)+"]: the last writes could not be stored, so the restore was called off")
}

// noticing is a store that says so whenever an identity without a restore was read after one with it.
type noticing struct {
	store
	over chan struct{}
}

func (n noticing) Identity(ctx context.Context, cluster string) (cke.Identity, error) {
	id, err := n.store.Identity(ctx, cluster)
	if err == nil && id.Incarnation != nil && id.Incarnation.Restore == nil {
		n.over <- struct{}{}
	}
	return id, err
}

// unreadable is a store of which something cannot be read.
type unreadable struct {
	store
	status, identity error
}

func (u unreadable) Status(ctx context.Context, cluster string) (cke.Status, error) {
	if u.status != nil {
		return cke.Status{}, u.status
	}
	return u.store.Status(ctx, cluster)
}

func (u unreadable) Identity(ctx context.Context, cluster string) (cke.Identity, error) {
	if u.identity != nil {
		return cke.Identity{}, u.identity
	}
	return u.store.Identity(ctx, cluster)
}
