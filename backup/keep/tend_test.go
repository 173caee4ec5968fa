package keep_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

func TestKeeper_PutsFileAndIdentityBesideTheBackupsWheneverTheyChange(t *testing.T) {
	h := newHouse(t)
	h.run()
	h.await("both files", func(*cke.BackupStatus) bool { return len(h.lineage("life1").Files) == 2 })
	read := func(kind backup.FileKind) string {
		data, err := h.store().File(etcdtest.Context(t), "life1", kind)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	var e cke.Escrow
	if err := json.Unmarshal([]byte(read(backup.FileIdentity)), &e); err != nil || e.Format != 1 || e.Cluster != "prod" || e.SealedWith != "age1x" {
		t.Errorf("%+v %v", e, err)
	}
	if text := read(backup.FileSpec); text != "name: prod\n" {
		t.Errorf("spec %q", text)
	}
	h.keeper.Update(h.wanted) // nothing has changed
	h.wanted.Spec.Source, h.wanted.Spec.Generation = "name: prod # changed\n", 2
	h.keeper.Update(h.wanted)
	h.await("the third file", func(*cke.BackupStatus) bool { return len(h.lineage("life1").Files) == 3 })
	if text := read(backup.FileSpec); !strings.Contains(text, "changed") {
		t.Errorf("spec %q", text)
	}
}

func TestKeeper_PrunesAfterEachFull(t *testing.T) {
	h := newHouse(t)
	h.wanted.Spec.Cluster.Backup.Retention.Last = 1
	h.run().await("a full", hasFull)
	for range 2 {
		h.put("a")
		h.full()
	}
	h.await("one full to be left", func(*cke.BackupStatus) bool { return len(h.lineage("life1").Fulls) == 1 })
}

// Requirements D2, D16: merged past a number of events.
func TestKeeper_MergesPastSoManyChanges(t *testing.T) {
	for name, encrypted := range map[string]bool{"plain": false, "with no key that opens them": true} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			if encrypted {
				h.wanted.Spec.Cluster.Backup.Encryption.Recipients = []string{newKey(t).Recipient().String()}
			}
			h.wanted.Spec.Cluster.Backup.Compaction.Events = 5
			h.run().await("a full", hasFull)
			last := h.put("a", "b", "c", "d", "e", "f")
			h.await("another full", func(*cke.BackupStatus) bool {
				l := h.lineage("life1")
				return len(l.Fulls) == 2 && l.Fulls[1].Revision >= last-1
			})
			l := h.lineage("life1")
			header, err := backup.ReadHeader(etcdtest.Context(t), h.memory, l.Fulls[1].Place)
			if err != nil || header.Merged == encrypted {
				t.Errorf("%+v %v", header, err)
			}
		})
	}
}

func TestKeeper_MergesPastSoManyBytes(t *testing.T) {
	h := newHouse(t)
	h.wanted.Spec.Cluster.Backup.Compaction.Size = 2000
	h.run().await("a full", hasFull)
	h.put("a")
	h.await("the delta", func(s *cke.BackupStatus) bool { return s.LagRevisions == 0 && s.Revision >= 2 })
	if l := h.lineage("life1"); len(l.Fulls) != 1 {
		t.Fatalf("merged too early: %+v", l.Fulls)
	}
	last := h.merged(1)
	if last.Time.IsZero() {
		t.Errorf("%+v", last)
	}
}

