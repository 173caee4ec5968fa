package take_test

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// standIn is a copy of a full without a signature that claims to be a second older, with other users: etcd's hash counts keys alone.
func standIn(t *testing.T, s *backup.Store, full backup.Header) (backup.Content, backup.Place) {
	t.Helper()
	ctx := etcdtest.Context(t)
	file := filepath.Join(t.TempDir(), "forged.db")
	if _, err := s.Extract(ctx, backup.At{Full: full.Place.ID()}, file, backup.ExtractOptions{}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err == nil {
		err = os.Truncate(file, info.Size()-32)
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("auth")).Put([]byte("authRevision"), binary.BigEndian.AppendUint64(nil, 666))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	h := backup.Header{Place: backup.FullPlace("prod", "a1b2", full.Last, full.Place.Time.Add(-time.Second)), Begin: full.Begin, End: full.End, Hashes: full.Hashes}
	content, h, err := backup.SealFull(ctx, file, filepath.Join(t.TempDir(), "body"), s.Bucket, h, nil)
	if err != nil {
		t.Fatal(err)
	}
	return content, h.Place
}

// damage is what becomes of an object.
var damage = map[string]func(b *backuptest.Memory, name string){
	"its body is damaged": func(b *backuptest.Memory, name string) {
		data := b.Get(name)
		data[len(data)-10] ^= 1
		b.Set(name, data)
	},
	"its head is damaged": func(b *backuptest.Memory, name string) {
		data := b.Get(name)
		data[40] ^= 1
		b.Set(name, data)
	},
	"it is lost": func(b *backuptest.Memory, name string) { b.Delete(context.Background(), name) },
}

// Everything was signed from the first object on. What somebody puts beside it who can only create objects does not take the place of the genuine full
// when that is of no use any more.
func TestExtract_AForgedFullTakesNoPlaceOfADamagedOne(t *testing.T) {
	t.Parallel()
	for name, harm := range damage {
		t.Run(name, func(t *testing.T) {
			ctx := etcdtest.Context(t)
			bucket, signer := backuptest.NewMemory(), backup.NewSigner(identity(t))
			s := etcdtest.Start(t, etcdtest.Options{})
			c := taketest.Config(s, bucket)
			c.Signer = signer
			(&taketest.Rig{T: t, Server: s}).Put("a", "1")
			r := taketest.Start(t, s, c)
			full := r.Await(take.FullStored).Header
			var last int64
			for range 3 {
				last = r.Put("b", "1")
				r.Flush()
			}
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			content, p := standIn(t, r.Store(), full)
			if err := bucket.Create(ctx, p.Name(), content); err != nil {
				t.Fatal(err)
			}
			harm(bucket, full.Place.Name())
			st := r.Store()
			st.Trusted = []backup.PublicKey{signer.Public()}
			for _, at := range []backup.At{{}, {Revision: last}, {Revision: full.Last + 1}} {
				x, err := st.Extract(ctx, at, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{CheckHash: true})
				if !backup.IsDamage(err) {
					t.Errorf("%+v: revision %d from %s, notes %q, error %v", at, x.Revision, x.Full, x.Notes, err)
				}
			}
			report, err := st.Check(ctx, "")
			if err != nil || report.LastGood > full.Last {
				t.Errorf("%+v, %v", report, err)
			}
			st.AllowUntrusted = true
			if _, x := taketest.Extract(t, st, backup.At{}); x.Revision != last {
				t.Errorf("revision %d, want %d", x.Revision, last)
			}
		})
	}
}

// What an earlier release took, and nobody signed, leads on as ever to what is signed after it: its full was there first.
func TestExtract_AnUnsignedFullLeadsOnAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	for name, harm := range damage {
		t.Run(name, func(t *testing.T) {
			ctx := etcdtest.Context(t)
			bucket, signer := backuptest.NewMemory(), backup.NewSigner(identity(t))
			r := begin(t, bucket, nil)
			first := r.Put("a", "1")
			if _, err := r.Taker.Full(ctx); err != nil {
				t.Fatal(err)
			}
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			for _, name := range backups(t, bucket) { // none is newer than the full
				if strings.Contains(name, "/delta/") {
					bucket.Delete(ctx, name)
				}
			}
			c := taketest.Config(r.Server, bucket)
			c.Signer = signer
			r2 := taketest.Start(t, r.Server, c)
			full := r2.Await(take.FullStored).Header
			var last int64
			for range 3 {
				last = r2.Put("b", "1")
				r2.Flush()
			}
			if err := r2.Stop(); err != nil {
				t.Fatal(err)
			}
			harm(bucket, full.Place.Name())
			s := r2.Store()
			s.Trusted = []backup.PublicKey{signer.Public()}
			for rev := first; rev <= last; rev++ {
				got, x := taketest.Extract(t, s, backup.At{Revision: rev})
				taketest.SameState(t, r.Server.State(t, rev), got.State(t, 0))
				if !strings.Contains(strings.Join(x.Notes, " "), "not signed") {
					t.Errorf("revision %d: notes %q", rev, x.Notes)
				}
			}
			if name != "it is lost" {
				return
			}
			f, err := s.Find(ctx, backup.At{})
			if err != nil || f.Revision != last || !strings.Contains(strings.Join(f.Notes, " "), "is not signed") {
				t.Errorf("%+v, %v", f, err)
			}
		})
	}
}
