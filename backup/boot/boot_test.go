package boot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"cke/backup"
)

// snapshot writes one as etcd does, with its digest at the end.
func snapshot(t *testing.T, auth byte) string {
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket(authBucket)
		if err != nil {
			return err
		}
		return b.Put(authEnabled, []byte{auth})
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	if err := os.WriteFile(path, append(content, sum[:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An etcd without TLS hashes nothing for anyone while authentication is on.
func TestServe_TurnsAuthenticationOffInTheScratchCopy(t *testing.T) {
	for _, auth := range []byte{0, 1} {
		path := snapshot(t, auth)
		before, _ := os.ReadFile(path)
		if err := serve(t.Context(), &fakeEtcd{answer: bootAnswer{revision: 7}}, path, backup.Extracted{Revision: 7}); err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(after[:len(after)-sha256.Size])
		if on, err := authOn(path); on || err != nil || !bytes.Equal(sum[:], after[len(after)-sha256.Size:]) {
			t.Errorf("from %d: on %t, %v, or the digest is wrong", auth, on, err)
		}
		if auth == 0 && !bytes.Equal(before, after) {
			t.Error("what was off was written")
		}
	}
}

// fakeEtcd answers after some asking.
type fakeEtcd struct {
	answer     bootAnswer
	starting   int
	restoreErr error
	askErr     error
	removed    int
}

func (f *fakeEtcd) String() string                          { return "a fake" }
func (f *fakeEtcd) version(context.Context) (string, error) { return "3.6.16", nil }
func (f *fakeEtcd) restore(context.Context, string) error   { return f.restoreErr }
func (f *fakeEtcd) run(context.Context) error               { return nil }
func (f *fakeEtcd) remove() string                          { f.removed++; return "panic: no" }
func (f *fakeEtcd) ask(context.Context) (bootAnswer, error) {
	if f.starting > 0 {
		f.starting--
		return bootAnswer{}, errors.New("refused")
	}
	return f.answer, f.askErr
}

func TestServe_ComparesWhatEtcdHolds(t *testing.T) {
	x := backup.Extracted{Revision: 7, Hash: &backup.Hash{Revision: 7, Compacted: 3, Hash: 99}}
	for name, tc := range map[string]struct {
		etcd fakeEtcd
		ok   bool
	}{
		"Same":           {fakeEtcd{answer: bootAnswer{7, 99, 3}}, true},
		"After":          {fakeEtcd{answer: bootAnswer{7, 99, 3}, starting: 2}, true},
		"OtherCompacted": {fakeEtcd{answer: bootAnswer{7, 1, 5}}, true},
		"OtherRevision":  {fakeEtcd{answer: bootAnswer{6, 99, 3}}, false},
		"OtherHash":      {fakeEtcd{answer: bootAnswer{7, 98, 3}}, false},
		"Ended":          {fakeEtcd{askErr: errEnded}, false},
		"NotRestored":    {fakeEtcd{restoreErr: errors.New("no")}, false},
	} {
		err := serve(t.Context(), &tc.etcd, snapshot(t, 0), x)
		if (err == nil) != tc.ok || err != nil && !errors.Is(err, ErrNotServed) || tc.etcd.removed != 1 {
			t.Errorf("%s: %v, removed %d times", name, err, tc.etcd.removed)
		}
	}
}
