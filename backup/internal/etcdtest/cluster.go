package etcdtest

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

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
		servers[i] = startMember(t, name, peers[i], strings.Join(initial, ","), embed.ClusterStateFlagNew)
	}
	for _, s := range servers {
		s.await(t)
	}
	return servers
}

// AddLearner adds a learner to a cluster and waits until it has all data of the cluster.
func AddLearner(t testing.TB, cluster []*Server) *Server {
	t.Helper()
	peer := url.URL{Scheme: "http", Host: freeAddress(t)}
	added, err := cluster[0].Client.MemberAddAsLearner(Context(t), []string{peer.String()})
	if err != nil {
		t.Fatal(err)
	}
	var initial []string
	for _, m := range added.Members {
		name := m.Name
		if m.ID == added.Member.ID {
			name = "learner"
		}
		initial = append(initial, name+"="+m.PeerURLs[0])
	}
	s := startMember(t, "learner", peer, strings.Join(initial, ","), embed.ClusterStateFlagExisting)
	s.await(t)
	for s.Etcd.Server.AppliedIndex() < cluster[0].Etcd.Server.AppliedIndex() {
		<-time.After(10 * time.Millisecond)
	}
	return s
}

func startMember(t testing.TB, name string, peer url.URL, initial, state string) *Server {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = name, t.TempDir()
	client := url.URL{Scheme: "http", Host: freeAddress(t)}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.InitialCluster, cfg.ClusterState = initial, state
	cfg.StrictReconfigCheck = false // it wants members that have been connected for seconds
	cfg.EnableGRPCGateway = false
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatalf("start etcd: %v", err)
	}
	s := &Server{Endpoint: client.String(), Address: client.Host, Dir: cfg.Dir, Etcd: e}
	t.Cleanup(s.Stop)
	return s
}
