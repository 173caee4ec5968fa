package take_test

import (
	"testing"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// A stream ends with a damaged delta, which a prune leaves, and another one begins, of which it leaves nothing: the full after it holds all of both.
func TestTaker_APruneAfterDamageLeavesTheNewestState(t *testing.T) {
	t.Parallel()
	for _, signed := range []bool{false, true} {
		b := backuptest.NewMemory()
		s := etcdtest.Start(t, etcdtest.Options{})
		c := taketest.Config(s, b)
		if signed {
			c.Signer = backup.NewSigner(identity(t))
		}
		r := taketest.Start(t, s, c)
		r.Await(take.FullStored)
		r.Put("a", "1")
		r.Flush()
		name := r.Await(take.DeltaStored).Header.Place.Name()
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		data := b.Get(name)
		data[40] ^= 1
		b.Set(name, data)
		r = taketest.Start(t, s, c)
		r.Await(take.FullStored)
		last := r.Put("b", "1")
		r.Flush()
		if _, err := r.Taker.Full(t.Context()); err != nil {
			t.Fatal(err)
		}
		store := r.Store()
		if signed {
			store.Trusted, store.Signer = []backup.PublicKey{c.Signer.Public()}, c.Signer
		}
		if f, err := store.Find(t.Context(), backup.At{}); err != nil || f.Revision != last {
			t.Fatal(f, err)
		}
		plan, err := store.Prune(t.Context(), cke.Retention{Last: 1}, false)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := store.Find(t.Context(), backup.At{}); err != nil || f.Revision != last {
			t.Errorf("signed %v: %d objects were pruned, %+v, and now: %v", signed, len(plan.Delete), f, err)
		}
	}
}
