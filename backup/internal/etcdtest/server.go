// Package etcdtest runs real etcd servers and opens restored databases with etcd's own storage engine, in tests.
package etcdtest

import (
	"context"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// Server is an etcd of one member in this process, on loopback.
type Server struct {
	Endpoint string
	Address  string
	Dir      string
	Client   *clientv3.Client
	Etcd     *embed.Etcd

	once sync.Once
}

// Options change how a Server starts.
type Options struct {
	// Dir is the data directory; empty means a fresh one.
	Dir string
	// Quota is the quota of the database in bytes; 0 means 4 GiB.
	Quota int64
	// Address is host and port of the client listener; empty means a free port on loopback.
	Address string
}

// PeerURL is the one in restored data directories. No server listens there: the only member has no peers.
const PeerURL = "http://127.0.0.1:1"

// Start runs a server until the test ends.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Name = "test"
	cfg.Dir = o.Dir
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if o.Address == "" {
		o.Address = freeAddress(t)
	}
	client := url.URL{Scheme: "http", Host: o.Address}
	peer, err := url.Parse(PeerURL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = nil, []url.URL{*peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.InitialCluster = cfg.Name + "=" + PeerURL
	cfg.EnableGRPCGateway = false
	cfg.TickMs, cfg.ElectionMs = 10, 50
	cfg.QuotaBackendBytes = 4 << 30
	if o.Quota > 0 {
		cfg.QuotaBackendBytes = o.Quota
	}
	cfg.BcryptCost = 4 // the least there is
	cfg.MaxTxnOps = 20_000
	cfg.MaxRequestBytes = 8 << 20
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatalf("start etcd: %v", err)
	}
	s := &Server{Endpoint: client.String(), Address: o.Address, Dir: cfg.Dir, Etcd: e}
	t.Cleanup(s.Stop)
	s.await(t)
	return s
}

// await waits until the member serves and knows the version of its cluster, and connects to it. Before that is decided, its data does not say of which
// version it is, and etcd refuses to start a member that joins.
func (s *Server) await(t testing.TB) {
	t.Helper()
	select {
	case <-s.Etcd.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("etcd does not become ready")
	}
	for end := time.Now().Add(time.Minute); s.Etcd.Server.ClusterVersion() == nil; <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("etcd does not decide the version of its cluster")
		}
	}
	var err error
	s.Client, err = clientv3.New(clientv3.Config{
		Endpoints: []string{s.Endpoint}, Logger: zap.NewNop(), DialTimeout: time.Minute,
		MaxCallSendMsgSize: 64 << 20, MaxCallRecvMsgSize: 1 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Client.Close() })
}

// Stop stops the server. It may be called twice.
func (s *Server) Stop() { s.once.Do(s.Etcd.Close) }

// Alarm makes the server raise an alarm.
func (s *Server) Alarm(t testing.TB, alarm pb.AlarmType) {
	t.Helper()
	_, err := pb.NewMaintenanceClient(s.Client.ActiveConnection()).Alarm(Context(t), &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, Alarm: alarm, MemberID: uint64(s.Etcd.Server.MemberID()),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Context is canceled when the test ends or after two minutes.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func freeAddress(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
