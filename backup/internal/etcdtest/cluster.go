package etcdtest

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// StartCluster runs a cluster of n members on loopback until the test ends.
func StartCluster(t testing.TB, n int) []*Server {
	t.Helper()
	names := []string{"a", "b", "c", "d", "e"}[:n]
	peers := make([]url.URL, n)
	var initial []string
	for i, name := range names {
		peers[i] = url.URL{Scheme: "http", Host: freeAddress(t)}
		initial = append(initial, name+"="+peers[i].String())
	}
	servers := make([]*Server, n)
	for i, name := range names {
		cfg := embed.NewConfig()
		cfg.Name, cfg.Dir = name, t.TempDir()
		client := url.URL{Scheme: "http", Host: freeAddress(t)}
		cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peers[i]}, []url.URL{peers[i]}
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
		cfg.InitialCluster = strings.Join(initial, ",")
		cfg.EnableGRPCGateway = false
		cfg.UnsafeNoFsync = true
		cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		e, err := embed.StartEtcd(cfg)
		if err != nil {
			t.Fatalf("start etcd: %v", err)
		}
		servers[i] = &Server{Endpoint: client.String(), Address: client.Host, Dir: cfg.Dir, Etcd: e}
		t.Cleanup(servers[i].Stop)
	}
	for _, s := range servers {
		select {
		case <-s.Etcd.Server.ReadyNotify():
		case <-time.After(30 * time.Second):
			t.Fatal("etcd does not get ready")
		}
		var err error
		s.Client, err = clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint}, Logger: zap.NewNop(), DialTimeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Client.Close() })
	}
	return servers
}
