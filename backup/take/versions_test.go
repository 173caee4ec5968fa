package take_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/boot"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
	"cke/internal/need"
	"cke/mtest/lab"
)

// minors has one release of each minor of etcd that cke supports.
var minors = []string{"3.5.35", "3.6.16", "3.7.3"}

// binaries returns a folder with etcd and etcdutl of a version, built once and kept in the cache.
func binaries(t *testing.T, version string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs etcd " + version + " to be built")
	}
	img, err := lab.EtcdImage(t.Context(), version, os.Stderr)
	if err != nil {
		need.Missing(t, "etcd %s is not in the cache and cannot be built: %v", version, err)
	}
	dir := t.TempDir()
	if err := img.Binaries(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// process runs an etcd of its own over a data directory until the test ends.
func process(t *testing.T, bin, data string, args ...string) *etcdtest.Server {
	t.Helper()
	_, s := startProcess(t, bin, data, args...)
	return s
}

func startProcess(t *testing.T, bin, data string, args ...string) (*exec.Cmd, *etcdtest.Server) {
	t.Helper()
	client := "http://" + freePort(t)
	cmd := exec.Command(filepath.Join(bin, "etcd"), append(args, "--name", "test", "--data-dir", data, "--listen-client-urls", client,
		"--advertise-client-urls", client, "--listen-peer-urls", "http://"+freePort(t), "--initial-advertise-peer-urls", etcdtest.PeerURL,
		"--initial-cluster", "test="+etcdtest.PeerURL, "--max-txn-ops", "20000", "--max-request-bytes", "8388608", "--unsafe-no-fsync")...)
	log, err := os.Create(filepath.Join(t.TempDir(), "etcd.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("etcd: …%s", text[max(0, len(text)-2000):])
		}
	})
	cli, err := clientv3.New(clientv3.Config{Endpoints: []string{client}, Logger: zap.NewNop(), DialTimeout: 10 * time.Second,
		MaxCallSendMsgSize: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cli.Close() })
	ctx, cancel := context.WithTimeout(etcdtest.Context(t), time.Minute)
	defer cancel()
	for {
		if _, err := cli.Get(ctx, "ready"); err == nil {
			return cmd, &etcdtest.Server{Endpoint: client, Client: cli}
		}
		if ctx.Err() != nil {
			t.Fatal("etcd does not answer")
		}
	}
}

// Every supported minor is backed up, restored exactly, and takes its own restored snapshot.
func TestVersions_EveryMinorIsBackedUpAndRestoredExactly(t *testing.T) {
	for _, version := range minors {
		t.Run(version, func(t *testing.T) {
			bin := binaries(t, version)
			s := process(t, bin, filepath.Join(t.TempDir(), "data"))
			bucket := backuptest.NewMemory()
			r := &taketest.Rig{T: t, Server: s}
			r.Put("before", "1")
			r = taketest.Start(t, s, taketest.Config(s, bucket))
			if h := r.Await(take.FullStored).Header; h.EtcdVersion != version || len(h.Hashes) != 1 {
				t.Errorf("header %+v", h)
			}
			states, compacted := live(t, r)
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			last := int64(0)
			for rev, want := range states {
				last = max(last, rev)
				got, x := taketest.Extract(t, r.Store(), backup.At{Revision: rev})
				if x.Revision != rev {
					t.Errorf("extracted %d instead of %d", x.Revision, rev)
				}
				taketest.SameState(t, want, got.State(t, 0))
				if rev <= compacted {
					continue
				}
				hash := s.Hash(t, rev)
				if have := got.Hash(t, rev); have.CompactRevision < hash.CompactRevision {
					got.Compact(t, hash.CompactRevision)
				}
				if have := got.Hash(t, rev); have != hash {
					t.Errorf("revision %d: hash %+v, in the cluster %+v", rev, have, hash)
				}
			}
			restored(t, bin, r.Store(), states[last], s)
			drilled(t, bin, r.Store(), version)
		})
	}
}

