package take_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// Users and roles were changed before a time, and a key after it: the full that has them, and the delta that tells of them, are of later revisions than
// the state. They may as well have been changed after the time, so a note has to say so.
func TestExtract_NotesUsersChangedBeforeATimeThatAreInALaterFull(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := etcdtest.Context(t)
	bucket := backuptest.NewMemory()
	(&taketest.Rig{T: t, Server: s}).Put("a", "1")
	r := taketest.Start(t, s, taketest.Config(s, bucket))
	before := r.Await(take.FullStored).Header
	time.Sleep(20 * time.Millisecond)
	if _, err := s.Client.UserAdd(ctx, "later", "secret"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	then := time.Now()
	time.Sleep(20 * time.Millisecond)
	r.Put("b", "1")
	r.Flush()
	users := r.Await(take.FullStored).Header
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if users.AuthRevision <= before.AuthRevision || users.Last <= before.Last {
		t.Fatal(users, before)
	}
	x, err := r.Store().Extract(ctx, backup.At{Time: then}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{})
	if err != nil || x.Revision != before.Last {
		t.Fatal(x, err)
	}
	if !strings.Contains(strings.Join(x.Notes, "; "), "users and roles") {
		t.Errorf("restored from %s at a time after the users were changed, notes %q", x.Full, x.Notes)
	}
}

// A drill proved a full. Users and roles change while no key does, and the full for that has the same revision and a later date.
func TestPrune_KeepsTheUsersBesideAVerifiedFullOfTheSameRevision(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := etcdtest.Context(t)
	bucket := backuptest.NewMemory()
	revision := (&taketest.Rig{T: t, Server: s}).Put("a", "1")
	r := taketest.Start(t, s, taketest.Config(s, bucket))
	verified := r.Await(take.FullStored).Header
	st := r.Store()
	st.Whole = new(backup.Whole)
	if _, err := st.Drill(ctx, backup.At{}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.UserAdd(ctx, "later", "secret"); err != nil {
		t.Fatal(err)
	}
	r.Flush()
	users := r.Await(take.FullStored).Header
	if users.Last != verified.Last {
		t.Fatal(users, verified)
	}
	next := r.Put("b", "1")
	r.Flush()
	r.Put("c", "1")
	r.Flush()
	fullNow(t, r)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"before", "after"} {
		for _, at := range []int64{revision, next} {
			if _, x := taketest.Extract(t, st, backup.At{Revision: at}); x.Full != users.Place.ID() {
				t.Errorf("%s the prune: revision %d restored from %s, want %s; notes %q", what, at, x.Full, users.Place.ID(), x.Notes)
			}
		}
		if _, err := st.Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
			t.Fatal(err)
		}
	}
}

// Of two fulls of one revision the one with the older users is dated in the future, so it stays.
func TestPrune_KeepsTheUsersBesideAFullOfTheSameRevisionThatIsDatedInTheFuture(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	r, c := fullsOnly(t)
	revision := r.Put("a", "1")
	ahead := c
	ahead.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if _, err := take.Full(ctx, ahead); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Server.Client.UserAdd(ctx, "later", "secret"); err != nil {
		t.Fatal(err)
	}
	users, err := take.Full(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	r.Put("b", "1")
	if _, err := take.Full(ctx, c); err != nil {
		t.Fatal(err)
	}
	st := r.Store()
	st.Whole = new(backup.Whole)
	for _, what := range []string{"before", "after"} {
		if _, x := taketest.Extract(t, st, backup.At{Revision: revision}); x.Full != users.Place.ID() {
			t.Errorf("%s the prune: restored from %s, want %s; notes %q", what, x.Full, users.Place.ID(), x.Notes)
		}
		if _, err := st.Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
			t.Fatal(err)
		}
	}
}

// A delta after the full that a drill proved is damaged. The deltas after it are kept because no drill has tried a later full, so a full that leads to them
// is kept, too, as after a gap: else nothing is left once the newest full is found wrong.
func TestPrune_KeepsWhatLeadsToDeltasAfterADeltaThatIsDamaged(t *testing.T) {
	t.Parallel()
	for _, head := range []bool{true, false} {
		b := backuptest.NewMemory()
		r := begin(t, b, nil)
		ctx := etcdtest.Context(t)
		st := r.Store()
		st.Whole = new(backup.Whole)
		put := func() (revision int64) {
			revision = r.Put("k", "1")
			r.Flush()
			return revision
		}
		put()
		fullNow(t, r)
		if _, err := st.Drill(ctx, backup.At{}, nil); err != nil {
			t.Fatal(err)
		}
		damaged := put()
		fullNow(t, r)
		revisions := []int64{put(), put()}
		newest := fullNow(t, r)
		revisions = append(revisions, put())
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		l, err := st.Lineage(ctx, "a1b2")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range l.Streams {
			for _, d := range s.Deltas {
				if d.Revision == damaged {
					data := b.Get(d.Name())
					if head {
						data[40] ^= 1
					} else {
						data[len(data)-2] ^= 1
					}
					b.Set(d.Name(), data)
				}
			}
		}
		restored := func(what string) {
			for _, revision := range revisions {
				if _, err := st.Extract(ctx, backup.At{Revision: revision}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{CheckHash: true}); err != nil {
					t.Errorf("head %t, %s: revision %d: %v", head, what, revision, err)
				}
			}
		}
		restored("before the prune")
		plan, err := st.Prune(ctx, cke.Retention{Last: 1}, false)
		if err != nil {
			t.Fatal(err)
		}
		restored("after the prune")
		t.Logf("deleted %v", plan.Delete)
		if err := b.Delete(ctx, newest.Place.Name()); err != nil { // as if a drill found it wrong
			t.Fatal(err)
		}
		restored("after the newest full was lost")
	}
}
