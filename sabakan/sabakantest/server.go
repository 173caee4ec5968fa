// Package sabakantest runs a real sabakan server with its etcd, in tests and benchmarks.
package sabakantest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"cke/internal/need"
)

// program is the newest sabakan that can be built from its modules. The version of etcdutil that it asks for was replaced.
var program = need.Program{
	File: "sabakan-v3.1.2-etcdutil-v1.6.9", Package: "github.com/cybozu-go/sabakan/v3/pkg/sabakan", Version: "v3.1.2",
	With: []string{"github.com/cybozu-go/etcdutil@v1.6.9"},
}

// ErrMissing is why no server can run here: it cannot be built, or this process may not make a network.
var ErrMissing = errors.New("sabakan cannot run here")

// Server is a sabakan that is alone in a network with its etcd: its DHCP server binds all addresses.
type Server struct {
	// URL reaches it from outside of the network.
	URL string

	dir     string
	network *network
	etcd    *embed.Etcd
	cmd     *exec.Cmd
	exited  chan struct{}
	outside net.Listener
}

// Addresses in the network.
const (
	etcdAddress    = "127.0.0.1:2379"
	httpAddress    = "127.0.0.1:10080"
	metricsAddress = "127.0.0.1:10081"
	httpsAddress   = "127.0.0.1:10443"
	dhcpAddress    = "127.0.0.1:10067"
)

const readyWithin = 30 * time.Second

// Run runs a server until the test ends. If none can run, need.Missing decides. Short tests are skipped.
func Run(t testing.TB, plan Plan) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs sabakan to be built")
	}
	s, err := Start(t.Context(), t.TempDir(), plan)
	if errors.Is(err, ErrMissing) {
		need.Missing(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Start runs a server that has its files in dir, with addresses to assign and without machines.
func Start(ctx context.Context, dir string, plan Plan) (*Server, error) {
	binary, err := program.Build()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	s := &Server{dir: dir, exited: make(chan struct{})}
	if s.network, err = newNetwork(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	err = s.network.in(func() error {
		if err := s.startEtcd(); err != nil {
			return err
		}
		return s.startSabakan(binary)
	})
	if err == nil {
		s.outside, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err == nil {
		s.URL = "http://" + s.outside.Addr().String()
		go s.network.relay(s.outside, httpAddress)
		err = s.setUp(ctx, plan)
	}
	if err != nil {
		s.Close()
		log, _ := os.ReadFile(filepath.Join(dir, "sabakan.log"))
		return nil, fmt.Errorf("start sabakan: %w\n%s", err, log)
	}
	return s, nil
}

// startEtcd runs in the network.
func (s *Server) startEtcd() error {
	client, peer := url.URL{Scheme: "http", Host: etcdAddress}, url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(s.dir, "etcd")
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = nil, []url.URL{peer} // the only member has no peers
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.InitialCluster = cfg.Name + "=" + peer.String()
	cfg.EnableGRPCGateway = false
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	var err error
	if s.etcd, err = embed.StartEtcd(cfg); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
		return nil
	case <-time.After(readyWithin):
		return errors.New("etcd does not become ready")
	}
}

// startSabakan runs in the network, which the program inherits.
func (s *Server) startSabakan(binary string) error {
	cert, key, err := writeCertificate(s.dir)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.dir, "sabakan.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(binary, "-http", httpAddress, "-https", httpsAddress, "-metrics", metricsAddress, "-dhcp-bind", dhcpAddress,
		"-etcd-endpoints", "http://"+etcdAddress, "-advertise-url", "http://"+httpAddress, "-advertise-url-https", "https://"+httpsAddress,
		"-data-dir", s.dir, "-server-cert", cert, "-server-key", key)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // of the thread of the network
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd = cmd
	go func() {
		_ = cmd.Wait() // it is killed in the end
		close(s.exited)
	}()
	return nil
}

// StopEtcd stops the etcd in which the server has its machines.
func (s *Server) StopEtcd() {
	if s.etcd != nil {
		s.etcd.Close()
		s.etcd = nil
	}
}

// StartEtcd starts it again.
func (s *Server) StartEtcd() error { return s.network.in(s.startEtcd) }

// Suspend lets the server answer nothing until resume is called.
func (s *Server) Suspend() (resume func(), err error) {
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	return func() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }, nil
}

// Close kills the server.
func (s *Server) Close() {
	if s.outside != nil {
		s.outside.Close()
	}
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
	s.StopEtcd()
	s.network.close()
}
