package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"cke"
	"cke/backup"
	"cke/backup/take"
)

// backedUpHouse is a directory with the backups of a real etcd: a full, two deltas, a full, two deltas.
type backedUpHouse struct {
	*house
	dir, url string
	// fulls are the revisions of the fulls, and last is the newest revision.
	fulls [2]int64
	last  int64
	// signer signs what is backed up; nil: nobody does.
	signer *backup.Signer
}

// newBackedUpHouse is a house without a store.
func newBackedUpHouse(t *testing.T, recipients ...age.Recipient) *backedUpHouse {
	t.Helper()
	h := newSignedHouse(t, nil)
	h.backUp("prod", recipients...)
	return h
}

// newSignedHouse is a house without a store whose backups a Signer will sign.
func newSignedHouse(t *testing.T, signer *backup.Signer) *backedUpHouse {
	t.Helper()
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	h := &backedUpHouse{house: newHouseWithoutStore(t), dir: filepath.Join(t.TempDir(), "backups"), signer: signer}
	h.url = "file://" + h.dir
	return h
}

// newHouseWithoutStore is a host with neither a store nor a configuration file.
func newHouseWithoutStore(t testing.TB) *house {
	dir := t.TempDir()
	return &house{t: t, dir: dir, config: filepath.Join(dir, "none.yml"), env: map[string]string{"HOME": dir}, now: time.Now}
}

// backUp takes backups of a new etcd under this cluster's name.
func (h *backedUpHouse) backUp(cluster string, recipients ...age.Recipient) {
	h.t.Helper()
	client := startEtcd(h.t)
	stored := make(chan take.Event, 100)
	taker, err := take.New(take.Config{
		Bucket: backup.Dir(h.dir), Cluster: cluster, Lineage: "a1b2", Endpoints: client.Endpoints(), Recipients: recipients, Signer: h.signer, Writer: "boot-1", Term: 3,
		Delta: cke.BackupDelta{Period: cke.Duration(time.Hour), Size: 1 << 30}, Scratch: h.t.TempDir(),
		Notify: func(e take.Event) { stored <- e },
	})
	if err != nil {
		h.t.Fatal(err)
	}
	put := func(key string) {
		h.t.Helper()
		r, err := client.Put(h.ctx(), key, strings.Repeat("x", 100))
		if err != nil {
			h.t.Fatal(err)
		}
		h.last = r.Header.Revision
	}
	put("first")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- taker.Run(ctx) }()
	h.fulls[0] = awaitFull(h.t, stored)
	for i := range 4 {
		for j := range 5 {
			put(fmt.Sprint("k", i+j))
		}
		if err := taker.Flush(h.ctx()); err != nil {
			h.t.Fatal(err)
		}
		if i == 1 {
			full, err := taker.Full(h.ctx())
			if err != nil {
				h.t.Fatal(err)
			}
			h.fulls[1] = full.Last
		}
	}
	cancel()
	if err := <-ended; err != nil {
		h.t.Fatal(err)
	}
}

func awaitFull(t testing.TB, events <-chan take.Event) int64 {
	t.Helper()
	end := time.After(limit)
	for {
		select {
		case e := <-events:
			if e.Type == take.FullStored {
				return e.Header.Last
			}
		case <-end:
			t.Fatal("no full was stored")
		}
	}
}

// startEtcd runs an etcd of one member on loopback until the test ends.
func startEtcd(t testing.TB) *clientv3.Client {
	t.Helper()
	skipWithoutStore(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client := url.URL{Scheme: "http", Host: l.Addr().String()}
	l.Close()
	c := embed.NewConfig()
	c.Name, c.Dir = "test", t.TempDir()
	c.ListenPeerUrls, c.AdvertisePeerUrls = nil, []url.URL{{Scheme: "http", Host: "127.0.0.1:1"}}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.InitialCluster = "test=http://127.0.0.1:1"
	c.TickMs, c.ElectionMs = 10, 50
	c.EnableGRPCGateway, c.UnsafeNoFsync = false, true
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(limit):
		t.Fatal("etcd does not get ready")
	}
	for end := time.Now().Add(limit); e.Server.ClusterVersion() == nil; <-time.After(10 * time.Millisecond) { // its data says of which version it is
		if time.Now().After(end) {
			t.Fatal("etcd does not get a version")
		}
	}
	cl, err := clientv3.New(clientv3.Config{Endpoints: []string{client.String()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return cl
}

// objects returns the files of a kind (full, delta, verified) in the backups of prod, in order.
func (h *backedUpHouse) objects(kind string) []string {
	h.t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(h.dir, "prod"), func(file string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && strings.Contains(file, "/"+kind+"/") {
			files = append(files, file)
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return files
}

// spoil changes a byte in the middle of a file.
func (h *backedUpHouse) spoil(file string) {
	h.t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		h.t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

var (
	anyID    = regexp.MustCompile(`\d{20}-\d{8}T\d{6}\.\d{3}Z`)
	anyTime  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	anyAge   = regexp.MustCompile(`\b\d+[smh] ago`)
	anySize  = regexp.MustCompile(`\b[0-9.]+[kM]?B\b`)
	anyHash  = regexp.MustCompile(`\b\d{3,10}\b`)
	anySpace = regexp.MustCompile(`  +`)
	anySum   = regexp.MustCompile(`[0-9a-f]{64}`)
)

// still replaces what differs from run to run: ids, times, sizes, hashes, this test's directories.
func (h *backedUpHouse) still(text string) string {
	text = strings.NewReplacer(h.dir, "/backups", h.house.dir, "/house").Replace(text)
	for _, r := range []struct {
		what *regexp.Regexp
		by   string
	}{{anySum, "SUM"}, {anyID, "REVISION-TIME"}, {anyTime, "TIME"}, {anyAge, "1s ago"}, {anySize, "1kB"}, {anyHash, "HASH"}, {anySpace, "  "}} {
		text = r.what.ReplaceAllString(text, r.by)
	}
	return text
}
