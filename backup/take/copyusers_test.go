package take_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// A copy of what is newer than a time has the full with the newest users and roles of a revision, though that is dated before the time and another
// one is not.
func TestCopy_TheUsersOfTwoFullsOfOneRevision(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	r, c := fullsOnly(t)
	r.Put("a", "1")
	full := func(ago time.Duration) backup.Header { return fullAgo(t, c, ago) }
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

// The clocks of two daemons differ: the full of a later revision, with newer users and roles, is dated before the one of the earlier revision. A copy of
// the newest full has them, or a restore from it says that it has not.
func TestCopy_TheUsersOfALaterRevisionThatIsDatedEarlier(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	s := etcdtest.Start(t, etcdtest.Options{})
	(&taketest.Rig{T: t, Server: s}).Put("a", "1")
	c := taketest.Config(s, backuptest.NewMemory())
	ahead := c
	ahead.Now = func() time.Time { return time.Now().Add(5 * time.Minute) }
	r := taketest.Start(t, s, ahead)
	r.Await(take.FullStored)
	r.Put("b", "1")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.UserAdd(ctx, "later", "secret"); err != nil {
		t.Fatal(err)
	}
	r = taketest.Start(t, s, c)
	r.Put("c", "1")
	r.Flush()
	users, err := r.Taker.Full(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	to := &backup.Store{Bucket: backuptest.NewMemory(), Cluster: "prod", Scratch: t.TempDir()}
	if _, err := r.Store().Copy(ctx, to.Bucket, backup.CopyFilter{Since: time.Now().Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	x, err := to.Extract(ctx, backup.At{}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{CheckHash: true})
	if err != nil {
		t.Fatal(err)
	}
	if x.Full != users.Place.ID() && len(x.Notes) == 0 {
		t.Errorf("revision %d from %s, want %d from %s; notes %q", x.Revision, x.Full, users.Last, users.Place.ID(), x.Notes)
	}
}

// refusing is a target that answers with an error when an object is opened.
type refusing struct {
	*backuptest.Memory
	name string
	err  error
}

func (b refusing) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if name == b.name {
		return nil, fmt.Errorf("%s: %w", name, b.err)
	}
	return b.Memory.Open(ctx, name, offset, length)
}

// A full that is too old to be copied does not keep the others of its revision from being copied, if it is damaged, or is still listed and gone. Where the target
// does not answer, it is not known whether it has the newest users and roles.
func TestCopy_AnOldFullThatCannotBeRead(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	r, c := fullsOnly(t)
	r.Put("a", "1")
	full := func(ago time.Duration) backup.Header { return fullAgo(t, c, ago) }
	old := full(3 * time.Minute).Place.Name()
	newer := full(-time.Minute).Place.ID()
	b := c.Bucket.(*backuptest.Memory)
	damaged := b.Clone()
	data := slices.Clone(damaged.Get(old))
	data[40] ^= 1
	damaged.Set(old, data)
	silent := errors.New("the target does not answer")
	for what, bucket := range map[string]backup.Bucket{
		"damaged": damaged, "gone": refusing{b, old, backup.ErrNotFound}, "silent": refusing{b, old, silent},
	} {
		from := &backup.Store{Bucket: bucket, Cluster: "prod", Scratch: t.TempDir()}
		to := &backup.Store{Bucket: backuptest.NewMemory(), Cluster: "prod", Scratch: t.TempDir()}
		done, err := from.Copy(ctx, to.Bucket, backup.CopyFilter{Since: time.Now()})
		if what == "silent" {
			if !errors.Is(err, silent) {
				t.Errorf("%s: %+v, %v", what, done, err)
			}
			continue
		}
		l, listed := to.Lineage(ctx, c.Lineage)
		if err != nil || listed != nil || len(done.Problems) > 0 || len(l.Fulls) != 1 || l.Fulls[0].ID() != newer {
			t.Errorf("%s: %+v, %v; copied %v, %v", what, done, err, l.Fulls, listed)
		}
	}
}

// fullAgo takes a full that is dated some time ago.
func fullAgo(t *testing.T, c take.Config, ago time.Duration) backup.Header {
	t.Helper()
	c.Now = func() time.Time { return time.Now().Add(-ago) }
	h, err := take.Full(etcdtest.Context(t), c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
