package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/storage"
)

// besideTest is an order to restore from a target, as orderedIn makes it, and a signer whose files count there.
type besideTest struct {
	*testing.T
	*snapshots
	task   cke.Task
	dir    string
	life   string
	signer *backup.Signer
}

func newBeside(t *testing.T) *besideTest {
	t.Helper()
	s, task, dir := orderedIn(t)
	own, err := s.store.KeyIdentity(t.Context())
	mustIn(t)(err)
	id, err := s.store.Identity(t.Context(), "prod")
	mustIn(t)(err)
	return &besideTest{t, s, task, dir, id.Incarnation.ID, backup.NewSigner(own)}
}

// put stores an identity beside the backups of an incarnation.
func (b *besideTest) put(by *backup.Signer, lineage string, format int, id cke.Identity) {
	b.Helper()
	data, err := json.Marshal(cke.Escrow{Format: format, Cluster: "prod", Identity: id})
	mustIn(b.T)(err)
	s := &backup.Store{Bucket: backup.Dir(b.dir), Cluster: "prod", Signer: by}
	mustIn(b.T)(s.PutFile(b.Context(), lineage, backup.FileIdentity, data))
}

// damage alters the newest identity of an incarnation.
func (b *besideTest) damage(lineage string) {
	b.Helper()
	all, err := filepath.Glob(filepath.Join(b.dir, "prod", lineage, "identity", "*"))
	mustIn(b.T)(err)
	mustIn(b.T)(os.Chmod(all[len(all)-1], 0o600))
	mustIn(b.T)(os.WriteFile(all[len(all)-1], []byte("{}"), 0o600))
}

// fetch is what a daemon does that has just begun to lead: notes are what it reports.
func (b *besideTest) fetch(accepted ...string) (notes string, err error) {
	daemon := &snapshots{store: b.store, term: b.term, cluster: b.cluster, dir: b.snapshots.dir, scratch: b.scratch, holdEvery: time.Hour}
	o := *b.task.Restore
	o.Accepted = accepted
	_, err = daemon.Fetch(b.Context(), b.task.ID, o, nil, func(text string) { notes += text + "\n" })
	return notes, err
}

// refused checks a fetch; "": it is not refused.
func (b *besideTest) refused(what string, code cke.Code, texts []string, accepted ...string) {
	b.Helper()
	notes, err := b.fetch(accepted...)
	if code == "" && err != nil || code != "" && cke.CodeOf(err) != code {
		b.Errorf("%s: %v", what, err)
		return
	}
	if coded := new(cke.Error); errors.As(err, &coded) {
		notes = strings.Join(append(coded.Facts, coded.What, coded.Try), "\n")
	}
	for _, text := range texts {
		if !strings.Contains(notes, text) {
			b.Errorf("%s: %q is missing in %s", what, text, notes)
		}
	}
}

// stored is the identity in the store, with members that were started on nodes.
func (b *besideTest) stored(nodes ...string) cke.Identity {
	b.Helper()
	id, err := b.store.Identity(b.Context(), "prod")
	mustIn(b.T)(err)
	for _, n := range nodes {
		id.Joins = append(id.Joins, cke.Join{ID: cke.JoinID("join-" + n), Incarnation: b.life, Node: cke.Node{Address: n}, StartedAt: time.Now()})
	}
	return id
}

// The store is older than its cluster, and no node shows that. A restore reads the target anyway: it is refused by what lies there, whichever target
// that is (none is declared here), and whether the data was fetched before or not.
func TestRestore_IsComparedByWhatItReads(t *testing.T) {
	b := newBeside(t)
	b.refused("of an earlier version, which stored no identity", "", []string{"no identity lies beside the backups of the present incarnation"})
	b.put(nil, b.life, cke.EscrowFormat, b.stored("127.0.0.104"))
	b.refused("a file that anybody may have written, with a member that the store lacks", cke.CodeOlderStore, []string{"the member of 127.0.0.104"})
	b.refused("an operator has judged it", "", []string{"cannot be read, which is accepted"}, "join-127.0.0.104", b.life+"/identity")
	mustIn(t)(os.RemoveAll(filepath.Join(b.dir, "prod", b.life, "identity")))
	b.put(nil, b.life, cke.EscrowFormat, b.stored())
	b.refused("a file that anybody may have written, with what the store has", "", []string{"not signed by a key that is trusted"})
	b.put(b.signer, b.life, cke.EscrowFormat, b.stored())
	b.refused("the store is the newest", "", nil)
	b.put(b.signer, b.life, cke.EscrowFormat, b.stored("127.0.0.104"))
	b.refused("fetched before, by a daemon that then ended", cke.CodeOlderStore, []string{"the member of 127.0.0.104", "--accept join-127.0.0.104"})
	mustIn(t)(os.RemoveAll(b.snapshots.dir))
	b.refused("read now", cke.CodeOlderStore, []string{"the member of 127.0.0.104"}, b.life+"/identity")
	b.refused("the operator knows that it is gone", "", nil, "join-127.0.0.104")
}

