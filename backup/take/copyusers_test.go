package take_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/take"
)

// A copy of what is newer than a time has the full with the newest users and roles of a revision, though that is dated before the time and another
// one is not.
func TestCopy_TheUsersOfTwoFullsOfOneRevision(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	r, c := fullsOnly(t)
	r.Put("a", "1")
	full := func(ago time.Duration) backup.Header {
		t.Helper()
		dated := c
		dated.Now = func() time.Time { return time.Now().Add(-ago) }
		h, err := take.Full(ctx, dated)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	older := full(3 * time.Minute)
	full(-time.Minute)
	if _, err := r.Server.Client.UserAdd(ctx, "later", "secret"); err != nil {
		t.Fatal(err)
	}
	users := full(time.Minute)
	copied := func(since time.Time) (fulls []string) {
		t.Helper()
		s := &backup.Store{Bucket: backuptest.NewMemory(), Cluster: "prod", Scratch: t.TempDir()}
		if _, err := r.Store().Copy(ctx, s.Bucket, backup.CopyFilter{Since: since}); err != nil {
			t.Fatal(err)
		}
		l, err := s.Lineage(ctx, c.Lineage)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range l.Fulls {
			fulls = append(fulls, f.ID())
		}
		if len(fulls) == 0 {
			return nil
		}
		x, err := s.Extract(ctx, backup.At{}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{})
		if err != nil || x.Full != users.Place.ID() {
			t.Errorf("restored from %s, want %s; %v", x.Full, users.Place.ID(), err)
		}
		return fulls
	}
	if fulls := copied(time.Now()); len(fulls) != 2 || slices.Contains(fulls, older.Place.ID()) {
		t.Errorf("copied: %v", fulls)
	}
	if fulls := copied(time.Now().Add(time.Hour)); fulls != nil {
		t.Errorf("copied of a time after all: %v", fulls)
	}
}
