package keep_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// A merge finds a delta damaged through which the newest state leads. Nothing else reads it: a full of now makes up for it.
func TestKeeper_TakesAFullAfterDamageThatAMergeMeets(t *testing.T) {
	h := newHouse(t)
	h.wanted.Spec.Cluster.Backup.Compaction.Events = 4
	h.run().await("a full", hasFull)
	h.damageDelta()
	for _, k := range []string{"b", "c", "d", "e"} {
		last := h.put(k)
		h.await("the delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
	}
	s := h.await("the damage", func(s *cke.BackupStatus) bool { return s.Trouble("compact") != nil })
	if got := s.Trouble("compact").Code; got != cke.CodeBackupDamaged {
		t.Errorf("told: %s", got)
	}
	if _, err := h.store().Drill(etcdtest.Context(t), backup.At{}, nil); err != nil {
		t.Errorf("the newest state cannot be restored: %v", err)
	}
}

// damageDelta has a delta stored, and damages its body.
func (h *house) damageDelta() {
	h.Helper()
	last := h.put("a")
	h.await("the delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
	name := h.lineage("life1").Streams[0].Deltas[0].Name()
	data := h.memory.Get(name)
	data[len(data)-3] ^= 1
	h.memory.Set(name, data)
}

// awaitUsers waits until a restore of the newest state brings back users and roles as they are.
func (h *house) awaitUsers() {
	h.Helper()
	now, err := h.etcd.Client.AuthStatus(etcdtest.Context(h))
	if err != nil {
		h.Fatal(err)
	}
	h.await("a full with users and roles of now", func(*cke.BackupStatus) bool {
		x, err := h.store().Drill(etcdtest.Context(h), backup.At{}, nil)
		for _, f := range h.lineage("life1").Fulls {
			if err == nil && f.ID() == x.Full {
				header, err := backup.ReadHeader(etcdtest.Context(h), h.memory, f.Place)
				return err == nil && header.AuthRevision >= now.AuthRevision
			}
		}
		return false
	})
}

// The newest full is damaged: it alone has users and roles as they are. A merge passes over it, and makes a full from the one before.
func TestKeeper_AMergeThatPassesOverUsersAndRolesIsFollowedByAFull(t *testing.T) {
	h := newHouse(t)
	h.wanted.Spec.Cluster.Backup.Compaction.Events = 6
	h.run().await("a full", hasFull)
	last := h.put("a")
	h.await("the delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
	if _, err := h.etcd.Client.RoleAdd(etcdtest.Context(t), "reader"); err != nil {
		t.Fatal(err)
	}
	h.await("a full with the role", func(s *cke.BackupStatus) bool { return s.Full.Revision >= last })
	fulls := h.lineage("life1").Fulls
	name := fulls[len(fulls)-1].Name()
	data := h.memory.Get(name)
	data[len(data)-3] ^= 1
	h.memory.Set(name, data)
	for _, k := range []string{"b", "c", "d", "e", "f", "g"} {
		last = h.put(k)
		h.await("the delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
	}
	h.await("the merge", func(*cke.BackupStatus) bool { return len(h.lineage("life1").Fulls) > len(fulls) })
	h.awaitUsers()
}

// A full that a change of users and roles asked for is on its way when a merge begins from the full before, and reaches further.
// The merge is refused and asks for a full, which waits for the one on its way.
func TestKeeper_AMergeThatOvertakesUsersAndRolesIsFollowedByAFull(t *testing.T) {
	h := newHouse(t)
	h.config.Retry.Attempt = 3 * time.Second // so long the full is on its way
	h.wanted.Spec.Cluster.Backup.Compaction.Events = 6
	var fulls atomic.Int32
	merged := make(chan struct{})
	h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(ctx context.Context, op, name string) error {
		if op == "create" && strings.Contains(name, "/full/") && fulls.Add(1) == 2 { // the one with the role
			select {
			case <-merged:
			case <-ctx.Done():
			}
		}
		return nil
	}}
	h.run().await("a full", hasFull)
	if _, err := h.etcd.Client.RoleAdd(etcdtest.Context(t), "reader"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(wait); fulls.Load() < 2 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	for _, k := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		last := h.put(k)
		h.await("the delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
	}
	h.await("the merge", func(*cke.BackupStatus) bool { return len(h.lineage("life1").Fulls) == 2 })
	close(merged)
	h.awaitUsers()
}
