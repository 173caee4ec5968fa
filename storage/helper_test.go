package storage

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cke"
	"cke/storage/embedded"
)

func TestMain(m *testing.M) {
	if runHelper() {
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}

// limit is how long a test waits for what must happen.
const limit = time.Minute

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 4*limit)
	t.Cleanup(cancel)
	return ctx
}

func testConfig(t testing.TB) Config {
	dir := t.TempDir()
	return Config{
		Embedded:      EmbeddedConfig{DataDir: filepath.Join(dir, "store")},
		SecretKeyFile: filepath.Join(dir, "secret.key"),
		SessionTTL:    2 * limit, // terms end when the test says so
		Patience:      limit,
		Log:           slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
}

func startEmbeddedStore(t testing.TB, c Config) *embedded.Store {
	t.Helper()
	return startWaiting(t, c, func(holder string) { t.Logf("held by %s", holder) })
}

func startWaiting(t testing.TB, c Config, waiting func(holder string)) *embedded.Store {
	t.Helper()
	e, err := embedded.Start(testContext(t), c.Embedded.DataDir, c.Log, waiting)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func openStore(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := Open(testContext(t), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// newStore returns a store of its own for the test.
func newStore(t testing.TB) *Store {
	t.Helper()
	c := testConfig(t)
	startEmbeddedStore(t, c)
	return openStore(t, c)
}

func testCluster(name string) cke.Cluster {
	return cke.Cluster{Name: name, Nodes: []cke.Node{
		{Address: "10.0.0.11", Hostname: "cp1", ControlPlane: true},
		{Address: "10.0.0.12", Hostname: "cp2", ControlPlane: true},
		{Address: "10.0.0.13", Hostname: "cp3", ControlPlane: true},
	}}
}

func setCluster(t testing.TB, s *Store, name string) cke.Spec {
	t.Helper()
	spec, err := s.SetSpec(testContext(t), name, testCluster(name), []byte("name: "+name), "me@here", SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func campaign(t testing.TB, s *Store, cluster, host string) *Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	term, err := s.Campaign(ctx, cluster, host)
	if err != nil {
		t.Fatal(err)
	}
	return term
}

// await reads from c until a value satisfies ok.
func await[T any](t testing.TB, c <-chan T, ok func(T) bool) T {
	t.Helper()
	timeout := time.After(limit)
	for {
		select {
		case v, open := <-c:
			if !open {
				t.Fatal("the channel closed")
			}
			if ok(v) {
				return v
			}
		case <-timeout:
			t.Fatal("nothing came that was waited for")
		}
	}
}

func awaitDone(t testing.TB, c <-chan struct{}, within time.Duration) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(within):
		t.Fatalf("not done within %v", within)
	}
}
