package storage

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
)

// plainEtcd is an etcd that cke does not run, with its data in dir.
func plainEtcd(t *testing.T, dir, addr string) *plain {
	t.Helper()
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"} // it has no peers and does not listen
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.Logger, cfg.LogLevel = "external", dir, "zap", "fatal"
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = nil, []url.URL{peer}
	cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: addr}}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	cfg.InitialCluster = "external=" + peer.String()
	cfg.TickMs, cfg.ElectionMs = tickMs, electionMs
	serves := make(chan *grpc.Server, 1)
	cfg.ServiceRegister = func(s *grpc.Server) { serves <- s }
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	<-e.Server.ReadyNotify()
	return &plain{e, <-serves}
}

// plain is an etcd that others use as well.
type plain struct {
	*embed.Etcd
	serves *grpc.Server
}

// Close ends it at once, as a kill does: by itself it waits some seconds for its clients.
func (p *plain) Close() {
	p.serves.Stop()
	p.Etcd.Close()
}

// copyEtcd ends a plain etcd, copies its data, and starts it again.
func copyEtcd(t *testing.T, e *plain, to, addr string) *plain {
	t.Helper()
	from := e.Config().Dir
	e.Close()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return plainEtcd(t, from, addr)
}

// An external etcd is brought back from a copy under daemons that stay connected: they lead again, and what they read is the copy's.
func TestStore_ThatGoesBackUnderADaemonIsReadAnew(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	root := t.TempDir()
	live, copied := filepath.Join(root, "etcd"), filepath.Join(root, "copy")
	e := plainEtcd(t, live, addr)
	s := openStore(t, Config{Endpoints: []string{"http://" + addr}, Prefix: "/cke/", SecretKeyFile: filepath.Join(root, "secret.key"), SessionTTL: 3 * time.Second, Patience: 2 * time.Second})
	setCluster(t, s, "prod")
	e = copyEtcd(t, e, copied, addr)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	first, err := s.Campaign(ctx, "prod", "h1")
	if err != nil {
		t.Fatal(err)
	}
	states := s.WatchCluster(ctx, "prod")
	for range 100 {
		if err := s.PutRequest(ctx, "prod", "hold", "eve", struct{}{}); err != nil {
			t.Fatal(err)
		}
	}
	for held := false; !held; {
		state, open := <-states
		if !open {
			t.Fatal("the watch ended")
		}
		held = len(state.Requests) > 0
	}
	e.Close()
	e = plainEtcd(t, copied, addr)
	defer e.Close()
	<-first.Done()
	late, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	second, err := s.Campaign(late, "prod", "h1")
	if err != nil {
		t.Fatalf("no leader: %v", err)
	}
	if _, err := first.Deleting(ctx); err == nil {
		t.Error("the first term goes on")
	}
	if err := second.Context().Err(); err != nil {
		t.Error(err)
	}
	for held := true; held; {
		select {
		case state := <-states:
			held = len(state.Requests) > 0
		case <-late.Done():
			t.Fatal("what the copy does not have is still told")
		}
	}
}