// What cannot be read may name other members than what can.
func TestRestore_WhatCannotBeComparedIsAccepted(t *testing.T) {
	for what, spoil := range map[string]func(b *besideTest){
		"damaged": func(b *besideTest) {
			b.put(b.signer, b.life, cke.EscrowFormat, b.stored("127.0.0.104"))
			b.damage(b.life)
		},
		"of a later version": func(b *besideTest) { b.put(b.signer, b.life, cke.EscrowFormat+1, b.stored("127.0.0.104")) },
	} {
		b := newBeside(t)
		b.put(b.signer, b.life, cke.EscrowFormat, b.stored())
		spoil(b)
		unread := b.life + "/identity"
		b.refused(what, cke.CodeBackupDamaged, []string{"may not name all members", "--accept " + unread})
		b.refused(what+", another one accepted", cke.CodeBackupDamaged, nil, "c3d4/identity")
		b.refused(what+", accepted", "", []string{"cannot be read, which is accepted"}, unread)
		b.put(b.signer, b.life, cke.EscrowFormat, b.stored("127.0.0.105"))
		b.refused(what+", accepted, and it can be read by now", cke.CodeOlderStore, []string{"the member of 127.0.0.105"}, unread)
	}
}

// The identity that is damaged is one that this store has had all of, as the status has on record: it says nothing that the store does not have.
func TestRestore_KnowsADamagedIdentityByItsDigest(t *testing.T) {
	b := newBeside(t)
	b.put(b.signer, b.life, cke.EscrowFormat, b.stored())
	all, err := filepath.Glob(filepath.Join(b.dir, "prod", b.life, "identity", "*"))
	mustIn(t)(err)
	data, err := os.ReadFile(all[len(all)-1])
	mustIn(t)(err)
	b.damage(b.life)
	b.refused("unknown", cke.CodeBackupDamaged, nil)
	mustIn(t)(b.term.PutStatus(t.Context(), cke.Status{Cluster: "prod", Targets: []cke.BackupTarget{{URL: b.task.Restore.Target, Beside: []string{fmt.Sprintf("%x", sha256.Sum256(data))}}}}))
	b.refused("known", "", nil)
}

// The target has the identity of an incarnation that a restore made, of which the store, which was brought back, has no record. Those that it
// replaced are no concern.
func TestRestore_OfAStoreThatLacksARestore(t *testing.T) {
	b := newBeside(t)
	of := func(life string, replaced ...string) cke.Identity {
		inc := *b.stored().Incarnation
		inc.ID, inc.Replaced = life, replaced
		return cke.NewIdentity(&inc, nil)
	}
	b.put(b.signer, b.life, cke.EscrowFormat, b.stored())
	b.put(b.signer, "deleted", cke.EscrowFormat, of("deleted")) // an earlier cluster of this name
	b.refused("nothing replaced it", "", nil)
	b.put(b.signer, "c3d4", cke.EscrowFormat, of("c3d4", b.life))
	b.refused("a later incarnation", cke.CodeOlderStore, []string{"incarnation c3d4", "--accept c3d4"})
	b.damage("c3d4")
	b.refused("it is damaged", cke.CodeBackupDamaged, []string{"--accept c3d4/identity"}, "c3d4")
	b.refused("it is accepted", "", nil, "c3d4/identity")
}

// A restore is on record and is resumed on another host. It was compared, unless an earlier version recorded it: then it is now.
func TestRestore_ThatIsResumedIsCompared(t *testing.T) {
	for _, compared := range []bool{true, false} {
		b := newBeside(t)
		b.put(b.signer, b.life, cke.EscrowFormat, b.stored())
		b.refused("before it is on record", "", nil)
		id := b.stored()
		recordedFor(t, b.snapshots, b.task, compared)
		b.put(b.signer, b.life, cke.EscrowFormat, id)
		b.refused("as it was", "", nil)
		b.put(b.signer, b.life, cke.EscrowFormat+1, id)
		code := cke.CodeBackupDamaged
		if compared {
			code = ""
		}
		b.refused("it cannot be read any more", code, nil)
		id.Joins = append(id.Joins, b.stored("127.0.0.104").Joins...)
		b.put(b.signer, b.life, cke.EscrowFormat, id)
		code = cke.CodeOlderStore
		if compared {
			code = "" // what is on this host needs no target
		}
		b.refused("fetched before", code, nil)
		mustIn(t)(os.RemoveAll(b.snapshots.dir))
		b.refused("on another host", cke.CodeOlderStore, []string{"ckecli restore --cancel"})
	}
}

// An operator accepted what the store lacks when the cluster was frozen for it.
func TestRestore_IsNotRefusedForWhatWasAccepted(t *testing.T) {
	b := newBeside(t)
	ctx := t.Context()
	b.put(b.signer, b.life, cke.EscrowFormat, b.stored("127.0.0.104"))
	f := cke.NewFreeze(cke.FreezeOlderStore, cke.OlderStore([]string{"join-127.0.0.104"}), cke.Problem{}, cke.EtcdStatus{})
	mustIn(t)(b.term.PutFreeze(ctx, f))
	b.refused("frozen", cke.CodeOlderStore, nil)
	f.LiftedAt = time.Now()
	mustIn(t)(b.term.PutFreeze(ctx, f))
	b.refused("accepted", "", nil)
}

