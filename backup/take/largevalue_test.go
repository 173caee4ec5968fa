package take_test

import (
	"bytes"
	"net"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// largeServer is an etcd that accepts requests of this size: the cluster file may say so with --max-request-bytes.
func largeServer(t *testing.T, request uint) *etcdtest.Server {
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = "test", t.TempDir()
	peer, _ := url.Parse(etcdtest.PeerURL)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client, _ := url.Parse("http://" + free.Addr().String())
	free.Close()
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = nil, []url.URL{*peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.InitialCluster = "test=" + etcdtest.PeerURL
	cfg.EnableGRPCGateway = false
	cfg.MaxRequestBytes = request
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("etcd does not become ready")
	}
	cli, err := clientv3.New(clientv3.Config{Endpoints: []string{client.String()}, Logger: zap.NewNop(), DialTimeout: time.Minute, MaxCallSendMsgSize: 1 << 30, MaxCallRecvMsgSize: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cli.Close() })
	return &etcdtest.Server{Endpoint: client.String(), Client: cli, Etcd: e}
}

// A delta cannot hold a value that is larger than a frame. That is a gap, after which a full holds the value: what is said to be stored can be restored.
func TestTaker_AValueLargerThanAFrame(t *testing.T) {
	s := largeServer(t, 200<<20)
	r := taketest.Start(t, s, taketest.Config(s, backuptest.NewMemory()))
	r.Await(take.FullStored)
	r.Put("small", "1")
	last := r.Put("large", string(bytes.Repeat([]byte("x"), 129<<20)))
	r.Await(take.Gap)
	r.Await(take.FullStored)
	if err := r.Taker.Flush(etcdtest.Context(t)); err != nil {
		t.Fatal(err)
	}
	x, err := r.Store().Extract(etcdtest.Context(t), backup.At{}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{CheckHash: true})
	if err != nil || x.Revision != last {
		t.Errorf("all of it was said to be stored, and it cannot be restored to revision %d: %v", last, err)
	}
}
