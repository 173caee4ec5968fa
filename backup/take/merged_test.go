package take_test

import (
	"fmt"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// mergedAlone merges all there is, and leaves the result alone. earlier: as releases did that copied nothing of the history.
func mergedAlone(t *testing.T, b *backuptest.Memory, earlier bool) {
	t.Helper()
	s := storeOf(t, b)
	p, err := s.Compact(t.Context(), backup.At{}, backup.CompactOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prune(t.Context(), cke.Retention{Last: 1}, false); err != nil {
		t.Fatal(err)
	}
	if names := backups(t, b); len(names) != 1 || names[0] != p.Name() {
		t.Fatalf("left: %q", names)
	}
	if earlier {
		rehead(t, b, p.Name(), func(h *backup.Header) { h.Mark, h.RaftIndex = "", 0 })
	}
}

// What a merge leaves is not continued with the history of another cluster.
func TestTaker_AnotherHistoryIsNoticedByAMergedFull(t *testing.T) {
	b, last := firstLife(t, 20)
	mergedAlone(t, b, false)
	r := secondLife(t)
	for r.Put("k", "second life") <= last+10 {
	}
	refused(t, r.Server, b)
}

// Of a full that an earlier release merged nobody can tell: nothing is joined to it.
func TestTaker_NothingIsJoinedToAFullThatTellsNoHistory(t *testing.T) {
	b, last := firstLife(t, 20)
	mergedAlone(t, b, true)
	other := secondLife(t)
	for other.Put("only-second", "1") <= last+10 {
	}
	r := taketest.Start(t, other.Server, taketest.Config(other.Server, b))
	r.Await(take.FullStored)
	r.Put("k", "second life, later")
	r.Flush()
	same(t, r, b)
}

// Where the backups begin anew, what the cluster changed while nobody watched is in none of them: that is reported as a gap.
func TestTaker_AGapBeforeANewStreamIsTold(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(r *taketest.Rig, b *backuptest.Memory, c *take.Config){
		"merged by an earlier release": func(r *taketest.Rig, b *backuptest.Memory, _ *take.Config) { mergedAlone(t, b, true) },
		"an unsigned record of another history": func(r *taketest.Rig, b *backuptest.Memory, c *take.Config) {
			c.Signer = backup.NewSigner(identity(t))
			if err := r.Store().PutFile(t.Context(), "a1b2", "diverged", []byte("{}")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, missing := range []int{2, 0} {
			t.Run(fmt.Sprintf("%s, %d changes", name, missing), func(t *testing.T) {
				b := backuptest.NewMemory()
				r := begin(t, b, nil)
				stored := r.Put("a", "1")
				r.Flush()
				if err := r.Stop(); err != nil {
					t.Fatal(err)
				}
				c, now := taketest.Config(r.Server, b), stored
				spoil(r, b, &c)
				for range missing {
					now = r.Put("a", "2")
				}
				r = taketest.Start(t, r.Server, c)
				if missing > 0 {
					told(t, r, stored+1, now)
					return
				}
				r.Await(take.FullStored)
				if err := r.Stop(); err != nil {
					t.Fatal(err)
				}
				told(t, r, 0, 0)
			})
		}
	}
}

// The life that replaced another one stays the present one whatever its clock was, also where its newest full is a merged one.
func TestPresent_AMergedFullTellsItsOrigin(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(h *backup.Header){
		"merged now":                   nil,
		"merged by an earlier release": func(h *backup.Header) { h.Origin = nil },
	} {
		for _, signed := range []bool{true, false} {
			b, s := backuptest.NewMemory(), etcdtest.Start(t, etcdtest.Options{})
			(&taketest.Rig{T: t, Server: s}).Put("k", "1")
			c := taketest.Config(s, b)
			if signed {
				c.Signer = backup.NewSigner(identity(t))
			}
			ahead := c
			ahead.Now = func() time.Time { return time.Now().Add(2 * time.Hour) } // of the life before
			r := taketest.Start(t, s, ahead)
			r.Await(take.FullStored)
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			c.Lineage, c.Origin = "b2", &backup.Origin{Lineage: "a1b2", Revision: 2, Replaces: "a1b2"}
			r = taketest.Start(t, s, c)
			r.Await(take.FullStored)
			r.Put("k", "2")
			r.Flush()
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			store := r.Store()
			if signed {
				store.Signer, store.Trusted = c.Signer, []backup.PublicKey{c.Signer.Public()}
			}
			p, err := store.Compact(t.Context(), backup.At{Lineage: "b2"}, backup.CompactOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if change != nil {
				rehead(t, b, p.Name(), func(h *backup.Header) { change(h); h.Signer = c.Signer })
			}
			l, notes, err := store.Present(t.Context())
			if err != nil || l.Name != "b2" || len(notes) > 0 {
				t.Errorf("%s, signed %t: %s, %q, %v", name, signed, l.Name, notes, err)
			}
		}
	}
}
