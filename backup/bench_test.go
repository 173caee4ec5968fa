package backup_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke/backup"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// filler makes values that compress to about half, as hex digits do.
func filler(seed, n int) string {
	x := uint64(seed)*0x9e3779b97f4a7c15 + 1
	var b strings.Builder
	for b.Len() < n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		fmt.Fprintf(&b, "%016x", x)
	}
	return b.String()[:n]
}

// loaded is a cluster of many keys of 1 KiB, written a thousand at a time.
func loaded(b *testing.B, keys int) *etcdtest.Server {
	b.Helper()
	s := etcdtest.Start(b, etcdtest.Options{})
	for i := 0; i < keys; i += 1000 {
		ops := make([]clientv3.Op, 0, 1000)
		for j := i; j < i+1000; j++ {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("key/%08d", j), filler(j, 1024)))
		}
		if _, err := s.Client.Txn(context.Background()).Then(ops...).Commit(); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

func keysWanted(b *testing.B, or int) int {
	if v, err := strconv.Atoi(os.Getenv("BENCH_KEYS")); err == nil {
		return v
	}
	return or
}

// BenchmarkFull compares taking a full, compressed and encrypted, with a plain snapshot saved and synced.
func BenchmarkFull(b *testing.B) {
	s := loaded(b, keysWanted(b, 200_000))
	id, err := age.GenerateX25519Identity()
	if err != nil {
		b.Fatal(err)
	}
	var plain, ours time.Duration
	var size int64
	for range b.N {
		begun := time.Now()
		size = saveSnapshot(b, s, filepath.Join(b.TempDir(), "snapshot"))
		plain += time.Since(begun)
		c := taketest.Config(s, backup.Dir(b.TempDir()))
		c.Recipients, c.Scratch = []age.Recipient{id.Recipient()}, b.TempDir()
		begun = time.Now()
		if _, err := take.Full(context.Background(), c); err != nil {
			b.Fatal(err)
		}
		ours += time.Since(begun)
	}
	b.ReportMetric(float64(size)/1e6, "MB")
	b.ReportMetric(plain.Seconds()/float64(b.N), "plain-s")
	b.ReportMetric(ours.Seconds()/float64(b.N), "full-s")
	b.ReportMetric(ours.Seconds()/plain.Seconds(), "ratio")
}

