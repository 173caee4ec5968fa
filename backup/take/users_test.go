package take_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// Users and roles are in fulls alone. A merge that passed over the full that was taken because they had changed would make a full of those before,
// the newest from then on.
func TestMerged_NotFromAFullWithOlderUsers(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := etcdtest.Context(t)
	bucket := backuptest.NewMemory()
	c := taketest.Config(s, bucket)
	first := &taketest.Rig{T: t, Server: s}
	first.Put("a", "1")
	r := taketest.Start(t, s, c)
	r.Await(take.FullStored)
	r.Put("b", "1")
	r.Flush()
	if _, err := s.Client.UserAdd(ctx, "root", "secret"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.UserGrantRole(ctx, "root", "root"); err != nil {
		t.Fatal(err)
	}
	r.Put("c", "1")
	r.Flush()
	users := r.Await(take.FullStored).Header // because users have changed
	status, err := s.Client.AuthStatus(ctx)
	if err != nil || users.AuthRevision != status.AuthRevision {
		t.Fatal(users.AuthRevision, status, err)
	}
	r.Put("d", "1")
	r.Flush()
	name := users.Place.Name() // its body rots
	data := bucket.Get(name)
	data[len(data)-10] ^= 1
	bucket.Set(name, data)

	if _, err := r.Store().Compact(ctx, backup.At{}, backup.CompactOptions{}); !errors.Is(err, backup.ErrOlderUsers) {
		t.Errorf("users and roles changed since the full that is merged: %v", err)
	}
	x, err := r.Store().Drill(ctx, backup.At{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if x.PassedOver() == "" || !strings.Contains(strings.Join(x.Notes, "; "), "users and roles are those of full") {
		t.Errorf("restored from %s, notes %q", x.Full, x.Notes)
	}
}

// slowFulls is a target that takes a full only once it is let.
type slowFulls struct {
	*backuptest.Memory
	armed atomic.Bool
	let   chan struct{}
}

func (s *slowFulls) Create(ctx context.Context, name string, c backup.Content) error {
	if s.armed.Load() && strings.Contains(name, "/full/") {
		select {
		case <-s.let:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.Memory.Create(ctx, name, c)
}

// A merge begins while the full for new users and roles is still being uploaded, and would end at a later revision: the newest full, with those of before.
func TestMerged_NotBesideAFullForNewUsers(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := etcdtest.Context(t)
	bucket := &slowFulls{Memory: backuptest.NewMemory(), let: make(chan struct{})}
	c := taketest.Config(s, bucket)
	c.Delta.Period = cke.Duration(20 * time.Millisecond)
	first := &taketest.Rig{T: t, Server: s}
	first.Put("a", "1")
	r := taketest.Start(t, s, c)
	r.Await(take.FullStored)
	r.Put("b", "1")
	r.Await(take.DeltaStored)
	bucket.armed.Store(true)
	if _, err := s.Client.UserAdd(ctx, "root", "secret"); err != nil {
		t.Fatal(err)
	}
	r.Await(take.AuthChanged) // the full begins
	time.Sleep(300 * time.Millisecond)
	for last := r.Put("c", "1"); r.Await(take.DeltaStored).Header.Last < last; {
	}
	m := &backup.Store{Bucket: bucket.Memory, Cluster: "prod", Scratch: t.TempDir()} // as the daemon's chores have
	if _, err := m.Compact(ctx, backup.At{}, backup.CompactOptions{}); !errors.Is(err, backup.ErrOlderUsers) {
		t.Errorf("users and roles changed since the full that is merged: %v", err)
	}
	close(bucket.let)
	users := r.Await(take.FullStored).Header
	if _, x := taketest.Extract(t, m, backup.At{}); x.Full != users.Place.ID() || len(x.Notes) > 0 {
		t.Errorf("restored from %s, notes %q", x.Full, x.Notes)
	}
	for last := r.Put("d", "1"); r.Await(take.DeltaStored).Header.Last < last; {
	}
	if _, err := m.Compact(ctx, backup.At{}, backup.CompactOptions{}); err != nil {
		t.Errorf("merge with the users of now: %v", err)
	}
}

// The full that was taken because users and roles had changed is lost, and an older one leads to the newest revision. The headers of deltas say that
// users and roles are others.
func TestExtract_NotesUsersOfAnEarlierFull(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := etcdtest.Context(t)
	bucket := backuptest.NewMemory()
	first := &taketest.Rig{T: t, Server: s}
	first.Put("a", "1")
	r := taketest.Start(t, s, taketest.Config(s, bucket))
	r.Await(take.FullStored)
	r.Put("b", "1")
	r.Flush()
	if _, err := s.Client.UserAdd(ctx, "root", "secret"); err != nil {
		t.Fatal(err)
	}
	r.Put("c", "1")
	r.Flush()
	users := r.Await(take.FullStored).Header
	r.Put("d", "1")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := bucket.Delete(ctx, users.Place.Name()); err != nil {
		t.Fatal(err)
	}
	x, err := r.Store().Drill(ctx, backup.At{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(x.Notes, "; "), "users and roles are those of full") {
		t.Errorf("revision %d comes back with users and roles of before revision %d of theirs, notes %q", x.Revision, users.AuthRevision, x.Notes)
	}
}

// Users and roles change without a revision, and clocks of two hosts differ: of two fulls of one revision the one that was taken later is restored, and
// kept, whatever their dates.
func TestExtract_UsersOfTwoFullsOfOneRevision(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := etcdtest.Context(t)
	c := taketest.Config(s, backuptest.NewMemory())
	(&taketest.Rig{T: t, Server: s}).Put("a", "1")
	ahead := c
	ahead.Now = func() time.Time { return time.Now().Add(time.Minute) }
	r := taketest.Start(t, s, ahead)
	r.Await(take.FullStored)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.UserAdd(ctx, "later", "secret"); err != nil {
		t.Fatal(err)
	}
	c.Scratch = t.TempDir()
	users, err := take.Full(ctx, c) // as an earlier version took it: it is dated before the other one
	if err != nil {
		t.Fatal(err)
	}
	restores := func(what string) {
		out := filepath.Join(t.TempDir(), "out")
		x, err := r.Store().Extract(ctx, backup.At{}, out, backup.ExtractOptions{})
		if err != nil {
			t.Fatal(err)
		}
		info, err := backup.InspectSnapshot(out)
		if err != nil || info.AuthRevision != users.AuthRevision || len(x.Notes) > 0 {
			t.Errorf("%s, from %s: users and roles of revision %d, want %d; notes %q, error %v", what, x.Full, info.AuthRevision, users.AuthRevision, x.Notes, err)
		}
	}
	restores("the newest state")
	r = taketest.Start(t, s, c)
	newest := r.Await(take.FullStored).Header // the newest by date has users of before
	if _, err := r.Store().Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
		t.Fatal(err)
	}
	l, err := r.Store().Lineage(ctx, c.Lineage)
	if err != nil || len(l.Fulls) != 1 || l.Fulls[0].Name() != newest.Place.Name() {
		t.Errorf("kept: %v, want %s; %v", l.Fulls, newest.Place.Name(), err)
	}
	restores("the newest state after a prune")
	r.Put("b", "1")
	r.Flush()
	restores("a state with a delta")
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
}

// fullsOnly is an etcd of which no daemon takes backups, and the configuration with which tests take fulls of it.
func fullsOnly(t *testing.T) (*taketest.Rig, take.Config) {
	s := etcdtest.Start(t, etcdtest.Options{})
	c := taketest.Config(s, backuptest.NewMemory())
	c.Scratch = t.TempDir()
	return &taketest.Rig{T: t, Server: s, Bucket: c.Bucket}, c
}

// A daemon that led before stores its full late, dated ahead of the one that has the users of now. No daemon knows of both: a prune keeps the latter.
func TestPrune_KeepsTheUsersOfTwoFullsOfOneRevision(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	r, c := fullsOnly(t)
	r.Put("a", "1")
	ahead := c
	ahead.Now = func() time.Time { return time.Now().Add(time.Minute) }
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
	st := r.Store()
	st.Whole = new(backup.Whole)
	for range 2 { // the other one goes once it is not the last either
		if _, err := st.Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
			t.Fatal(err)
		}
		x, err := st.Extract(ctx, backup.At{}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{})
		if err != nil || x.Full != users.Place.ID() {
			t.Fatalf("restored from %s, want %s; %v", x.Full, users.Place.ID(), err)
		}
	}
}

// The same holds for revisions that are not the newest one: a rule that keeps the full with the later date keeps the one with the newest users, too.
func TestPrune_KeepsTheUsersOfTwoFullsOfAnEarlierRevision(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	r, c := fullsOnly(t)
	revision := r.Put("a", "1")
	day := time.Now().UTC().Truncate(24 * time.Hour)
	at := func(ago time.Duration) take.Config {
		dated := c
		dated.Now = func() time.Time { return day.Add(-ago) }
		return dated
	}
	if _, err := take.Full(ctx, at(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Server.Client.UserAdd(ctx, "later", "secret"); err != nil {
		t.Fatal(err)
	}
	users, err := take.Full(ctx, at(2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	r.Put("b", "1")
	if _, err := take.Full(ctx, c); err != nil {
		t.Fatal(err)
	}
	st := r.Store()
	st.Whole = new(backup.Whole)
	if _, err := st.Prune(ctx, cke.Retention{Daily: 7}, false); err != nil {
		t.Fatal(err)
	}
	x, err := st.Extract(ctx, backup.At{Revision: revision}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{})
	if err != nil || x.Full != users.Place.ID() {
		t.Errorf("restored from %s, want %s; %v", x.Full, users.Place.ID(), err)
	}
}

// Users and roles that were changed after a time are not those of a state at that time, though no key was changed in between.
func TestExtract_UsersAreThoseOfTheTime(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	r, c := fullsOnly(t)
	r.Put("a", "1")
	before, err := take.Full(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	then := time.Now()
	time.Sleep(20 * time.Millisecond)
	if _, err := r.Server.Client.UserAdd(ctx, "later", "secret"); err != nil {
		t.Fatal(err)
	}
	after, err := take.Full(ctx, c)
	if err != nil || after.Last != before.Last {
		t.Fatalf("revision %d, want %d; %v", after.Last, before.Last, err)
	}
	restores := func(at backup.At, want backup.Header, noted bool) {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out")
		x, err := r.Store().Extract(ctx, at, out, backup.ExtractOptions{})
		if err != nil {
			t.Fatal(err)
		}
		info, err := backup.InspectSnapshot(out)
		if err != nil || info.AuthRevision != want.AuthRevision || noted != strings.Contains(strings.Join(x.Notes, "; "), "taken later") {
			t.Errorf("%+v: users and roles of revision %d, want %d; notes %q, error %v", at, info.AuthRevision, want.AuthRevision, x.Notes, err)
		}
	}
	restores(backup.At{}, after, false)
	restores(backup.At{Time: time.Now()}, after, false)
	restores(backup.At{Time: then}, before, false)
	restores(backup.At{Revision: before.Last, Time: then}, before, false)
	if err := c.Bucket.Delete(ctx, before.Place.Name()); err != nil {
		t.Fatal(err)
	}
	restores(backup.At{Revision: before.Last, Time: then}, after, true)
}

// Users and roles were changed before a time, and the only full that has them was complete after it: they may as well have been changed after the time. The
// full that was complete by then is restored, and a note names the other one.
func TestExtract_NotesUsersChangedBeforeOrAfterTheTime(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	r, c := fullsOnly(t)
	r.Put("a", "1")
	full := func() backup.Header {
		t.Helper()
		h, err := take.Full(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	add := func(user string) {
		t.Helper()
		if _, err := r.Server.Client.UserAdd(ctx, user, "secret"); err != nil {
			t.Fatal(err)
		}
	}
	notes := func(then time.Time, want backup.Header) string {
		t.Helper()
		x, err := r.Store().Extract(ctx, backup.At{Time: then}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{})
		if err != nil || x.Full != want.Place.ID() {
			t.Fatalf("restored from %s, want %s; %v", x.Full, want.Place.ID(), err)
		}
		return strings.Join(x.Notes, "; ")
	}
	before := full()
	add("later")
	time.Sleep(20 * time.Millisecond)
	then := time.Now()
	time.Sleep(20 * time.Millisecond)
	after := full()
	unchanged := full()
	if unchanged.Last != before.Last {
		t.Fatalf("revision %d, want %d", unchanged.Last, before.Last)
	}
	if got := notes(then, before); !strings.Contains(got, "as full "+after.Place.ID()+" shows") {
		t.Errorf("users and roles of before a change that was made by then: notes %q", got)
	}
	time.Sleep(20 * time.Millisecond)
	then = time.Now()
	time.Sleep(20 * time.Millisecond)
	full() // nothing was changed since
	if got := notes(then, unchanged); strings.Contains(got, "users and roles") {
		t.Errorf("a note where nothing was changed: %q", got)
	}
}

// A full of an earlier revision has no users from after the state, whatever the clock says of when it was complete.
func TestExtract_UsersOfATimeAreThoseOfAnEarlierRevision(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := etcdtest.Context(t)
	first := &taketest.Rig{T: t, Server: s}
	first.Put("a", "1")
	r := taketest.Start(t, s, taketest.Config(s, backuptest.NewMemory()))
	r.Await(take.FullStored)
	if _, err := s.Client.UserAdd(ctx, "root", "secret"); err != nil {
		t.Fatal(err)
	}
	r.Put("b", "1")
	r.Flush()
	users := r.Await(take.FullStored).Header
	r.Put("c", "1")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	x, err := r.Store().Extract(ctx, backup.At{Revision: users.Last + 1, Time: users.End.Add(-time.Millisecond)}, out, backup.ExtractOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := backup.InspectSnapshot(out); err != nil || info.AuthRevision != users.AuthRevision || len(x.Notes) > 0 {
		t.Errorf("users and roles of revision %d, want %d; notes %q, error %v", info.AuthRevision, users.AuthRevision, x.Notes, err)
	}
}
