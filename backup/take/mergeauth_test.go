package take_test

import (
	"errors"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// Turning authentication on does not raise etcd's revision of users and roles. A merge that passes over the damaged full with it is refused:
// the merged full would be the newest, with authentication off.
func TestCompact_DoesNotTurnAuthenticationOff(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := etcdtest.Context(t)
	addRoot(t, s)
	b := backuptest.NewMemory()
	c := taketest.Config(s, b)
	c.Username, c.Password, c.Delta.Period = "root", "secret", cke.Duration(20*time.Millisecond)
	first := &taketest.Rig{T: t, Server: s}
	first.Put("a", "1")
	r := taketest.Start(t, s, c)
	if h := r.Await(take.FullStored).Header; h.AuthEnabled {
		t.Fatal("on")
	}
	r.Put("b", "1")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	authenticate(t, s)
	r = taketest.Start(t, s, c)
	r.Await(take.AuthChanged)
	on := r.Await(take.FullStored).Header
	if !on.AuthEnabled {
		t.Fatal("off")
	}
	r.Put("c", "1")
	r.Flush()
	data := b.Get(on.Place.Name())
	data[len(data)-10] ^= 1
	b.Set(on.Place.Name(), data)
	place, err := r.Store().Compact(ctx, backup.At{}, backup.CompactOptions{})
	if !errors.Is(err, backup.ErrOlderUsers) {
		t.Errorf("a merge to %s: %v", place.ID(), err)
	}
}
