package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"filippo.io/age"

	"cke"
	"cke/backup"
	"cke/backup/take"
)

const (
	backupKeys    = 200_000
	backupUpdates = 100_000
)

// benchBackup measures backups of a database, zstd and age on, against etcdctl and cp.
func benchBackup(ctx context.Context, h *host) ([]figure, error) {
	return h.backupOf(ctx, 1, 5, 3)
}

// benchBackup4 measures the same with four times as much, to show growth.
func benchBackup4(ctx context.Context, h *host) ([]figure, error) {
	return h.backupOf(ctx, 4, 3, 1)
}

// backedUp is a loaded etcd and a store of its backups in a local directory.
type backedUp struct {
	etcd     *etcdServer
	dir      string
	identity *age.X25519Identity
	config   take.Config
}

// backupOf works on size times backupKeys; fulls and restores say how often each is measured.
func (h *host) backupOf(ctx context.Context, size, fulls, restores int) ([]figure, error) {
	b, err := newBackedUp(ctx, filepath.Join(h.dir, fmt.Sprintf("backup-%d", size)))
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.dir)
	defer b.etcd.Close()
	if _, err := b.etcd.put(ctx, size*backupKeys, 1000); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%dk keys: ", size*backupKeys/1000)
	figures, err := b.full(ctx, name, fulls)
	if err != nil {
		return nil, err
	}
	deltas, err := b.deltas(ctx, name, size*backupUpdates)
	if err != nil {
		return nil, err
	}
	restored, err := b.restore(ctx, name, restores, fmt.Sprintf(" full + %dk", size*backupUpdates/1000))
	return append(append(figures, deltas...), restored...), err
}

func newBackedUp(ctx context.Context, dir string) (*backedUp, error) {
	b := &backedUp{dir: dir}
	if err := os.MkdirAll(filepath.Join(dir, "scratch"), 0o700); err != nil {
		return nil, err
	}
	var err error
	if b.identity, err = age.GenerateX25519Identity(); err != nil {
		return nil, err
	}
	if b.etcd, err = startEtcd(ctx, dir); err != nil {
		return nil, err
	}
	b.config = take.Config{
		Bucket: backup.Dir(filepath.Join(dir, "target")), Cluster: "bench", Lineage: "a1b2", Endpoints: []string{b.etcd.endpoint},
		Recipients: []age.Recipient{b.identity.Recipient()}, Scratch: filepath.Join(dir, "scratch"),
		Delta: cke.BackupDelta{Period: cke.Duration(time.Hour), Size: take.DefaultSize},
	}
	return b, nil
}

func (b *backedUp) store() *backup.Store {
	return &backup.Store{Bucket: b.config.Bucket, Cluster: b.config.Cluster, Identities: []age.Identity{b.identity}, Scratch: b.config.Scratch}
}

// full takes a full and lets etcdctl save a snapshot, in turns; the target and etcdctl's file are on the same disk.
func (b *backedUp) full(ctx context.Context, name string, runs int) ([]figure, error) {
	var peer, ours []time.Duration
	for i := range runs + 1 {
		saved, err := b.etcdctlSave(ctx)
		if err != nil {
			return nil, err
		}
		if err := os.RemoveAll(filepath.Join(b.dir, "target")); err != nil {
			return nil, err
		}
		begun := time.Now()
		if _, err := take.Full(ctx, b.config); err != nil {
			return nil, err
		}
		took := time.Since(begun)
		if i > 0 { // the first of each warms up
			peer, ours = append(peer, saved), append(ours, took)
		}
	}
	slices.Sort(peer)
	slices.Sort(ours)
	return []figure{
		{name: name + "etcdctl snapshot save", value: median(peer).Seconds(), unit: "s"},
		{name: name + "full, zstd + age, to snapshot save", value: median(ours).Seconds() / median(peer).Seconds(), unit: "x", target: 1.2},
	}, nil
}

func (b *backedUp) etcdctlSave(ctx context.Context) (time.Duration, error) {
	file := filepath.Join(b.dir, "snapshot.db")
	if err := os.RemoveAll(file); err != nil {
		return 0, err
	}
	begun := time.Now()
	out, err := exec.CommandContext(ctx, filepath.Join(b.etcd.bin, "etcdctl"), "--endpoints", b.etcd.endpoint, "snapshot", "save", file).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("etcdctl snapshot save: %w: %s", err, out)
	}
	return time.Since(begun), nil
}

