package keep_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"cke"
	"cke/backup"
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

// putUnsignedFull puts one of revision 51 among the backups of life1, as a client does that has no key.
func (h *house) putUnsignedFull() {
	h.Helper()
	other := etcdtest.Start(h, etcdtest.Options{})
	for range 50 {
		if _, err := other.Client.Put(etcdtest.Context(h), "x", "x"); err != nil {
			h.Fatal(err)
		}
	}
	config := take.Config{Bucket: h.memory, Cluster: "prod", Lineage: "life1", Endpoints: []string{other.Endpoint}, Scratch: h.TempDir(), Notify: func(take.Event) {}}
	if _, err := take.Full(etcdtest.Context(h), config); err != nil {
		h.Fatal(err)
	}
}

// Before the first signed full of an incarnation, a client put an unsigned full of a later revision there. What that seemed to
// lead to is never put on record: no restore of the cluster's own backups is refused on account of it.
func TestKeeper_RecordsNoRevisionOfAnUnsignedFull(t *testing.T) {
	h := signedHouse(t)
	h.putUnsignedFull()
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

// A restored cluster has a key file of its own, and its old incarnation is signed by the key before. A client put an unsigned full of a
// later revision there. The retention still holds for what the daemon signed.
func TestKeeper_PrunesNothingThatAKeySignedWhichItDoesNotTrust(t *testing.T) {
	t.Parallel()
	a, b := signedHouseAlone(t), signedHouseAlone(t)
	a.run().await("a full", hasFull)
	a.takeFulls(2)
	a.stop()
	a.putUnsignedFull()
	before := a.lineage("life1").Fulls
	b.memory, b.target = a.memory, a.memory
	b.wanted.Identity.Incarnation = &cke.Incarnation{ID: "life2", State: cke.Formed, Replaced: []string{"life1"}}
	b.wanted.Spec.Cluster.Backup.Retention = cke.Retention{Last: 1}
	b.run().await("a full", hasFull)
	b.takeFulls(2)
	b.until("its own to be pruned", func() bool { return len(b.lineage("life2").Fulls) == 1 })
	b.stop()
	if left := a.lineage("life1").Fulls; len(left) != len(before) {
		t.Fatalf("%d of %d fulls of the old incarnation are left", len(left), len(before))
	}
	if tr := b.keeper.Status().Trouble("prune"); tr != nil {
		t.Errorf("%+v", tr)
	}
	key := func(e backup.Entry) backup.PublicKey {
		h, err := backup.ReadHeader(etcdtest.Context(t), a.memory, e.Place)
		if err != nil || h.Signature == nil {
			t.Fatal(e, err)
		}
		return h.Signature.Key
	}
	old, own := key(before[0]), key(b.lineage("life2").Fulls[0])
	for name, trusted := range map[string][]backup.PublicKey{"no key": nil, "its own key": {own}, "both keys": {own, old}} {
		s := b.store()
		s.Trusted = trusted
		plan, err := s.Prune(etcdtest.Context(t), cke.Retention{Last: 1}, true)
		switch name {
		case "no key":
			if err == nil {
				t.Errorf("%s: %+v", name, plan)
			}
		case "its own key":
			deletes := slices.ContainsFunc(plan.Delete, func(r backup.Removal) bool { return strings.HasPrefix(r.Name, "prod/life1/") })
			if err != nil || deletes || len(plan.Signed) != 1 || plan.Signed[0].Lineage != "life1" || plan.Signed[0].Key != old {
				t.Errorf("%s: %+v, %v", name, plan, err)
			}
		default:
			if err != nil || len(plan.Delete) == 0 || len(plan.Signed) > 0 {
				t.Errorf("%s: %+v, %v", name, plan, err)
			}
		}
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