// counting counts requests to a bucket.
type counting struct {
	backup.Bucket
	lists, reads int
}

func (c *counting) List(ctx context.Context, prefix string) ([]backup.Object, error) {
	c.lists++
	return c.Bucket.List(ctx, prefix)
}

func (c *counting) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	c.reads++
	return c.Bucket.Open(ctx, name, offset, length)
}

// A restore of a healthy cluster takes one listing and two small reads more than its data.
func TestRestore_TheComparisonIsCheap(t *testing.T) {
	b := newBeside(t)
	b.put(b.signer, b.life, cke.EscrowFormat, b.stored())
	c := &counting{Bucket: backup.Dir(b.dir)}
	from, target, err := b.open(t.Context(), b.task.ID, *b.task.Restore)
	mustIn(t)(err)
	defer target.Close()
	from.Bucket = c
	mustIn(t)(b.compare(t.Context(), b.task.ID, *b.task.Restore, from, func(string) {}))
	if c.lists != 1 || c.reads != 2 {
		t.Errorf("%d listings, %d reads", c.lists, c.reads)
	}
}

// What is restored is not the cluster's: the data that was imported into it, or the backups of another cluster. What lies beside the cluster's own
// backups in that target says all the same whether the store has all members.
func TestRestore_OfOtherDataIsComparedToo(t *testing.T) {
	b := newBeside(t)
	b.refused("its own backups", "", nil)
	data, err := backup.OpenImport(t.Context(), b.file(b.task.ID), true)
	mustIn(t)(err)
	defer data.Close()
	b.task.Restore.Source = backup.ImportName("prod")
	into := &backup.Store{Bucket: backup.Dir(b.dir), Cluster: b.task.Restore.Source, Signer: b.signer, Scratch: t.TempDir()}
	place, err := into.Import(t.Context(), data, backup.ImportOptions{})
	mustIn(t)(err)
	b.task.Restore.Lineage, b.task.Restore.Revision = place.Lineage, place.Revision
	b.put(b.signer, b.life, cke.EscrowFormat, b.stored("127.0.0.104"))
	b.refused("fetched before", cke.CodeOlderStore, []string{"the member of 127.0.0.104", "--accept join-127.0.0.104"})
	mustIn(t)(os.RemoveAll(b.snapshots.dir))
	b.refused("read now", cke.CodeOlderStore, []string{"the member of 127.0.0.104"})
	b.damage(b.life)
	b.refused("damaged", cke.CodeBackupDamaged, []string{"beside the backups of prod cannot be read"})
	b.refused("accepted", "", nil, b.life+"/identity")
}

// A cluster is declared from a copy of its backups, while the target that its cluster file names has a newer identity: no keeper compares it with that.
func TestRestore_OfADeclaredClusterIsComparedWithItsOwnTarget(t *testing.T) {
	store, _ := externalStore(t)
	must := mustIn(t)
	must(store.OpenSecrets(t.Context()))
	key, err := store.KeyIdentity(t.Context())
	must(err)
	copied, own := t.TempDir(), t.TempDir()
	c := prod
	c.Backup.Target = "file://" + own
	inc := cke.NewIncarnation(prod, nil, time.Now())
	inc.State = cke.Formed
	id := cke.NewIdentity(&inc, inc.Founders)
	task := cke.NewTask(cke.TaskRestore, "", "", "me@here", time.Now())
	task.Restore = &cke.RestoreOrder{Target: "file://" + copied, Source: "prod"}
	must(store.AskRestore(t.Context(), "prod", task, storage.RestoreAsked{Declare: &storage.Declared{Cluster: c, Source: []byte("name: prod"), Identity: id}}))
	b := &besideTest{t, &snapshots{store: store, cluster: "prod"}, task, own, inc.ID, backup.NewSigner(key)}
	compare := func(accepted ...string) (notes string, err error) {
		o := *task.Restore
		o.Accepted = accepted
		err = (&snapshots{store: store, cluster: "prod"}).compareFetched(t.Context(), task.ID, o, func(text string) { notes += text })
		return notes, err
	}
	b.put(b.signer, inc.ID, cke.EscrowFormat, id)
	if notes, err := compare(); err != nil {
		t.Errorf("as in the copy: %s %v", notes, err)
	}
	later := id
	later.Joins = append(slices.Clone(id.Joins), cke.Join{ID: "moved", Incarnation: inc.ID, Node: cke.Node{Address: "127.0.0.104"}, StartedAt: time.Now()})
	b.put(b.signer, inc.ID, cke.EscrowFormat, later)
	if _, err := compare(); cke.CodeOf(err) != cke.CodeOlderStore {
		t.Errorf("a newer identity: %v", err)
	}
	if notes, err := compare("moved"); err != nil {
		t.Errorf("accepted: %s %v", notes, err)
	}
	must(os.RemoveAll(own))
	must(os.WriteFile(own, nil, 0o600))
	if notes, err := compare(); err != nil || !strings.Contains(notes, "target that the cluster file names cannot be read") {
		t.Errorf("the target is lost: %q %v", notes, err)
	}
}