// merged changes keys until there is more than so many fulls, and returns the newest.
func (h *house) merged(fulls int) backup.Entry {
	h.Helper()
	end := time.Now().Add(wait)
	for n := 0; time.Now().Before(end); n++ {
		last := h.put(fmt.Sprint("merge", n))
		h.await("the delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
		if l := h.lineage("life1"); len(l.Fulls) > fulls {
			return l.Fulls[len(l.Fulls)-1]
		}
	}
	h.Fatal("nothing was merged")
	return backup.Entry{}
}

func TestKeeper_MergesOnSchedule(t *testing.T) {
	h := newHouse(t)
	h.config.Now = func() time.Time {
		return time.Date(2026, 11, 10, 1, 0, 0, 0, time.UTC).Add(time.Duration(h.ahead.Load()))
	}
	h.wanted.Spec.Cluster.Backup.Compaction = cke.BackupCompaction{Schedule: "0 3 * * *", TimeZone: "Asia/Tokyo"} // 18:00 UTC
	h.run().await("a full", hasFull)
	last := h.put("a", "b")
	h.await("the delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
	h.ahead.Store(int64(16 * time.Hour)) // 17:00
	last = h.put("c")
	h.await("the delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
	if l := h.lineage("life1"); len(l.Fulls) != 1 {
		t.Fatalf("merged before its time: %+v", l.Fulls)
	}
	h.ahead.Store(int64(17*time.Hour + time.Minute))
	full := h.merged(1)
	header, err := backup.ReadHeader(etcdtest.Context(t), h.memory, full.Place)
	if err != nil || !header.Merged || full.Revision < last {
		t.Errorf("%+v %v", header, err)
	}
	last = h.put("d") // it was merged: next time tomorrow
	h.await("the delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
	if l := h.lineage("life1"); len(l.Fulls) != 2 {
		t.Errorf("merged again: %+v", l.Fulls)
	}
}

// A time at which there is nothing to merge passes; what changes later waits for the next one.
func TestKeeper_ATimeWithNothingToMergePasses(t *testing.T) {
	h := newHouse(t)
	h.wanted.Spec.Cluster.Backup.Compaction = cke.BackupCompaction{Schedule: "0 0 * * *"}
	h.run().await("a full", hasFull)
	h.ahead.Store(int64(24 * time.Hour))
	files := 2
	look := func() { // the second change is seen only once all chores were looked at after the first
		for range 2 {
			files++
			h.wanted.Spec.Source, h.wanted.Spec.Generation = fmt.Sprintf("name: prod # %d\n", files), int64(files)
			h.keeper.Update(h.wanted)
			h.await("a look", func(*cke.BackupStatus) bool { return len(h.lineage("life1").Files) == files })
		}
	}
	h.await("both files", func(*cke.BackupStatus) bool { return len(h.lineage("life1").Files) == files })
	look()
	last := h.put("a")
	h.await("the delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
	look()
	h.stop()
	if l := h.lineage("life1"); len(l.Fulls) != 1 {
		t.Errorf("%+v", l.Fulls)
	}
}

func TestKeeper_PrunesOnThoughAnObjectIsProtected(t *testing.T) {
	h := newHouse(t)
	h.wanted.Spec.Cluster.Backup.Retention.Last = 1
	var protected atomic.Pointer[string]
	h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(_ context.Context, op, name string) error {
		if op == "delete" && strings.Contains(name, "/life1/") && (protected.CompareAndSwap(nil, &name) || *protected.Load() == name) {
			return backup.ErrProtected
		}
		return nil
	}}
	h.run().await("a full", hasFull)
	for range 3 {
		h.put("a")
		h.full()
	}
	s := h.await("two fulls to be left", func(*cke.BackupStatus) bool { return protected.Load() != nil && len(h.lineage("life1").Fulls) <= 2 })
	if tr := s.Trouble("prune"); tr != nil {
		t.Errorf("%+v", tr)
	}
}

func newKey(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestKeeper_VerifiesOnSchedule(t *testing.T) {
	for name, encrypted := range map[string]bool{"plain": false, "encrypted to the key file as well": true} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.wanted.Spec.Cluster.Backup.Verify = cke.BackupSchedule{Schedule: "0 0 * * *"}
			if encrypted {
				id := newKey(t)
				h.config.Identity = func(context.Context) (age.Identity, error) { return id, nil }
				h.wanted.Spec.Cluster.Backup.Encryption.Recipients = []string{newKey(t).Recipient().String(), id.Recipient().String()}
			}
			s := h.run().await("a full", hasFull)
			if s.Verified != nil || s.NextVerify.Sub(h.config.Now()) > 24*time.Hour {
				t.Errorf("%+v", s)
			}
			h.ahead.Store(int64(24 * time.Hour))
			h.put("a")
			s = h.await("the drill", func(s *cke.BackupStatus) bool { return s.Verified != nil })
			if !s.Verified.HashChecked || s.Verified.Revision == 0 || !s.NextVerify.After(h.config.Now()) {
				t.Errorf("%+v, next %s", s.Verified, s.NextVerify)
			}
		})
	}
}

// A drill of a state that the operator named does not put off the next one.
func TestKeeper_CountsFromTheLastDrillOfTheNewestState(t *testing.T) {
	h := newHouse(t)
	h.wanted.Spec.Cluster.Backup.Verify = cke.BackupSchedule{Schedule: "0 0 * * *"}
	for _, m := range []backup.Verified{{At: time.Now().Add(-48 * time.Hour)}, {At: time.Now(), Named: true}} {
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.store().PutFile(etcdtest.Context(t), "life1", "verified", data); err != nil {
			t.Fatal(err)
		}
	}
	h.run().await("a drill", func(s *cke.BackupStatus) bool { return s.Verified != nil && s.Verified.HashChecked })
}

// A drill starts an etcd of the backup's version if the management host has one, and says why not if it has none.
func TestKeeper_StartsAnEtcdOnWhatADrillRestored(t *testing.T) {
	for name, tc := range map[string]struct {
		etcd    string
		ok      bool
		mention string
	}{
		"of another version":  {"echo etcd Version: 3.4.9", true, "etcd 3.4.9 was found, but the backup is from etcd 3.7"},
		"that does not start": {`case $1 in --version) echo etcd Version: 3.7.0;; *) echo "panic: page 7" >&2; exit 2;; esac`, false, "panic: page 7"},
	} {
		t.Run(name, func(t *testing.T) {
			backuptest.Programs(t, map[string]string{"etcd": tc.etcd, "etcdutl": "", "docker": "exit 1"})
			h := newHouseAlone(t)
			h.wanted.Spec.Cluster.Backup.Verify = cke.BackupSchedule{Schedule: "0 0 * * *"}
			h.run().await("a full", hasFull)
			h.ahead.Store(int64(24 * time.Hour))
			h.put("a")
			if !tc.ok {
				s := h.await("the trouble", func(s *cke.BackupStatus) bool { return s.Trouble("verify") != nil })
				if tr := s.Trouble("verify"); tr.Code != cke.CodeBackupDamaged || !strings.Contains(tr.Message, tc.mention) || s.Verified != nil {
					t.Errorf("%+v, %+v", tr, s.Verified)
				}
				if n := len(h.lineage("life1").Fulls); n != 2 {
					t.Errorf("%d fulls: another one is to follow a drill that fails", n)
				}
				return
			}
			s := h.await("the drill", func(s *cke.BackupStatus) bool { return s.Verified != nil })
			if v := s.Verified; v.Booted != "" || !strings.Contains(v.NotBooted, tc.mention) {
				t.Errorf("%+v", v)
			}
		})
	}
}

func TestKeeper_TellsOfADrillThatFails(t *testing.T) {
	h := newHouse(t)
	h.wanted.Spec.Cluster.Backup.Verify = cke.BackupSchedule{Schedule: "0 0 * * *"}
	h.wanted.Spec.Cluster.Backup.Encryption.Recipients = []string{newKey(t).Recipient().String()}
	h.run().await("a full", hasFull)
	h.ahead.Store(int64(24 * time.Hour))
	h.put("a")
	s := h.await("the trouble", func(s *cke.BackupStatus) bool { return s.Trouble("verify") != nil })
	if tr := s.Trouble("verify"); tr.Code != cke.CodeBackupKey || !strings.Contains(tr.Message, "secret_key_file") {
		t.Errorf("%+v", tr)
	}
	if s.Problem != nil {
		t.Errorf("taking goes on: %+v", s.Problem)
	}
}

func TestKeeper_RemovesWhatAKilledDaemonLeftInItsScratchDirectory(t *testing.T) {
	h := newHouse(t)
	left := filepath.Join(h.config.Scratch, "prod", "cke-full-123")
	foreign := filepath.Join(h.config.Scratch, "prod", "cke-full-124") // without a mark
	mkdir(t, left)
	mkdir(t, filepath.Join(foreign, "mine"))
	if err := os.WriteFile(filepath.Join(left, ".cke-scratch"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.run().await("a full", hasFull)
	if exists(left) || !exists(foreign) {
		t.Errorf("left over %t, foreign %t", exists(left), exists(foreign))
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// A drill that passes over the newest full says so, and one more full is taken: until a drill begins with a full that is right.
func TestKeeper_TellsThatADrillPassedOverTheNewestFull(t *testing.T) {
	h := newHouse(t)
	h.wanted.Spec.Cluster.Backup.Verify = cke.BackupSchedule{Schedule: "0 0 * * *"}
	h.run().await("a full", hasFull)
	spoil := func() (id string) {
		fulls := h.lineage("life1").Fulls
		newest := fulls[len(fulls)-1]
		h.spoil(newest.Name())
		return newest.ID()
	}
	last := h.put("a")
	h.await("the delta", func(s *cke.BackupStatus) bool { return s.Revision >= last })
	h.full()
	wrong := spoil()
	told := func(s *cke.BackupStatus) bool {
		tr := s.Trouble("verify")
		return tr != nil && tr.Code == cke.CodeBackupDamaged && strings.Contains(tr.Message, wrong)
	}
	again := func() { // the pause of a chore that failed is over
		h.ahead.Add(int64(2 * time.Hour))
		h.put("b")
	}
	h.ahead.Store(int64(24 * time.Hour))
	h.put("a")
	h.await("the trouble", func(s *cke.BackupStatus) bool { return told(s) && s.Verified != nil })
	if n := len(h.lineage("life1").Fulls); n != 3 {
		t.Errorf("%d fulls", n)
	}
	wrong = spoil() // the new one is no better
	again()
	h.await("the trouble again", told)
	if n := len(h.lineage("life1").Fulls); n != 3 {
		t.Errorf("%d fulls: another one for the same trouble", n)
	}
	h.full()
	again()
	h.await("the end of the trouble", func(s *cke.BackupStatus) bool { return s.Trouble("verify") == nil })
}

// A drill by hand failed: nothing is pruned from then on, and the status says so.
func TestKeeper_SaysThatNothingIsPrunedAfterADrillFailed(t *testing.T) {
	h := newHouse(t)
	h.wanted.Spec.Cluster.Backup.Retention.Last = 1
	h.run().await("a full", hasFull)
	h.damageDelta()
	if _, err := h.store().Drill(etcdtest.Context(t), backup.At{}, nil); err == nil {
		t.Fatal("the drill succeeded")
	}
	h.full()
	s := h.await("the trouble", func(s *cke.BackupStatus) bool { return s.Trouble("prune") != nil })
	if got := s.Trouble("prune"); got.Code != cke.CodeBackupDamaged {
		t.Errorf("%+v", got)
	}
}
