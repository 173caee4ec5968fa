package storage

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"golang.org/x/crypto/bcrypt"

	"cke/storage/internal/local"
)

// The only member need not wait for others: it elects itself soon.
const tickMs, electionMs = 50, 250

// startExternal runs an etcd as an operator would have it: on TCP, with TLS, users, and a role below the prefix only.
func startExternal(t testing.TB) Config {
	t.Helper()
	dir := t.TempDir()
	c := Config{
		Prefix: "/tenant/cke/", TLS: TLS{CAFile: filepath.Join(dir, "server.crt")},
		Username: "cke", PasswordFile: filepath.Join(dir, "password"),
		SecretKeyFile: filepath.Join(dir, "secret.key"), SessionTTL: 2 * limit, Patience: limit,
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	writeServerCert(t, c.TLS.CAFile, filepath.Join(dir, "server.key"))
	writeFile(t, c.PasswordFile, "hunter2\n")

	peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = "external", filepath.Join(dir, "etcd")
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = nil, []url.URL{peer}
	cfg.ListenClientUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	cfg.InitialCluster = "external=" + peer.String()
	cfg.BcryptCost = uint(bcrypt.MinCost)
	cfg.TickMs, cfg.ElectionMs = tickMs, electionMs
	cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = c.TLS.CAFile, filepath.Join(dir, "server.key")
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(local.ZapToSlog(slog.New(slog.DiscardHandler), local.ServerLevel))
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	c.Endpoints = []string{"https://" + e.Clients[0].Addr().String()}
	addUser(t, c)
	return c
}

func addUser(t testing.TB, c Config) {
	t.Helper()
	admin := adminClient(t, c, "")
	ctx := testContext(t)
	r := under(c.Prefix)
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(admin.UserAdd(ctx, "root", "root"))
	do(admin.UserGrantRole(ctx, "root", "root"))
	do(admin.RoleAdd(ctx, "cke"))
	do(admin.RoleGrantPermission(ctx, "cke", r.start, r.end, clientv3.PermissionType(clientv3.PermReadWrite)))
	do(admin.UserAdd(ctx, "cke", "hunter2"))
	do(admin.UserGrantRole(ctx, "cke", "cke"))
	do(admin.AuthEnable(ctx))
}

// adminClient may do everything; password is empty while there are no users.
func adminClient(t testing.TB, c Config, password string) *clientv3.Client {
	t.Helper()
	cfg := clientv3.Config{Endpoints: c.Endpoints, Username: "root", Password: password, Logger: local.ZapToSlog(c.Log, local.ClientLevel)}
	var err error
	if cfg.TLS, err = c.TLS.config(); err != nil {
		t.Fatal(err)
	}
	admin, err := clientv3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Close() })
	return admin
}

func writeServerCert(t testing.TB, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd of the test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, certFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	writeFile(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// wire stands between a client and a server and can stop carrying anything, as a broken network does: connections
// stay, bytes do not come through.
type wire struct {
	addr string
	mu   sync.Mutex
	cut  chan struct{} // not nil: closed when the wire carries again
}

// newWire puts a wire in front of c's only endpoint and returns the configuration that goes through it.
func newWire(t testing.TB, c Config) (*wire, Config) {
	t.Helper()
	u, err := url.Parse(c.Endpoints[0])
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{addr: l.Addr().String()}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", u.Host)
			if err != nil {
				near.Close()
				continue
			}
			context.AfterFunc(ctx, func() { near.Close(); far.Close() })
			wg.Go(func() { w.carry(ctx, near, far) })
			wg.Go(func() { w.carry(ctx, far, near) })
		}
	})
	c.Endpoints = []string{u.Scheme + "://" + w.addr}
	return w, c
}

func (w *wire) carry(ctx context.Context, from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		w.mu.Lock()
		cut := w.cut
		w.mu.Unlock()
		if cut != nil {
			select {
			case <-cut:
			case <-ctx.Done():
			}
		}
		if _, werr := to.Write(b[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (w *wire) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = make(chan struct{})
}

func (w *wire) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.cut)
	w.cut = nil
}
