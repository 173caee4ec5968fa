package backup_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
)

// handMade is an etcd that cke knows nothing of, and what it holds: leases, users, a compaction, an alarm.
type handMade struct {
	*etcdtest.Server
	state etcdtest.State
	hash  uint32
}

func newHandMade(t *testing.T) *handMade {
	t.Helper()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx, r := etcdtest.Context(t), &taketest.Rig{T: t, Server: s}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lease, err := s.Client.Grant(ctx, 3600)
	must(err)
	for i := range 60 {
		r.Put(fmt.Sprint("key/", i%25), strings.Repeat("v", i*30), clientv3.WithLease(lease.ID*clientv3.LeaseID(i%2)))
	}
	noise := make([]byte, 64<<10)
	_, err = rand.NewChaCha8([32]byte{}).Read(noise)
	must(err)
	r.Put("noise", string(noise))
	_, err = s.Client.Delete(ctx, "key/1", clientv3.WithPrefix())
	must(err)
	compacted := r.Put("compacted/to", "1")
	_, err = s.Client.Compact(ctx, compacted, clientv3.WithCompactPhysical())
	must(err)
	r.Put("last", "1")
	h := &handMade{s, s.State(t, 0), 0}
	h.hash = s.Hash(t, h.state.Revision).Hash
	s.Alarm(t, pb.AlarmType_NOSPACE)
	_, err = s.Client.RoleAdd(ctx, "readers")
	must(err)
	for user, role := range map[string]string{"root": "root", cke.EtcdUser: "root", "app": "readers"} {
		_, err = s.Client.UserAdd(ctx, user, "secret")
		must(err)
		_, err = s.Client.UserGrantRole(ctx, user, role)
		must(err)
	}
	_, err = s.Client.AuthEnable(ctx)
	must(err)
	return h
}

