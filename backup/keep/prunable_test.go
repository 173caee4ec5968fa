package keep_test

import (
	"context"
	"testing"

	"filippo.io/age"

	"cke"
	"cke/backup/internal/etcdtest"
	"cke/backup/take"
)

// takeFulls takes so many fulls, each of another revision.
func (h *house) takeFulls(n int) {
	h.Helper()
	for range n {
		h.put("x")
		h.full()
	}
}

// signedHouse is a house with a key file of its own.
func signedHouse(t *testing.T) *house {
	t.Helper()
	t.Parallel()
	return signedHouseAlone(t)
}

// signedHouseAlone is one for tests that have several.
func signedHouseAlone(t *testing.T) *house {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	h := newHouseAlone(t)
	h.config.Identity = func(context.Context) (age.Identity, error) { return id, nil }
	return h
}

// Before the first signed full of an incarnation, a client put an unsigned full of a later revision there. What that seemed to
// lead to is never put on record: no restore of the cluster's own backups is refused on account of it.
func TestKeeper_RecordsNoRevisionOfAnUnsignedFull(t *testing.T) {
	h := signedHouse(t)
	other := etcdtest.Start(t, etcdtest.Options{})
	for range 50 {
		if _, err := other.Client.Put(etcdtest.Context(t), "x", "x"); err != nil {
			t.Fatal(err)
		}
	}
	config := take.Config{Bucket: h.memory, Cluster: "prod", Lineage: "life1", Endpoints: []string{other.Endpoint}, Scratch: t.TempDir(), Notify: func(take.Event) {}}
	if _, err := take.Full(etcdtest.Context(t), config); err != nil {
		t.Fatal(err)
	}
	var status cke.Status
	record := func(s *cke.BackupStatus) { status.Targets = status.KnownTargets(s) }
	h.run().await("a full of its own", func(s *cke.BackupStatus) bool {
		record(s)
		return hasFull(s) && s.Full.Revision < 50
	})
	last := h.put("a", "b", "c")
	h.await("the changes", func(s *cke.BackupStatus) bool {
		record(s)
		return !s.Resuming && s.LagRevisions == 0 && s.Revision >= last
	})
	if revision, stored := status.Stored("mem://one", "life1"); !stored || revision != last {
		t.Errorf("on record: %d, want %d", revision, last)
	}
}

// A cluster of the same name in another store uses the same target: its retention deletes nothing of what is not on its record.
func TestKeeper_PrunesNoIncarnationThatIsNotOnRecord(t *testing.T) {
	t.Parallel()
	a, b := signedHouseAlone(t), signedHouseAlone(t)
	a.run().await("a full", hasFull)
	a.takeFulls(4)
	a.stop()
	fulls := len(a.lineage("life1").Fulls)
	b.memory, b.target = a.memory, a.memory
	b.wanted.Identity.Incarnation = &cke.Incarnation{ID: "life3", State: cke.Formed, Replaced: []string{"life2"}}
	b.wanted.Spec.Cluster.Backup.Retention = cke.Retention{Last: 1}
	b.run().await("a full", hasFull)
	b.takeFulls(2)
	b.until("its own to be pruned", func() bool { return len(b.lineage("life3").Fulls) == 1 })
	if left := len(a.lineage("life1").Fulls); left != fulls {
		t.Errorf("%d of %d fulls of another store's cluster are left", left, fulls)
	}
}

// An old store says what to keep, and its members do not exist anymore: nothing is pruned before one answers.
func TestKeeper_PrunesNothingBeforeAMemberAnswered(t *testing.T) {
	h := signedHouse(t)
	h.run().await("a full", hasFull)
	h.takeFulls(4)
	h.stop()
	fulls := len(h.lineage("life1").Fulls)
	h.wanted.Spec.Cluster.Backup.Retention = cke.Retention{Last: 1}
	answers := h.config.Endpoint
	h.config.Endpoint = func(cke.Join) string { return "http://127.0.0.1:1" }
	h.run().await("that no member answers", func(s *cke.BackupStatus) bool { return s.Problem != nil && s.Problem.Code == cke.CodeMemberSilent })
	if left := len(h.lineage("life1").Fulls); left != fulls {
		t.Errorf("%d of %d fulls are left", left, fulls)
	}
	h.stop()
	h.config.Endpoint = answers
	h.run()
	h.until("them to be pruned", func() bool { return len(h.lineage("life1").Fulls) == 1 })
}
