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

func sumOf(identity string) string {
	_, sum, _ := strings.Cut(filepath.Base(identity), "-")
	return sum
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
	h.wanted.Beside = []string{sumOf(h.identities()[0])}
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

// A damaged identity of which the store had everything is still known once the store has had many others, as of a cluster that is frozen for long
// while its nodes are replaced. Else what was compared would become one that cannot be.
func TestKeeper_ADamagedIdentityThatIsKnownStaysKnown(t *testing.T) {
	h, set, _ := twoIdentities(t)
	newest := h.newestIdentity()
	h.wanted.Beside, h.wanted.Idle = []string{sumOf(newest)}, "frozen"
	h.memory.Set(newest, []byte("{}"))
	h.run()
	last := h.wanted.Beside
	for _, ended := range []cke.JoinID{"e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8", "e9", "e10"} {
		id := identityOf([]cke.JoinID{ended}, "j1", "j2", "j3")
		set(id)
		h.wake(string(ended))
		s := h.await("the comparison with "+string(ended), func(s *cke.BackupStatus) bool {
			return damaged(s, "older") || slices.ContainsFunc(s.Beside, func(d string) bool { return d != sumOf(newest) && !slices.Contains(last, d) })
		})
		if damaged(s, "older") || !slices.Contains(s.Beside, sumOf(newest)) {
			t.Fatalf("after %s: %+v", ended, s)
		}
		last = s.Beside
	}
}

// What lies beside the backups is on record once the store was found to have all of it, whoever wrote it: not if it lacks something, and not if no
// trusted key signed it.
func TestKeeper_RecordsWhichIdentityItFoundThere(t *testing.T) {
	for what, c := range map[string]struct {
		signed   bool
		has      []cke.JoinID
		recorded bool
	}{
		"all of it": {true, []cke.JoinID{"j1", "j2", "j3", "j4"}, true},
		"a part":    {true, []cke.JoinID{"j1", "j2"}, false},
		"unsigned":  {false, []cke.JoinID{"j1", "j2", "j3", "j4"}, false},
	} {
		t.Run(what, func(t *testing.T) {
			h, set, _ := twoIdentities(t)
			newest := h.newestIdentity()
			for _, name := range h.identities() {
				if !c.signed && strings.Contains(name, "/signatures/") {
					h.memory.Delete(context.Background(), name)
				}
			}
			h.wanted.Idle = "frozen"
			set(identityOf(nil, c.has...))
			s := h.run().await("the comparison", func(s *cke.BackupStatus) bool { return s.Compared })
			if c.recorded {
				s = h.await("the record", func(s *cke.BackupStatus) bool { return slices.Contains(s.Beside, sumOf(newest)) })
			}
			if slices.Contains(s.Beside, sumOf(newest)) != c.recorded || len(s.Lacks) > 0 != (what == "a part") {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Whenever what a store lacks becomes something else, who waits for changes learns it.
func TestKeeper_ReportsEveryChangeOfWhatLacks(t *testing.T) {
	h, set, _ := twoIdentities(t)
	h.wanted.Idle = "frozen"
	h.run()
	type change struct {
		has   []cke.JoinID
		lacks string
	}
	all := []change{
		{[]cke.JoinID{"j1", "j2"}, "j3"},
		{[]cke.JoinID{"j1", "j3"}, "j2"},
		{[]cke.JoinID{"j1"}, "j2 j3"},
		{[]cke.JoinID{"j1", "j2", "j3"}, ""},
	}
	for _, c := range append(all, all...) { // that an identity is another one than ever is reported, too: the second time none is
		set(identityOf(nil, c.has...))
		h.wake(c.lacks)
		for shown := false; !shown; {
			select {
			case <-h.keeper.Changed():
			case <-time.After(wait):
				t.Fatalf("%q lacks, and nothing is reported: %+v", c.lacks, h.keeper.Status())
			}
			s := h.keeper.Status()
			var lacks []string
			for _, l := range s.Lacks {
				lacks = append(lacks, l.ID)
			}
			shown = s.Compared && strings.Join(lacks, " ") == c.lacks
		}
	}
}

// The identity that lies there names the restore that was under way. A store of before that does not take its place, and does not count it among what it
// had all of, also where it has lost its signature or is damaged.
func TestKeeper_AStoreOfBeforeARestoreWritesNoIdentity(t *testing.T) {
	for what, harm := range map[string]func(h *house, file, signature string){
		"intact":                func(*house, string, string) {},
		"the file is damaged":   harms["the file is damaged"],
		"the signature is lost": harms["the signature is lost"],
	} {
		t.Run(what, func(t *testing.T) {
			h, set, beside := twoIdentities(t)
			restoring := identityOf(nil, "j1", "j2", "j3")
			restoring.Incarnation.Replaced, restoring.Incarnation.ID, restoring.Incarnation.State = []string{"life1"}, "life2", cke.Restoring
			set(restoring)
			h.wanted.Identity = identityOf(nil, "j1", "j2", "j3") // what is backed up
			h.run()
			h.until("the identity of the restore", func() bool { return beside().Incarnation.Life("life2") })
			h.stop()
			newest := h.newestIdentity()
			harm(h, newest, signatureOf(newest))
			before := h.identities()
			set(identityOf(nil, "j1", "j2", "j3"))
			s := h.run().await("the older store to be found", func(s *cke.BackupStatus) bool { return len(s.Lacks) > 0 || damaged(s, "older") && damaged(s, "beside") })
			h.stop()
			if now := h.identities(); !slices.Equal(now, before) || slices.Contains(s.Beside, sumOf(newest)) || what == "intact" && (s.Lacks[0].ID != "life2" || !s.Lacks[0].Restored) {
				t.Errorf("%+v; before %q, now %q", s, before, now)
			}
		})
	}
}
