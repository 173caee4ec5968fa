package take_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// Users and roles were changed before a time, and a key after it: the full that has them, and the delta that tells of them, are of later revisions than
// the state. They may as well have been changed after the time, so a note has to say so. It names the full, or the delta where the full is gone.
func TestExtract_NotesUsersChangedBeforeATimeThatAreInALaterFull(t *testing.T) {
	t.Parallel()
	for _, changed := range []bool{true, false} {
		s := etcdtest.Start(t, etcdtest.Options{})
		ctx := etcdtest.Context(t)
		bucket := backuptest.NewMemory()
		(&taketest.Rig{T: t, Server: s}).Put("a", "1")
		r := taketest.Start(t, s, taketest.Config(s, bucket))
		before := r.Await(take.FullStored).Header
		time.Sleep(20 * time.Millisecond)
		if changed {
			if _, err := s.Client.UserAdd(ctx, "later", "secret"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Millisecond)
		then := time.Now()
		time.Sleep(20 * time.Millisecond)
		r.Put("b", "1")
		r.Flush()
		var users backup.Header
		if changed {
			users = r.Await(take.FullStored).Header
		} else {
			users = fullNow(t, r)
		}
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		if (users.AuthRevision > before.AuthRevision) != changed || users.Last <= before.Last {
			t.Fatal(users, before)
		}
		restores := func(tells string) {
			t.Helper()
			x, err := r.Store().Extract(ctx, backup.At{Time: then}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{})
			if err != nil || x.Revision != before.Last {
				t.Fatal(x, err)
			}
			notes := strings.Join(x.Notes, "; ")
			if !changed && strings.Contains(notes, "users and roles") || changed && !strings.Contains(notes, "changed before or after the time, as "+tells+" shows") {
				t.Errorf("changed %t: restored from %s, notes %q", changed, x.Full, x.Notes)
			}
		}
		restores("full " + users.Place.ID())
		if err := bucket.Delete(ctx, users.Place.Name()); err != nil {
			t.Fatal(err)
		}
		restores("delta " + backup.DeltaPlace("prod", "a1b2", before.Last+1, 0, before.Last+1).Name())
	}
}
