package take

import ("testing";"runtime/pprof";"syscall";"time";"context";"os";"fmt";"path/filepath";"strings"
clientv3 "go.etcd.io/etcd/client/v3"
"cke/backup";"cke/backup/internal/etcdtest";"filippo.io/age")

func filler(seed, n int) string {
	x := uint64(seed)*0x9e3779b97f4a7c15 + 1
	var b strings.Builder
	for b.Len() < n { x ^= x << 13; x ^= x >> 7; x ^= x << 17; fmt.Fprintf(&b, "%016x", x) }
	return b.String()[:n]
}
func cpu() time.Duration { var r syscall.Rusage; syscall.Getrusage(0,&r); return time.Duration(r.Utime.Nano()+r.Stime.Nano()) }
func TestZZ(t *testing.T) {
	s := etcdtest.Start(t, etcdtest.Options{})
	for i := 0; i < 200000; i += 1000 {
		var ops []clientv3.Op
		for j := i; j < i+1000; j++ { ops = append(ops, clientv3.OpPut(fmt.Sprintf("key/%08d", j), filler(j, 1024))) }
		if _, err := s.Client.Txn(context.Background()).Then(ops...).Commit(); err != nil { t.Fatal(err) }
	}
	id, _ := age.GenerateX25519Identity()
	for range 4 {
		begun := time.Now(); c0 := cpu()
		r, _ := s.Client.SnapshotWithVersion(context.Background())
		f, _ := os.Create(filepath.Join(t.TempDir(), "x"))
		buf := make([]byte, 256<<10)
		for { n, err := r.Snapshot.Read(buf); f.Write(buf[:n]); if err != nil { break } }
		a := time.Since(begun)
		f.Sync(); f.Close()
		pl := time.Since(begun); c1 := cpu()
		c := Config{Bucket: backup.Dir(t.TempDir()), Cluster: "c", Lineage: "l", Endpoints: []string{s.Endpoint}, Recipients: []age.Recipient{id.Recipient()}, Scratch: t.TempDir()}
		c, _ = c.withDefaults()
		k, _ := dial(&c)
		o := newObserver(k, &c)
		dir := t.TempDir()
		pf, _ := os.Create("/tmp/snap.prof"); pprof.StartCPUProfile(pf)
		begun = time.Now()
		content, h, err := snapshot(context.Background(), &c, k, dir, 0)
		pprof.StopCPUProfile()
		if err != nil { t.Fatal(err) }
		c2 := cpu(); t1 := time.Since(begun); begun = time.Now()
		os.Remove(filepath.Join(dir, "snapshot"))
		h.Hashes, err = o.hash(context.Background(), h.Last, true)
		c3 := cpu(); t2 := time.Since(begun); begun = time.Now()
		content, _ = content.WithHeader(h)
		if err := c.Bucket.Create(context.Background(), h.Place.Name(), content); err != nil { t.Fatal(err) }
		c4 := cpu(); t3 := time.Since(begun)
		fmt.Println("cpu plain", c1-c0, "snap", c2-c1, "hash", c3-c2, "put", c4-c3)
		fmt.Println("plain stream", a, "plain", pl, "snapshot", t1, "hash", t2, "put", t3, content.Size())
		k.Close()
	}
}
