package boot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

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
		if (err == nil) != tc.ok || err != nil && !errors.Is(err, backup.ErrNotServed) || tc.etcd.removed != 1 {
			t.Errorf("%s: %v, removed %d times", name, err, tc.etcd.removed)
		}
	}
}

// What fails on this host, before etcd could say anything of the backup, is no damage of the backup.
func TestStart_AFailureOfThisHostIsNoDamage(t *testing.T) {
	for name, tc := range map[string]struct {
		restore, etcd string
		damage        bool
	}{
		"full disk":             {restore: "echo 'Error: write data/member/snap/db: no space left on device' >&2; exit 1"},
		"full disk, as a panic": {restore: "echo 'panic: write db: no space left on device' >&2; echo 'main.go:1 +0x1' >&2; exit 2"},
		"killed":                {restore: "kill -9 $$"},
		"an unknown error":      {restore: "echo 'Error: unknown flag' >&2; exit 1"},
		"etcd on a full disk":   {restore: "exit 0", etcd: "echo 'cannot create WAL: no space left on device' >&2; exit 1"},
		"etcd is killed":        {restore: "exit 0", etcd: "kill -9 $$"},
		"digest":                {restore: "echo 'Error: expected sha256 [1], got [2]' >&2; exit 1", damage: true},
		"no database":           {restore: "echo 'Error: invalid database' >&2; exit 1", damage: true},
		"a broken page":         {restore: "echo 'panic: page 7 already freed' >&2; echo 'main.go:1 +0x1' >&2; exit 2", damage: true},
		"etcd ends":             {restore: "exit 0", etcd: "echo 'cannot find the revision' >&2; exit 1", damage: true},
	} {
		dir := t.TempDir()
		for program, script := range map[string]string{"etcdutl": tc.restore, "etcd": `[ "$1" = --version ] && { echo etcd Version: 3.7.3; exit 0; }` + "\n" + tc.etcd} {
			if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir+":/bin:/usr/bin")
		trial := Trial{Scratch: t.TempDir()}
		if _, err := trial.Start(t.Context(), snapshot(t, 0), backup.Extracted{Revision: 1, EtcdVersion: "3.7.3"}); errors.Is(err, backup.ErrNotServed) != tc.damage || errors.Is(err, ErrNotBooted) == tc.damage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStart_RestoringThatTakesTooLongIsNoDamage(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "etcdutl"), []byte("#!/bin/sh\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/bin:/usr/bin")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	l := &localEtcd{scratch: t.TempDir()}
	if err := l.restore(ctx, snapshot(t, 0)); !errors.Is(err, errNotTried) {
		t.Error(err)
	}
	l.remove()
	if small, large := limitFor(0), limitFor(8<<30); small != bootLimit || large < 15*time.Minute {
		t.Errorf("%s, and %s for 8 GiB", small, large)
	}
}
