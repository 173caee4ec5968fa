package take_test

import (
	"path/filepath"
	"testing"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// spoilNewest alters the header of the newest full, and deletes what is older where alone is set.
func spoilNewest(t *testing.T, b *backuptest.Memory, alone bool) {
	t.Helper()
	l, err := (&backup.Store{Bucket: b, Cluster: "prod"}).Lineage(etcdtest.Context(t), "a1b2")
	if err != nil {
		t.Fatal(err)
	}
	newest := l.Fulls[len(l.Fulls)-1].Name()
	data := b.Get(newest)
	data[40] ^= 1
	b.Set(newest, data)
	for _, f := range l.Fulls[:len(l.Fulls)-1] {
		if !alone {
			break
		}
		if err := b.Delete(etcdtest.Context(t), f.Name()); err != nil {
			t.Fatal(err)
		}
	}
}

// The newest full is damaged, and there is no delta yet: the changes since the full before it are taken from etcd, and a new full at once.
func TestTaker_GoesOnAfterTheFullBeforeADamagedOne(t *testing.T) {
	b := backuptest.NewMemory()
	r := unwatched(t, b)
	r.Put("a", "1")
	r.Put("a", "2")
	full(t, r)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	spoilNewest(t, b, false)
	r.Put("b", "1")
	r = again(t, r)
	r.Await(take.FullStored)
	r.Put("end", "1")
	r.Flush()
	covers(t, r, 2, r.Server.State(t, 0).Revision)
}

// Deltas lead on from the damaged full alone: without a new one nothing could be restored until the next is due.
func TestTaker_TakesAFullWhereOnlyADamagedOneLeadsOn(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	r := begin(t, b, nil)
	r.Put("a", "1")
	full(t, r)
	r.Put("a", "2")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	spoilNewest(t, b, true)
	r = again(t, r)
	r.Await(take.FullStored)
	now := r.Server.State(t, 0).Revision
	covers(t, r, now, now)
}

// The header of a full that was cut short is sound. Only its size tells that nothing can be restored from it.
func TestTaker_AFullThatWasCutShortConnectsNothing(t *testing.T) {
	t.Parallel()
	b := backuptest.NewMemory()
	s := etcdtest.Start(t, etcdtest.Options{})
	c := taketest.Config(s, b)
	r := taketest.Start(t, s, c)
	name := r.Await(take.FullStored).Header.Place.Name()
	r.Put("a", "1")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	data := b.Get(name)
	b.Set(name, data[:len(data)-200])
	r = taketest.Start(t, s, c)
	r.Put("b", "1")
	r.Flush()
	st := r.Taker.Status()
	_, err := r.Store().Extract(t.Context(), backup.At{}, filepath.Join(t.TempDir(), "x.db"), backup.ExtractOptions{})
	if err != nil && st.Connected && st.Problem == "" {
		t.Errorf("flushed and connected up to revision %d, and: %v", st.Revision, err)
	}
}
