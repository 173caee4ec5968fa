package take_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
)

// What etcdctl of any minor saves, and what a stopped member of it leaves, comes in and restores exactly, with etcd of that minor and of the next.
func TestImportVersions_EveryMinorComesInAndRestoresExactly(t *testing.T) {
	for i, version := range minors {
		t.Run(version, func(t *testing.T) {
			bin, data := binaries(t, version), filepath.Join(t.TempDir(), "data")
			cmd, s := startProcess(t, bin, data, "--snapshot-count", "50")
			want := fill(t, s)
			hash := s.Hash(t, want.Revision)
			saved := filepath.Join(t.TempDir(), "old.db")
			if said, err := exec.Command(filepath.Join(bin, "etcdctl"), "--endpoints", s.Endpoint, "snapshot", "save", saved).CombinedOutput(); err != nil {
				t.Fatalf("etcdctl snapshot save: %v\n%s", err, said)
			}
			bucket := backuptest.NewMemory()
			check := func(path string) {
				t.Helper()
				f, err := backup.OpenImport(t.Context(), path, false)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if !strings.HasPrefix(version, strings.TrimSuffix(f.Version, "0")) || f.Revision != want.Revision || f.Keys != int64(len(want.KVs)) || f.Hash.Hash != hash.Hash {
					t.Errorf("%s: %+v, want revision %d, %d keys, hash %d", path, f.ImportInfo, want.Revision, len(want.KVs), hash.Hash)
				}
				store := importStore(t, bucket)
				if _, err := store.Import(t.Context(), f, backup.ImportOptions{}); err != nil {
					t.Fatal(err)
				}
				for _, to := range minors[i:min(i+2, len(minors))] {
					startsOn(t, binaries(t, to), store, backup.At{Lineage: f.Incarnation(), Revision: f.Revision}, want, hash.Hash)
				}
			}
			check(saved)
			if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), ended(cmd)); err != nil {
				t.Fatal(err)
			}
			check(data)
		})
	}
}

// A member that is killed while it is written to is refused, or has all that was acknowledged. Once it was started and stopped, it has.
func TestImportVersions_NothingAcknowledgedIsLostOfAKilledMember(t *testing.T) {
	for _, version := range minors {
		t.Run(version, func(t *testing.T) {
			bin, data := binaries(t, version), filepath.Join(t.TempDir(), "data")
			cmd, s := startProcess(t, bin, data)
			fill(t, s)
			last := int64(0)
			for i := range 300 {
				res, err := s.Client.Put(etcdtest.Context(t), fmt.Sprint("late/", i), "v")
				if err != nil {
					t.Fatal(err)
				}
				last = res.Header.Revision
			}
			if err := errors.Join(cmd.Process.Kill(), ended(cmd)); err != nil {
				t.Fatal(err)
			}
			f, err := backup.OpenImport(t.Context(), data, false)
			var refusal *backup.ImportRefusal
			switch {
			case err == nil:
				if f.Close(); f.Revision != last {
					t.Errorf("accepted with revision %d of %d", f.Revision, last)
				}
				t.Log("the database had all")
			case !errors.As(err, &refusal) || !strings.Contains(refusal.What, "requests that the database does not hold"):
				t.Error(err)
			default:
				t.Log(err)
			}
			cmd, _ = startProcess(t, bin, data)
			if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), ended(cmd)); err != nil {
				t.Fatal(err)
			}
			f, err = backup.OpenImport(t.Context(), data, false)
			if err != nil {
				t.Fatal(err)
			}
			if f.Close(); f.Revision != last {
				t.Errorf("revision %d of %d", f.Revision, last)
			}
		})
	}
}

// No database of etcd 3 holds keys of the v2 API: they are in the log at first, then in snapshots of their own.
func TestImportVersions_KeysOfTheV2APIAreNotLeftOut(t *testing.T) {
	bin, data := binaries(t, minors[0]), filepath.Join(t.TempDir(), "data")
	for _, file := range []string{"log", "snapshot"} {
		cmd, s := startProcess(t, bin, data, "--enable-v2", "--snapshot-count", "50")
		if file == "log" {
			req, err := http.NewRequestWithContext(etcdtest.Context(t), http.MethodPut, s.Endpoint+"/v2/keys/old", strings.NewReader("value=1"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			res, err := http.DefaultClient.Do(req)
			if err != nil || res.StatusCode != http.StatusCreated {
				t.Fatal(res, err)
			}
			res.Body.Close()
		} else {
			fill(t, s)
		}
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), ended(cmd)); err != nil {
			t.Fatal(err)
		}
		snapshots, err := filepath.Glob(filepath.Join(data, "member", "snap", "*.snap"))
		if err != nil || (len(snapshots) > 0) != (file == "snapshot") {
			t.Errorf("%s: %q, %v", file, snapshots, err)
		}
		f, err := backup.OpenImport(t.Context(), data, false)
		if err == nil {
			f.Close()
		}
		if refusal := new(backup.ImportRefusal); !errors.As(err, &refusal) || !strings.Contains(refusal.What, "keys of etcd's v2 API") || !strings.Contains(refusal.Try, "etcdctl snapshot save") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// Of three members one was down while clients wrote. What it holds is sound, and only its index shows that the others have more.
func TestImportVersions_TheIndexShowsWhoLagsBehind(t *testing.T) {
	servers := etcdtest.StartCluster(t, 3)
	put := func(s *etcdtest.Server, key string) {
		t.Helper()
		if _, err := s.Client.Put(etcdtest.Context(t), key, "v"); err != nil {
			t.Fatal(err)
		}
	}
	put(servers[1], "all have it")
	servers[0].Stop()
	for i := range 10 {
		put(servers[1], fmt.Sprint("later/", i))
	}
	// The second is a snapshot: the log of a member that stops without a quorum may have requests of its own, which are refused.
	snapshot := filepath.Join(t.TempDir(), "snapshot.db")
	from, err := servers[1].Client.Snapshot(etcdtest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(from)
	if err := errors.Join(err, from.Close(), os.WriteFile(snapshot, all, 0o600)); err != nil {
		t.Fatal(err)
	}
	var indexes []uint64
	for _, path := range []string{servers[0].Dir, snapshot} {
		f, err := backup.OpenImport(t.Context(), path, false)
		if err != nil {
			t.Fatal(err)
		}
		if f.Close(); f.Members != 3 {
			t.Errorf("%d members", f.Members)
		}
		indexes = append(indexes, f.Index)
	}
	if indexes[0]+10 > indexes[1] {
		t.Errorf("%d", indexes)
	}
}

func importStore(t *testing.T, b backup.Bucket) *backup.Store {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	signer := backup.NewSigner(id)
	return &backup.Store{Bucket: b, Cluster: backup.ImportName("prod"), Scratch: t.TempDir(), Signer: signer, Trusted: []backup.PublicKey{signer.Public()}, AllowUntrusted: true}
}

// fill gives an etcd keys with versions, deletions and leases, and compacts it.
func fill(t *testing.T, s *etcdtest.Server) etcdtest.State {
	t.Helper()
	ctx, r := etcdtest.Context(t), &taketest.Rig{T: t, Server: s}
	lease, err := s.Client.Grant(ctx, 3600)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		r.Put(fmt.Sprint("k", i%60), random(i*20), clientv3.WithLease(lease.ID*clientv3.LeaseID(i%2)))
	}
	if _, err := s.Client.Delete(ctx, "k1", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.Compact(ctx, r.Put("middle", "1"), clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	r.Put("last", "1")
	return s.State(t, 0)
}
