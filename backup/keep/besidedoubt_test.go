package keep_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// twoIdentities is a house beside whose backups lie an identity of two members, and a newer one of three.
func twoIdentities(t *testing.T) (h *house, set func(cke.Identity), beside func() cke.Identity) {
	h, set, beside = besideHouse(t)
	set(identityOf(nil, "j1", "j2"))
	h.run().await("a full", hasFull)
	h.until("the first identity", func() bool { return beside().Has("j2") })
	set(identityOf(nil, "j1", "j2", "j3"))
	h.wake("three nodes")
	h.until("the newest identity", func() bool { return beside().Has("j3") })
	h.await("the comparison", func(s *cke.BackupStatus) bool { return s.Compared && len(s.Beside) > 1 })
	h.stop()
	return h, set, beside
}

// wake lets the Keeper do its other work.
func (h *house) wake(why string) {
	h.wanted.Spec.Source = "name: prod # " + why + "\n"
	h.keeper.Update(h.wanted)
}

// identities are the names of the identities and their signatures.
func (h *house) identities() (names []string) {
	h.Helper()
	all, err := h.memory.List(etcdtest.Context(h), "prod/life1/")
	if err != nil {
		h.Fatal(err)
	}
	for _, o := range all {
		if strings.Contains(o.Name, "/identity") || strings.Contains(o.Name, "/signatures/identity-") {
			names = append(names, o.Name)
		}
	}
	return names
}

func (h *house) newestIdentity() (name string) {
	h.Helper()
	for _, n := range h.identities() {
		if strings.Contains(n, "/identity/") {
			name = n
		}
	}
	return name
}

func damaged(s *cke.BackupStatus, work string) bool {
	return slices.ContainsFunc(s.Troubles, func(t cke.BackupTrouble) bool { return t.Work == work && t.Code == cke.CodeBackupDamaged })
}

// harms are what may become of the newest identity.
var harms = map[string]func(h *house, file, signature string){
	"the file is damaged":      func(h *house, file, _ string) { h.memory.Set(file, []byte("{}")) },
	"the file is lost":         func(h *house, file, _ string) { h.memory.Delete(context.Background(), file) },
	"the signature is damaged": func(h *house, _, signature string) { h.memory.Set(signature, []byte("{}")) },
	"the signature is lost":    func(h *house, _, signature string) { h.memory.Delete(context.Background(), signature) },
}

func signatureOf(identity string) string {
	return strings.Replace(identity, "/identity/", "/signatures/identity-", 1)
}

// A copy of the store of before a member came is brought back, and what became of the newest identity hides that. The store is not taken for
// the newest: nothing is written over what it may not have. Once the target gives the right bytes again, it is found to be older.
func TestKeeper_AnOlderStoreWritesOverNoIdentityThatItCannotRead(t *testing.T) {
	for what, harm := range harms {
		t.Run(what, func(t *testing.T) {
			h, set, _ := twoIdentities(t)
			newest := h.newestIdentity()
			right := map[string][]byte{newest: h.memory.Get(newest), signatureOf(newest): h.memory.Get(signatureOf(newest))}
			harm(h, newest, signatureOf(newest))
			before := h.identities()
			set(identityOf(nil, "j1", "j2"))
			s := h.run().await("the damage", func(s *cke.BackupStatus) bool { return damaged(s, "older") && damaged(s, "beside") })
			if now := h.identities(); s.Compared || s.Lacks != nil || !slices.Equal(now, before) {
				t.Errorf("%+v; before %q, now %q", s, before, now)
			}
			for name, data := range right {
				h.memory.Set(name, data)
			}
			h.ahead.Store(int64(time.Hour)) // both are tried again
			h.wake("the disk gives the right bytes again")
			h.await("the older store to be found", func(s *cke.BackupStatus) bool { return s.Compared && len(s.Lacks) == 1 && !damaged(s, "older") })
			h.stop()
			if now := h.identities(); h.newestIdentity() != newest {
				t.Errorf("before %q, now %q", before, now)
			}
		})
	}
}

// The same becomes of the newest identity where the store is the newest, and has another member by now: it knows what it wrote, and writes its
// identity again. So does one that was written by halves, of which there is the file without its signature, or, by an earlier version, the reverse.
func TestKeeper_TheNewestStoreWritesItsIdentityAgain(t *testing.T) {
	for what, harm := range harms {
		t.Run(what, func(t *testing.T) {
			h, set, beside := twoIdentities(t)
			h.wanted.Beside = h.keeper.Status().Beside // as the status of the store has it
			newest := h.newestIdentity()
			harm(h, newest, signatureOf(newest))
			set(identityOf(nil, "j1", "j2", "j3", "j4"))
			h.run().await("the comparison", func(s *cke.BackupStatus) bool { return s.Compared && s.Lacks == nil })
			h.until("the present identity", func() bool { return beside().Has("j4") })
			if s := h.keeper.Status(); damaged(s, "older") || damaged(s, "beside") {
				t.Errorf("%+v", s.Troubles)
			}
		})
	}
}

// Nothing on record says what the store wrote, as in one of an earlier version. What it would write now is what is damaged.
func TestKeeper_AnIdentityThatWouldBeWrittenIsWrittenAgain(t *testing.T) {
	h, _, beside := twoIdentities(t)
	newest := h.newestIdentity()
	h.memory.Set(newest, []byte("{}"))
	h.run().await("the comparison", func(s *cke.BackupStatus) bool { return s.Compared && s.Lacks == nil })
	h.until("the identity", func() bool { return beside().Has("j3") && h.newestIdentity() != newest })
}

// An older store has a record of what it wrote, too. That an operator has accepted what else it lacks lets it write.
func TestKeeper_AnAcceptedStoreWritesOverADamagedIdentity(t *testing.T) {
	h, set, beside := twoIdentities(t)
	newest := h.newestIdentity()
	h.wanted.Beside = []string{strings.Split(filepath.Base(h.identities()[0]), "-")[1]}
	h.memory.Set(newest, []byte("{}"))
	older := identityOf(nil, "j1")
	set(older)
	h.run().await("the older store to be found", func(s *cke.BackupStatus) bool { return s.Compared && len(s.Lacks) == 1 && damaged(s, "beside") })
	older.Freeze = &cke.Freeze{ID: "f1", Kind: cke.FreezeOlderStore, Finding: cke.OlderStore([]string{"j2"}), LiftedAt: someTime}
	h.wanted.Identity = older
	h.ahead.Store(int64(time.Hour))
	h.wake("accepted")
	h.until("the identity of the copy", func() bool { return beside().Has("j1") && !beside().Has("j2") })
}

// A cluster is frozen, and its status is lost. Over the directory of its target nothing is mounted: that it holds no identity says nothing.
func TestKeeper_ADirectoryThatIsNotMountedIsNotCompared(t *testing.T) {
	h, set, _ := twoIdentities(t)
	h.target = backuptest.NewMemory()
	h.wanted.Idle, h.wanted.TargetID = "frozen", ""
	set(identityOf(nil, "j1", "j2"))
	s := h.run().await("the trouble", func(s *cke.BackupStatus) bool { return s.Compared || len(s.Troubles) > 0 })
	if s.Compared || s.Troubles[0].Code != cke.CodeOtherTarget {
		t.Errorf("%+v", s)
	}
}
