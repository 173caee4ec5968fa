package backup_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// forgedState makes of a genuine state one with another last record, of the same HashKV: that is a CRC, and headers show it to everybody.
func forgedState(t *testing.T, snapshot string, want backup.Hash) {
	t.Helper()
	info, err := os.Stat(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(snapshot, info.Size()-32); err != nil { // the digest
		t.Fatal(err)
	}
	put := func(patch uint32) {
		db, err := bolt.Open(snapshot, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		err = db.Update(func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte("key"))
			last, _ := b.Cursor().Last()
			key := append([]byte{}, last[:17]...)
			if err := b.Delete(append([]byte{}, last...)); err != nil {
				return err
			}
			value := binary.LittleEndian.AppendUint32([]byte("cluster-admin "), patch)
			kv := append([]byte{1<<3 | 2, 4}, "mine"...)
			for _, field := range []byte{2 << 3, 3 << 3} { // created and changed at the revision
				kv = binary.AppendUvarint(append(kv, field), uint64(want.Revision))
			}
			kv = append(kv, 4<<3, 1, 5<<3|2, byte(len(value)))
			return b.Put(key, append(kv, value...))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put(0)
	got, err := backup.HashSnapshot(t.Context(), snapshot, want.Revision, want.Compacted)
	if err != nil {
		t.Fatal(err)
	}
	patch := got.Hash ^ want.Hash
	for range 32 { // a CRC-32C backward over 4 bytes
		if patch&(1<<31) != 0 {
			patch = (patch^0x82f63b78)<<1 | 1
		} else {
			patch <<= 1
		}
	}
	put(patch)
}

// Who can create and delete objects in a target, without the key, puts an unsigned full among signed deltas. It takes the place of the signed full that
// is gone, where one of the first deltas of a run has no signature either: signed deltas before the full, which show that it is newer than the first
// object that is signed, are not read.
func TestExtract_AForgedFullAmongSignedDeltas(t *testing.T) {
	id := newSigner(t)
	f := &fixture{signer: id}
	f.make(t, false)
	ctx := etcdtest.Context(t)
	_, deltas := f.objects(t)
	header := func(name string) backup.Header {
		h, err := backup.ReadHeader(ctx, f.bucket, place(t, name))
		if err != nil || h.Signature == nil {
			t.Fatalf("%+v, %v", h, err)
		}
		return h
	}
	// What retention has left of it: the second full, and the deltas from the one before on. The attacker has seen the state before the last two deltas.
	at := header(deltas[3]).Last
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	if _, err := f.store(t, f.bucket).Extract(ctx, backup.At{Revision: at}, snapshot, backup.ExtractOptions{}); err != nil {
		t.Fatal(err)
	}
	hash, err := backup.HashSnapshot(ctx, snapshot, at, -1)
	if err != nil {
		t.Fatal(err)
	}
	forgedState(t, snapshot, hash)
	b := backuptest.NewMemory()
	for _, name := range deltas[2:4] {
		b.Set(name, f.bucket.Get(name))
	}
	// Here a full is forged, and a delta before those that there are.
	p := backup.FullPlace("prod", "a1b2", at, time.Now())
	c, _, err := backup.SealFull(ctx, snapshot, filepath.Join(t.TempDir(), "body"), b, backup.Header{Place: p, Begin: p.Time, End: p.Time}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Create(ctx, p.Name(), c); err != nil {
		t.Fatal(err)
	}
	first := header(deltas[2]).Place
	w, err := backup.NewDeltaWriter(first.Revision-1, nil)
	if err != nil {
		t.Fatal(err)
	}
	change := backup.Change{Key: []byte("k"), CreateRevision: first.Revision - 1, ModRevision: first.Revision - 1, Version: 1}
	if err := w.Add([]backup.Change{change}, time.Now()); err != nil {
		t.Fatal(err)
	}
	c, h, err := w.Seal(backup.Header{Place: backup.DeltaPlace("prod", "a1b2", first.Stream, first.Sequence-1, first.Revision-1)})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Create(ctx, h.Place.Name(), c); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Millisecond)
	for _, name := range deltas[4:] { // the daemon goes on
		b.Set(name, f.bucket.Get(name))
	}
	// The signed full is gone: the attacker has deleted it.
	s := f.guarded(t, b, id)
	s.Past = backup.Past{Lives: []string{"a1b2"}, Stored: map[string]int64{"a1b2": f.last}}
	clean := b.Clone()
	clean.Delete(ctx, h.Place.Name())
	if _, err := f.guarded(t, clean, id).Find(ctx, backup.At{}); err == nil {
		t.Error("it is restored without the forged delta, too")
	}
	out := filepath.Join(t.TempDir(), "out")
	x, err := s.Extract(ctx, backup.At{}, out, backup.ExtractOptions{CheckHash: true})
	if err != nil {
		return // it is refused
	}
	t.Errorf("revision %d is restored from forged full %s, hash compared %v, notes %q", x.Revision, x.Full, x.HashChecked, x.Notes)
	for _, kv := range etcdtest.Open(t, out).State(t, 0).KVs {
		if string(kv.Key) == "mine" {
			t.Errorf("it has the key %q = %q", kv.Key, kv.Value)
		}
	}
}