// drilled restores to scratch as the daemon does on schedule: an etcd of the version the backup came from starts on it.
func drilled(t *testing.T, bin string, s *backup.Store, version string) {
	t.Helper()
	t.Setenv("PATH", bin)
	s.Scratch = t.TempDir()
	trial := boot.Trial{Scratch: s.Scratch}
	x, err := s.Drill(etcdtest.Context(t), backup.At{}, trial.Start)
	if err != nil || x.Booted != version || !x.HashChecked {
		t.Errorf("drilled %+v, %s: %v", x, trial.Why, err)
	}
}

// live changes a cluster in every way that a backup has to follow, and returns what it held at some revisions, and the
// revision it was compacted to.
func live(t *testing.T, r *taketest.Rig) (map[int64]etcdtest.State, int64) {
	t.Helper()
	ctx, cli := etcdtest.Context(t), r.Server.Client
	states := map[int64]etcdtest.State{}
	note := func() int64 {
		st := r.Server.State(t, 0)
		states[st.Revision] = st
		return st.Revision
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lease, err := cli.Grant(ctx, 3600)
	check(err)
	gone, err := cli.Grant(ctx, 3600)
	check(err)
	for i := range 50 {
		r.Put(fmt.Sprint("k", i%20), random(i*40), clientv3.WithLease(lease.ID*clientv3.LeaseID(i%2)))
	}
	r.Put("leased", "x", clientv3.WithLease(gone.ID))
	middle := note()
	r.Flush()
	var ops []clientv3.Op
	for i := range 12_000 {
		ops = append(ops, clientv3.OpPut(fmt.Sprintf("many/%05d", i), "v"))
	}
	_, err = cli.Txn(ctx).Then(ops...).Commit()
	check(err)
	note()
	_, err = cli.Delete(ctx, "many/", clientv3.WithPrefix())
	check(err)
	_, err = cli.Revoke(ctx, gone.ID)
	check(err)
	r.Put("large", random(3<<19-100))
	note()
	r.Flush()
	_, err = cli.Compact(ctx, middle+1, clientv3.WithCompactPhysical())
	check(err)
	_, err = r.Taker.Full(ctx)
	check(err)
	_, err = cli.Txn(ctx).Then(clientv3.OpDelete("k1", clientv3.WithPrefix()), clientv3.OpPut("empty", ""), clientv3.OpPut("k0", "y")).Commit()
	check(err)
	note()
	r.Put("last", "1")
	note()
	r.Flush()
	return states, middle + 1
}

// ended waits for an etcd that was ordered to stop.
func ended(cmd *exec.Cmd) error {
	var how *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &how) {
		return err
	}
	return nil
}

// restored gives the newest state to the etcdutl of that version and starts its etcd on the result.
func restored(t *testing.T, bin string, store *backup.Store, want etcdtest.State, live *etcdtest.Server) {
	t.Helper()
	startsOn(t, bin, store, backup.At{}, want, live.Hash(t, want.Revision).Hash)
}

// startsOn restores a state with the programs in bin.
func startsOn(t *testing.T, bin string, store *backup.Store, at backup.At, want etcdtest.State, hash uint32) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "snapshot.db")
	if _, err := store.Extract(etcdtest.Context(t), at, out, backup.ExtractOptions{CheckHash: true}); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "data")
	said, err := exec.Command(filepath.Join(bin, "etcdutl"), "snapshot", "restore", out, "--data-dir", data, "--name", "test",
		"--initial-cluster", "test="+etcdtest.PeerURL, "--initial-advertise-peer-urls", etcdtest.PeerURL, "--initial-cluster-token", "restored").CombinedOutput()
	if err != nil {
		t.Fatalf("etcdutl snapshot restore: %v\n%s", err, said)
	}
	s := process(t, bin, data)
	got := s.State(t, 0)
	if got.Revision != want.Revision {
		t.Errorf("revision %d after the restore, want %d", got.Revision, want.Revision)
	}
	taketest.SameState(t, want, got)
	if d := cmp.Diff(want.Leases, got.Leases); d != "" {
		t.Errorf("leases: %s", d)
	}
	if g := s.Hash(t, want.Revision); g.Hash != hash {
		t.Errorf("hash %+v after the restore, want %d", g, hash)
	}
}
