package etcdnode_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"cke"
	"cke/backup"
	"cke/mtest/lab"
)

func TestMachine_RestoresDataThatEveryMinorVersionServes(t *testing.T) {
	r := newRig(t, 1, nil)
	for _, version := range []string{"3.5.35", testVersion, "3.7.3"} {
		t.Run(version, func(t *testing.T) {
			image, err := lab.EtcdImage(t.Context(), version, t.Output())
			if err != nil {
				t.Fatal(err)
			}
			must(t, r.lab.LoadImage(t.Context(), image.Archive))
			r.cluster.Options.Etcd.Version, r.cluster.Options.Etcd.Image = version, image.Ref
			was := r.bootstrap(t)
			r.write(t, was.Founders[0])
			must(t, r.Machine(was.Founders[0].Node).StopContainer(t.Context(), was.Founders[0], 10*time.Second))
			file, snapshot := r.save(t, was.Founders[0])
			inc := r.restoration(snapshot)
			j := inc.Founders[0]
			r.restore(t, inc, j, file)
			must(t, r.Machine(j.Node).StartContainer(t.Context(), j))
			r.awaitServing(t, j)
			r.isRestored(t, inc, file)
			for _, j := range []cke.Join{j, was.Founders[0]} {
				m := r.Machine(j.Node)
				must(t, m.StopContainer(t.Context(), j, 10*time.Second))
				must(t, m.RemoveContainer(t.Context(), j))
				must(t, m.RemoveVolume(t.Context(), j))
			}
		})
	}
}

func TestMachine_RestoresAnewWhatACrashLeft(t *testing.T) {
	r := newRig(t, 1, nil)
	was := r.bootstrap(t)
	old := was.Founders[0]
	r.write(t, old)
	ctx, node := t.Context(), r.cluster.Nodes[0].Hostname
	if err := r.Machine(old.Node).SaveData(ctx, old, io.Discard); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("the data of a member that runs is read: %v", err)
	}
	must(t, r.Machine(old.Node).StopContainer(ctx, old, 10*time.Second))
	file, snapshot := r.save(t, old)
	inc := r.restoration(snapshot)
	j := inc.Founders[0]
	m := r.Machine(j.Node)
	r.prepare(t, inc, j)
	spec := cke.RestoreSpec{Member: r.spec(inc, j, cke.StartPrepared), Snapshot: snapshot, Bump: inc.Restore.Bump}
	quiet := func(string) {}
	opened := 0
	whole := func(context.Context) (io.ReadCloser, error) { opened++; return os.Open(file) }

	// A snapshot that is cut short, or altered, is found before any data is made of it.
	data, err := os.ReadFile(file)
	must(t, err)
	for what, bad := range map[string][]byte{"short": data[:len(data)/2], "altered": flipped(data)} {
		err := m.RestoreData(ctx, spec, func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(bad)), nil }, quiet)
		t.Logf("%s: %v", what, err)
		if err == nil {
			t.Errorf("a snapshot that is %s is restored", what)
		}
		if state, err := m.Data(ctx, j); state != cke.DataMissing || err != nil {
			t.Errorf("after a snapshot that is %s: data %q, %v", what, state, err)
		}
	}
	// Half a result, and a tool that a crash left behind.
	volume := "cd $(docker volume inspect -f '{{.Mountpoint}}' " + j.Volume + ") && "
	if _, err := r.lab.Exec(ctx, node, "sh", "-c", volume+"mkdir -p data/member/wal && echo x > data/member/wal/0.tmp && docker run -d --label cke.helper=true --name "+j.Volume+".restore --network none "+testImage+" etcd --data-dir /tmp/x"); err != nil {
		t.Fatal(err)
	}
	must(t, m.RestoreData(ctx, spec, whole, quiet))
	must(t, m.RestoreData(ctx, spec, whole, quiet)) // the second time nothing is sent
	if opened != 1 {
		t.Errorf("the snapshot was sent %d times", opened)
	}
	if state, err := m.Data(ctx, j); state != cke.DataPresent || err != nil {
		t.Errorf("restored: data %q, %v", state, err)
	}
	out, err := r.lab.Exec(ctx, node, "sh", "-c", volume+"stat -c '%n %s' restore/* && docker ps -aq | wc -l")
	if err != nil || !strings.Contains(out, "snapshot.db 0") || !strings.HasSuffix(strings.TrimSpace(out), "2") {
		t.Errorf("left behind: %s, %v", out, err)
	}
	must(t, m.StartContainer(ctx, j))
	r.awaitServing(t, j)
	r.isRestored(t, inc, file)
	if err := m.RestoreData(ctx, spec, whole, quiet); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("the data of a member that was started is replaced: %v", err)
	}

	// The tool of a restore that was called off keeps its volume in use.
	must(t, m.StopContainer(ctx, j, 10*time.Second))
	must(t, m.RemoveContainer(ctx, j))
	used := func(label string) {
		t.Helper()
		if out, err := r.lab.Exec(ctx, node, "docker", "create", "--label", label, "--name", j.Volume+".restore", "-v", j.Volume+":/data", testImage); err != nil {
			t.Fatal(out, err)
		}
	}
	used("somebody=else")
	if err := m.RemoveVolume(ctx, j); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("somebody's container uses the volume: %v", err)
	}
	if out, err := r.lab.Exec(ctx, node, "docker", "rm", j.Volume+".restore"); err != nil {
		t.Fatal(out, err)
	}
	used("cke.helper=true")
	must(t, m.RemoveVolume(ctx, j))
}