// save does what `etcdctl snapshot save` does.
func (h *handMade) save(t *testing.T) (file string) {
	t.Helper()
	cli, err := clientv3.New(clientv3.Config{Endpoints: []string{h.Endpoint}, Username: "root", Password: "secret", Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer cli.Close()
	from, err := cli.Snapshot(etcdtest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	data, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "old.db", data)
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func opened(t *testing.T, path string, unproved bool) *backup.ImportFile {
	t.Helper()
	f, err := backup.OpenImport(t.Context(), path, unproved)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// importer is a store of what is imported into prod, signed.
func importer(t *testing.T, b backup.Bucket) *backup.Store {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	s := (&fixture{}).store(t, b)
	s.Cluster, s.Signer = backup.ImportName("prod"), backup.NewSigner(id)
	s.Trusted = []backup.PublicKey{s.Signer.Public()}
	return s
}

// restoredFrom extracts what was imported, as a leader does, and compares it with the etcd that it came from.
func (h *handMade) restoredFrom(t *testing.T, s *backup.Store, f *backup.ImportFile) {
	t.Helper()
	got, x := taketest.Extract(t, s, backup.At{Lineage: f.Incarnation(), Revision: f.Revision})
	if x.Revision != h.state.Revision {
		t.Errorf("revision %d, want %d", x.Revision, h.state.Revision)
	}
	state := got.State(t, 0)
	taketest.SameState(t, h.state, state)
	if d := cmp.Diff(h.state.Leases, state.Leases); d != "" {
		t.Errorf("leases: %s", d)
	}
	if hash := got.Hash(t, h.state.Revision); hash.Hash != h.hash {
		t.Errorf("hash %+v, want %d", hash, h.hash)
	}
	if alarms := got.Alarms(t); len(alarms) > 0 {
		t.Errorf("alarms %v", alarms)
	}
}

func TestImport_SnapshotIsStoredOnceAndRestoresExactly(t *testing.T) {
	h := newHandMade(t)
	f := opened(t, h.save(t), false)
	want := backup.ImportInfo{Keys: int64(len(h.state.KVs)), Users: 3, Roles: 1, Alarms: 1, Members: 1, Admitted: true, Version: "3.7.0",
		Hash: backup.Hash{Revision: h.state.Revision, Compacted: h.state.Revision - 1, Hash: h.hash}}
	want.SnapshotInfo = backup.SnapshotInfo{Revision: h.state.Revision, Compacted: h.state.Revision - 1, AuthRevision: f.AuthRevision, AuthEnabled: true, Leases: 1}
	if d := cmp.Diff(want, f.ImportInfo, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Index" }, cmp.Ignore())); d != "" || f.Kind != backup.ImportSnapshot {
		t.Errorf("%s: %s", f.Kind, d)
	}
	s := importer(t, backuptest.NewMemory())
	p, err := s.Import(t.Context(), f, backup.ImportOptions{Writer: "me"})
	if err != nil {
		t.Fatal(err)
	}
	h.restoredFrom(t, s, f)
	again, err := s.Import(t.Context(), f, backup.ImportOptions{Writer: "me"})
	if n := names(t, s.Bucket); err != nil || again != p || len(n) != 1 {
		t.Errorf("again: %v, %q, %v", again, n, err)
	}
}

func TestImport_EncryptsForRecipients(t *testing.T) {
	h := newHandMade(t)
	f := opened(t, h.save(t), false)
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	s := importer(t, backuptest.NewMemory())
	for range 2 {
		if _, err := s.Import(t.Context(), f, backup.ImportOptions{Recipients: []age.Recipient{id.Recipient()}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := names(t, s.Bucket); len(n) != 1 {
		t.Errorf("%q", n)
	}
	if _, err := s.Extract(t.Context(), backup.At{}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{}); !errors.Is(err, backup.ErrKey) {
		t.Errorf("without a key: %v", err)
	}
	s.Identities = []age.Identity{id}
	h.restoredFrom(t, s, f)
}

func TestImport_DataDirectoryOfAStoppedMember(t *testing.T) {
	h := newHandMade(t)
	db := filepath.Join(h.Dir, "member", "snap", "db")
	for _, path := range []string{h.Dir, db} {
		refusedImport(t, path, true, "an etcd runs on")
	}
	h.Stop()
	f := opened(t, h.Dir, false)
	if f.Kind != backup.ImportDirectory {
		t.Error(f.Kind)
	}
	s := importer(t, backuptest.NewMemory())
	if _, err := s.Import(t.Context(), f, backup.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	h.restoredFrom(t, s, f)
	f.Close()
	copied := opened(t, db, true)
	if copied.Close(); copied.Digest != f.Digest || copied.Kind != backup.ImportDatabase {
		t.Errorf("its database is another one: %+v", copied)
	}
	refusedImport(t, db, false, "has no hash at its end")
}

// A member that was killed has requests in its log that its database lacks. etcd applies them when it starts.
func TestImport_RefusesALogThatIsAheadUntilEtcdHasAppliedIt(t *testing.T) {
	s := etcdtest.Start(t, etcdtest.Options{})
	(&taketest.Rig{T: t, Server: s}).Put("before", "1")
	s.Stop()
	dir := s.Dir
	db := filepath.Join(dir, "member", "snap", "db")
	before := read(t, db)
	s = etcdtest.Start(t, etcdtest.Options{Dir: dir})
	r := &taketest.Rig{T: t, Server: s}
	for i := range 5 {
		r.Put("after", fmt.Sprint(i))
	}
	s.Stop()
	whole := opened(t, dir, false)
	whole.Close()
	if err := os.WriteFile(db, before, 0o600); err != nil {
		t.Fatal(err)
	}
	refusedImport(t, dir, false, "requests that the database does not hold yet")
	s = etcdtest.Start(t, etcdtest.Options{Dir: dir})
	s.Stop()
	f := opened(t, dir, false)
	if f.Revision != whole.Revision || f.Hash != whole.Hash {
		t.Errorf("%+v, want %+v", f.ImportInfo, whole.ImportInfo)
	}
	wal := filepath.Join(dir, "member", "wal")
	logs, err := filepath.Glob(filepath.Join(wal, "*.wal"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	f.Close()
	log := read(t, logs[0])
	at := bytes.Index(log, []byte("after"))
	if err := os.WriteFile(logs[0], append(log[:at-200:at-200], make([]byte, 4096)...), 0o600); err != nil {
		t.Fatal(err)
	}
	refusedImport(t, dir, false, "")
	for _, l := range logs {
		if err := os.Remove(l); err != nil {
			t.Fatal(err)
		}
	}
	refusedImport(t, dir, false, "has no write-ahead log")
}

// refusedImport expects a refusal, or damage.
func refusedImport(t *testing.T, path string, unproved bool, says string) {
	t.Helper()
	f, err := backup.OpenImport(t.Context(), path, unproved)
	if err == nil {
		f.Close()
	}
	db := path
	if info, none := os.Stat(path); none == nil && info.IsDir() {
		db = filepath.Join(path, "member", "snap", "db")
	}
	if held, none := os.OpenFile(db, os.O_RDONLY|unix.O_NONBLOCK, 0); none == nil { // an etcd could start on it
		if err := unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil && says != "an etcd runs on" {
			t.Errorf("%s stays locked: %v", path, err)
		}
		held.Close()
	}
	var refusal *backup.ImportRefusal
	if !errors.As(err, &refusal) && !backup.IsDamage(err) {
		t.Errorf("%s: error %v", path, err)
	} else if !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, want %q", path, err, says)
	}
}

func TestImport_RefusesWhatIsNoWholeDatabaseOfEtcd(t *testing.T) {
	h := newHandMade(t)
	good := read(t, h.save(t))
	h.Stop()
	proved := func(db []byte) []byte {
		sum := sha256.Sum256(db)
		return append(bytes.Clone(db), sum[:]...)
	}
	db := good[:len(good)-sha256.Size]
	flip := bytes.Clone(good)
	flip[len(flip)/2] ^= 1
	noise := bytes.Repeat([]byte("not a database. "), 4096)
	other := func(fill func(tx *bolt.Tx) error) []byte {
		file := filepath.Join(t.TempDir(), "other.db")
		b, err := bolt.Open(file, 0o600, nil)
		if err == nil {
			err = errors.Join(b.Update(fill), b.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		return read(t, file)
	}
	foreign := other(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("raftstate")); return err })
	keys := other(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("meta"))
		b, err2 := tx.CreateBucket([]byte("key"))
		return errors.Join(err, err2, b.Put([]byte("a key of another kind"), nil))
	})
	for name, c := range map[string]struct {
		data     []byte
		unproved bool
		says     string
	}{
		"cut within a page":       {good[:len(good)-sha256.Size-100], true, "truncated"},
		"cut at a page":           {good[:len(good)-sha256.Size-4096], false, "no hash"},
		"cut at a page, accepted": {good[:len(db)/2&^4095], true, ""},
		"another hash":            {append(bytes.Clone(db), make([]byte, 32)...), true, "does not match the SHA-256"},
		"altered":                 {flip, false, "does not match the SHA-256"},
		"empty":                   {nil, true, "empty"},
		"tiny":                    {make([]byte, 512), true, "not a database"},
		"no database":             {proved(noise), false, "database"},
		"another database":        {proved(foreign), false, "not an etcd database"},
		"other keys":              {proved(keys), false, "unknown key"},
		"a log":                   {append(make([]byte, 3), good...), false, "truncated"},
	} {
		t.Run(name, func(t *testing.T) { refusedImport(t, write(t, "db", c.data), c.unproved, c.says) })
	}
	refusedImport(t, t.TempDir(), false, "no data directory of etcd 3")
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	refusedImport(t, pipe, false, "not a regular file")
	if _, err := backup.OpenImport(t.Context(), filepath.Join(t.TempDir(), "none"), false); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestImport_RefusesAFileThatChangesMeanwhile(t *testing.T) {
	h := newHandMade(t)
	f := opened(t, h.save(t), false)
	another := newHandMade(t)
	if err := os.WriteFile(f.Path, read(t, another.save(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := importer(t, backuptest.NewMemory())
	_, err := s.Import(t.Context(), f, backup.ImportOptions{})
	if refusal := new(backup.ImportRefusal); !errors.As(err, &refusal) || len(names(t, s.Bucket)) > 0 {
		t.Errorf("%v, %q", err, names(t, s.Bucket))
	}
}

// An import that is killed anywhere can be repeated, and is whole then.
func TestImport_IsRepeatedAfterACrashAtAnyStep(t *testing.T) {
	h := newHandMade(t)
	f := opened(t, h.save(t), false)
	for n := range 10 {
		memory := backuptest.NewMemory()
		s := importer(t, memory)
		s.Bucket = backuptest.CrashAt(memory, n)
		_, err := s.Import(t.Context(), f, backup.ImportOptions{})
		s.Bucket = memory
		if _, err := s.Import(t.Context(), f, backup.ImportOptions{}); err != nil {
			t.Fatal(err)
		}
		if n := names(t, memory); len(n) != 1 {
			t.Errorf("%q", n)
		}
		h.restoredFrom(t, s, f)
		if err == nil {
			return
		}
	}
	t.Error("it always crashes")
}

func TestImport_OnFullDisks(t *testing.T) {
	h := newHandMade(t)
	f := opened(t, h.save(t), false)
	full := smallDisk(t, "8k")
	s := importer(t, backuptest.NewMemory())
	s.Scratch = full
	_, err := s.Import(t.Context(), f, backup.ImportOptions{})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("scratch: %v", err)
	}
	empty(t, full)
	s = importer(t, backup.Dir(full))
	if _, err := s.Import(t.Context(), f, backup.ImportOptions{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("target: %v", err)
	}
	grow(t, full, "4m")
	if _, err := s.Import(t.Context(), f, backup.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	h.restoredFrom(t, s, f)
}