func saveSnapshot(b *testing.B, s *etcdtest.Server, file string) int64 {
	r, err := s.Client.SnapshotWithVersion(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	defer r.Snapshot.Close()
	f, err := os.Create(file)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	n, err := io.Copy(f, r.Snapshot)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func changes(from int64, n, valueSize int) []backup.Change {
	cs := make([]backup.Change, n)
	for i := range cs {
		rev := from + int64(i)
		cs[i] = backup.Change{Key: fmt.Appendf(nil, "key/%08d", rev%100_000), Value: []byte(filler(int(rev), valueSize)),
			CreateRevision: rev, ModRevision: rev, Version: 1}
	}
	return cs
}

// BenchmarkDelta fills one delta with changes of 1 KiB.
func BenchmarkDelta(b *testing.B) {
	cs := changes(1, 20_000, 1024)
	b.ResetTimer()
	var content, payload int64
	for range b.N {
		w, err := backup.NewDeltaWriter(1, nil)
		if err != nil {
			b.Fatal(err)
		}
		for i := 0; i < len(cs); i += 100 {
			if err := w.Add(cs[i:i+100], time.Now()); err != nil {
				b.Fatal(err)
			}
		}
		_, h, err := w.Seal(backup.Header{Place: backup.DeltaPlace("prod", "a1b2", 1, 0, 1)})
		if err != nil {
			b.Fatal(err)
		}
		content, payload = h.Content, w.Payload()
	}
	b.ReportMetric(float64(b.N*len(cs))/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(content)/float64(payload), "content/payload")
}

// putDeltas appends changes to a store that has a full, as a Taker would.
func putDeltas(b *testing.B, s *backup.Store, after int64, n, valueSize int) {
	b.Helper()
	const each = 10_000
	for seq := 0; seq*each < n; seq++ {
		first := after + 1 + int64(seq*each)
		w, err := backup.NewDeltaWriter(first, nil)
		if err == nil {
			err = w.Add(changes(first, min(each, n-seq*each), valueSize), time.Now())
		}
		if err != nil {
			b.Fatal(err)
		}
		c, h, err := w.Seal(backup.Header{Place: backup.DeltaPlace("prod", "a1b2", after+1, int64(seq), first)})
		if err == nil {
			err = s.Bucket.Create(context.Background(), h.Place.Name(), c)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// anonymous samples the memory of this process that is no mapped file, in MiB, until stopped.
func anonymous() (stop func() (above float64)) {
	read := func() (kb int) {
		data, _ := os.ReadFile("/proc/self/status")
		for line := range strings.Lines(string(data)) {
			if v, ok := strings.CutPrefix(line, "RssAnon:"); ok {
				kb, _ = strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")))
			}
		}
		return kb
	}
	before, peak := read(), 0
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			peak = max(peak, read())
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() float64 { close(done); <-ended; return float64(peak-before) / 1024 }
}

// BenchmarkRestore compares extracting, and compacting, a full and 100,000 changes of 1 KiB with copying and syncing a
// file of the result's size. Run it alone: memory is that of the whole process.
func BenchmarkRestore(b *testing.B) {
	s := loaded(b, keysWanted(b, 200_000))
	dir := b.TempDir()
	store := &backup.Store{Bucket: backup.Dir(dir), Cluster: "prod", Scratch: b.TempDir()}
	c := taketest.Config(s, store.Bucket)
	c.Scratch = b.TempDir()
	h, err := take.Full(context.Background(), c)
	if err != nil {
		b.Fatal(err)
	}
	s.Client.Close()
	s.Stop()
	putDeltas(b, store, h.Last, 100_000, 1024)
	var restore, compact, plain time.Duration
	var size int64
	var above float64
	for range b.N {
		out := filepath.Join(b.TempDir(), "out")
		stop := anonymous()
		begun := time.Now()
		x, err := store.Extract(context.Background(), backup.At{}, out, backup.ExtractOptions{})
		if err != nil {
			b.Fatal(err)
		}
		restore += time.Since(begun)
		above = max(above, stop())
		size = x.Size
		begun = time.Now()
		copySync(b, out, out+".copy")
		plain += time.Since(begun)
		begun = time.Now()
		p, err := store.Compact(context.Background(), backup.At{}, backup.CompactOptions{})
		if err != nil {
			b.Fatal(err)
		}
		compact += time.Since(begun)
		os.Remove(filepath.Join(dir, p.Name()))
		os.Remove(out)
		os.Remove(out + ".copy")
	}
	b.ReportMetric(float64(size)/1e6, "MB")
	b.ReportMetric(restore.Seconds()/float64(b.N), "restore-s")
	b.ReportMetric(compact.Seconds()/float64(b.N), "compact-s")
	b.ReportMetric(plain.Seconds()/float64(b.N), "copy-s")
	b.ReportMetric(restore.Seconds()/plain.Seconds(), "ratio")
	b.ReportMetric(above, "MiB-above")
}

func copySync(b *testing.B, from, to string) {
	src, err := os.Open(from)
	if err != nil {
		b.Fatal(err)
	}
	defer src.Close()
	dst, err := os.Create(to)
	if err != nil {
		b.Fatal(err)
	}
	defer dst.Close()
	if _, err := io.Copy(dst, src); err != nil {
		b.Fatal(err)
	}
	if err := dst.Sync(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkManyDeltas shows that time grows with the number of changes and memory does not.
func BenchmarkManyDeltas(b *testing.B) {
	for _, n := range []int{250_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := loaded(b, 1000)
			store := &backup.Store{Bucket: backup.Dir(b.TempDir()), Cluster: "prod", Scratch: b.TempDir()}
			c := taketest.Config(s, store.Bucket)
			c.Scratch = b.TempDir()
			h, err := take.Full(context.Background(), c)
			if err != nil {
				b.Fatal(err)
			}
			s.Client.Close()
			s.Stop()
			putDeltas(b, store, h.Last, n, 100)
			b.ResetTimer()
			var above float64
			for range b.N {
				out := filepath.Join(b.TempDir(), "out")
				stop := anonymous()
				if _, err := store.Extract(context.Background(), backup.At{}, out, backup.ExtractOptions{}); err != nil {
					b.Fatal(err)
				}
				above = max(above, stop())
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(above, "MiB-above")
		})
	}
}