func flipped(data []byte) []byte {
	b := bytes.Clone(data)
	b[len(b)/2] ^= 1
	return b
}

// write puts, replaces and deletes keys.
func (r *rig) write(t testing.TB, j cke.Join) {
	t.Helper()
	c := r.kv(t, j)
	for i := range 50 {
		key := fmt.Sprintf("k%02d", i%20)
		if _, err := c.Put(t.Context(), key, strings.Repeat(fmt.Sprint(i), 100)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Delete(t.Context(), "k03"); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) kv(t testing.TB, j cke.Join) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{j.ClientURL()}, TLS: r.client(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// save reads the data of a stopped member into a file.
func (r *rig) save(t testing.TB, j cke.Join) (string, cke.Snapshot) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "snapshot.db")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	must(t, r.Machine(j.Node).SaveData(t.Context(), j, io.MultiWriter(f, sum)))
	info, err := backup.InspectSnapshot(file)
	if err != nil {
		t.Fatal(err)
	}
	st, err := f.Stat()
	must(t, err)
	return file, cke.Snapshot{Revision: info.Revision, Size: st.Size(), Digest: hex.EncodeToString(sum.Sum(nil))}
}

func (r *rig) restoration(s cke.Snapshot) cke.Incarnation {
	inc := cke.NewRestoration(r.cluster, r.ident, cke.Restoration{ID: "test", Snapshot: s, Bump: cke.RevisionBump}, time.Now())
	r.ident, _ = r.ident.Restoring(inc)
	r.update()
	return inc
}

func (r *rig) prepare(t testing.TB, inc cke.Incarnation, j cke.Join) {
	t.Helper()
	m, spec := r.Machine(j.Node), r.spec(inc, j, cke.StartPrepared)
	must(t, m.EnsureVolume(t.Context(), spec))
	must(t, m.EnsureContainer(t.Context(), spec))
	must(t, m.PutFiles(t.Context(), j, r.ca.MemberFiles(j.Node.Address, time.Now().Add(time.Hour))))
}

func (r *rig) restore(t testing.TB, inc cke.Incarnation, j cke.Join, file string) {
	t.Helper()
	r.prepare(t, inc, j)
	began := time.Now()
	must(t, r.Machine(j.Node).RestoreData(t.Context(), cke.RestoreSpec{Member: r.spec(inc, j, cke.StartPrepared), Snapshot: inc.Restore.Snapshot, Bump: inc.Restore.Bump},
		func(context.Context) (io.ReadCloser, error) { return os.Open(file) }, func(string) {}))
	t.Logf("restored in %s", time.Since(began).Round(time.Millisecond))
}

// isRestored compares what a member answers with what is known beforehand.
func (r *rig) isRestored(t testing.TB, inc cke.Incarnation, file string) {
	t.Helper()
	j := inc.Founders[0]
	id, members, err := r.Members(t.Context(), j.ClientURL())
	if err != nil || id != inc.ClusterID || len(members) != 1 {
		t.Errorf("cluster %s with %d members, %v; computed: %s", id, len(members), err, inc.ClusterID)
	}
	want, err := backup.HashRestored(t.Context(), file, inc.Restore.Bump)
	must(t, err)
	got, err := r.HashKV(t.Context(), j.ClientURL(), want.Revision)
	if err != nil || got.Hash != want.Hash || got.Compacted != want.Compacted {
		t.Errorf("hash %+v, %v; computed %+v", got, err, want)
	}
	if want.Revision != inc.Restore.Floor() {
		t.Errorf("revision %d, the floor is %d", want.Revision, inc.Restore.Floor())
	}
	c := r.kv(t, j)
	resp, err := c.Get(t.Context(), "k", clientv3.WithPrefix())
	if err != nil || len(resp.Kvs) != 19 || resp.Header.Revision < want.Revision {
		t.Errorf("%d keys at revision %d, %v", len(resp.Kvs), resp.Header.GetRevision(), err)
	}
	// A watcher that goes on from what it saw last is told that it missed something.
	if w := <-c.Watch(t.Context(), "k", clientv3.WithPrefix(), clientv3.WithRev(inc.Restore.Snapshot.Revision+1)); w.CompactRevision == 0 {
		t.Errorf("the watch is not told of the restore: %+v", w)
	}
}