// deltas changes keys and then takes all these changes at once, on one core, as a daemon does that was away.
func (b *backedUp) deltas(ctx context.Context, name string, n int) ([]figure, error) {
	payload, err := b.etcd.put(ctx, n, 10)
	if err != nil {
		return nil, err
	}
	taker, err := take.New(b.config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before := usedCPU()
	ended := make(chan error, 1)
	go func() { ended <- taker.Run(ctx) }()
	if err := taker.Flush(ctx); err != nil {
		return nil, err
	}
	used := usedCPU() - before
	cancel()
	if err := <-ended; err != nil {
		return nil, err
	}
	content, err := b.deltaContent(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	return []figure{
		{name: name + "events taken by one core", value: float64(n) / used.Seconds(), unit: "/s", target: 50_000, more: true},
		{name: name + "deltas to payload, uncompressed", value: float64(content) / float64(payload), unit: "x", target: 1.05},
	}, nil
}

// deltaContent is the size of all deltas before compression.
func (b *backedUp) deltaContent(ctx context.Context) (content int64, err error) {
	l, err := b.store().Lineage(ctx, b.config.Lineage)
	if err != nil {
		return 0, err
	}
	for _, s := range l.Streams {
		for _, d := range s.Deltas {
			h, err := backup.ReadHeader(ctx, b.config.Bucket, d.Place)
			if err != nil {
				return 0, err
			}
			content += h.Content
		}
	}
	return content, nil
}

// restore restores the chain to a data directory that etcd starts on, compacts it, and copies the restored file with cp and
// sync, in turns. What a restore does on a node after the snapshot was sent there, etcdutl does here.
func (b *backedUp) restore(ctx context.Context, name string, runs int, what string) ([]figure, error) {
	var cp, extract, utl, ready, compact []time.Duration
	var aboveExtract, aboveCompact float64
	s := b.store()
	for range runs {
		out, data := filepath.Join(b.dir, "restored.db"), filepath.Join(b.dir, "restored")
		took, above, err := measured(func() error {
			_, err := s.Extract(ctx, backup.At{}, out, backup.ExtractOptions{})
			return err
		})
		if err != nil {
			return nil, err
		}
		extract, aboveExtract = append(extract, took), max(aboveExtract, above)
		begun := time.Now()
		if err := b.etcdutlRestore(ctx, out, data); err != nil {
			return nil, err
		}
		utl = append(utl, time.Since(begun))
		ready = append(ready, took+utl[len(utl)-1])
		begun = time.Now()
		if err := copySync(out, out+".copy"); err != nil {
			return nil, err
		}
		cp = append(cp, time.Since(begun))
		var p backup.Place
		took, above, err = measured(func() (err error) {
			p, err = s.Compact(ctx, backup.At{}, backup.CompactOptions{Recipients: b.config.Recipients})
			return err
		})
		if err != nil {
			return nil, err
		}
		compact, aboveCompact = append(compact, took), max(aboveCompact, above)
		for _, f := range []string{out, out + ".copy", data, filepath.Join(b.dir, "target", p.Name())} {
			if err := os.RemoveAll(f); err != nil {
				return nil, err
			}
		}
	}
	for _, all := range [][]time.Duration{cp, extract, utl, ready, compact} {
		slices.Sort(all)
	}
	base := median(cp).Seconds()
	return []figure{
		{name: name + "cp and sync of the restored file", value: base, unit: "s"},
		{name: name + "restore" + what + " to a data dir, to cp", value: median(ready).Seconds() / base, unit: "x", target: 7},
		{name: name + "of that the snapshot file, without etcdutl", value: median(extract).Seconds() / base, unit: "x"},
		{name: name + "of that etcdutl itself", value: median(utl).Seconds() / base, unit: "x"},
		{name: name + "restore: memory above the mapped file", value: aboveExtract, unit: "MiB", target: 64},
		{name: name + "compact" + what + ", to cp", value: median(compact).Seconds() / base, unit: "x", target: 7},
		{name: name + "compact: memory above the mapped file", value: aboveCompact, unit: "MiB", target: 64},
	}, nil
}

// etcdutlRestore makes a data directory of a snapshot as a restore of a cluster does.
func (b *backedUp) etcdutlRestore(ctx context.Context, snapshot, dir string) error {
	const peer = "http://127.0.0.1:2380"
	out, err := exec.CommandContext(ctx, filepath.Join(b.etcd.bin, "etcdutl"), "snapshot", "restore", snapshot, "--data-dir="+dir, "--name=bench",
		"--initial-cluster=bench="+peer, "--initial-advertise-peer-urls="+peer, "--bump-revision=1000000000", "--mark-compacted").CombinedOutput()
	if err != nil {
		return fmt.Errorf("etcdutl snapshot restore: %w: %s", err, out)
	}
	return nil
}

func copySync(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	if _, err := io.Copy(dst, src); err != nil {
		return err
	}
	return dst.Sync()
}

// usedCPU is the time that this process has spent on any core.
func usedCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for an unknown who only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
