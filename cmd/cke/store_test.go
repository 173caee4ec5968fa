package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cke"
	"cke/storage"
	"cke/storage/embedded"
)

// wire forwards TCP connections to a store's socket, and holds everything back when it is told to.
type wire struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu    sync.Mutex
	open  chan struct{} // closed while bytes go through
	conns []net.Conn
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l, to: to, open: make(chan struct{})}
	close(w.open)
	w.wg.Go(w.accept)
	t.Cleanup(w.close)
	return w
}

func (w *wire) accept() {
	for {
		in, err := w.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("unix", w.to)
		if err != nil {
			in.Close()
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, in, out)
		w.mu.Unlock()
		w.wg.Go(func() { w.forward(in, out) })
		w.wg.Go(func() { w.forward(out, in) })
	}
}

func (w *wire) forward(from, to net.Conn) {
	defer to.Close()
	for b := make([]byte, 32<<10); ; {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		w.mu.Lock()
		open := w.open
		w.mu.Unlock()
		<-open
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// hold lets nothing through until the returned function is called.
func (w *wire) hold() (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	open := make(chan struct{})
	w.open = open
	return sync.OnceFunc(func() { close(open) })
}

func (w *wire) close() {
	w.listener.Close()
	w.mu.Lock()
	for _, c := range w.conns {
		c.Close()
	}
	w.mu.Unlock()
	w.wg.Wait()
}

// externalStore is an etcd that the daemons under test do not carry themselves.
func externalStore(t *testing.T) (*storage.Store, *wire) {
	t.Helper()
	dir := t.TempDir()
	c := storage.Config{Embedded: storage.EmbeddedConfig{DataDir: filepath.Join(dir, "etcd")}, SessionTTL: 2 * startLimit, Patience: startLimit,
		SecretKeyFile: filepath.Join(dir, "secret.key"), Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
	e, err := embedded.Start(t.Context(), c.Embedded.DataDir, c.Log, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	sockets, err := filepath.Glob(filepath.Join(c.Embedded.DataDir, "*sock*"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets %v, %v", sockets, err)
	}
	return openStore(t, c), newWire(t, sockets[0])
}

// useStore writes a configuration with an external store, in which sessions end after ttl.
func (h *host) useStore(w *wire, key, ttl string) {
	h.t.Helper()
	h.write("config.yml", fmt.Sprintf("store: {endpoints: [%q]}\nsecret_key_file: %s\nhttp: {listen: %s}\nsession_ttl: %s\nprobe_interval: 500ms\n",
		"http://"+w.listener.Addr().String(), key, h.http, ttl))
}

// leader waits until a status tells of a leader that ok accepts, and returns it.
func leader(t *testing.T, s *storage.Store, cluster string, ok func(cke.Leader) bool) cke.Leader {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	for st := range s.WatchStatus(ctx, cluster) {
		if ok(st.Leader) {
			return st.Leader
		}
	}
	t.Fatalf("nobody leads %s", cluster)
	return cke.Leader{}
}

func TestCke_EndsInTimeWhenTheStoreHangs(t *testing.T) {
	s, w := externalStore(t)
	for i := range 5 {
		declare(t, s, fmt.Sprintf("c%d", i))
	}
	h := newHost(t)
	h.useStore(w, h.path("secret.key"), "2s")
	p := h.launch()
	p.awaitServing()
	for i := range 5 {
		leader(t, s, fmt.Sprintf("c%d", i), func(cke.Leader) bool { return true })
	}

	release := w.hold()
	defer release()
	p.awaitWaiting(cke.CodeStore, "does not answer")
	if code, body := p.get("/status"); code != 503 {
		t.Errorf("/status answers %d %s", code, body)
	}
	release()
	p.awaitServing()
	for i := range 5 {
		leader(t, s, fmt.Sprintf("c%d", i), func(l cke.Leader) bool { return l.Term > 1 })
	}

	release = w.hold()
	defer release()
	p.stop()
	if strings.Contains(p.said(), "stopping takes too long") {
		t.Errorf("something did not end by itself:\n%s", p.said())
	}
}

func TestCke_WaitsForAStoreThatIsNotThere(t *testing.T) {
	_, w := externalStore(t)
	release := w.hold()
	defer release()
	h := newHost(t)
	h.useStore(w, h.path("secret.key"), "2s")
	p := h.launch()
	p.awaitWaiting(cke.CodeStore, "does not answer")
	if code, _ := p.get("/metrics"); code != 200 {
		t.Errorf("/metrics answers %d", code)
	}
	p.stop()
	p = h.launch()
	p.awaitWaiting(cke.CodeStore, "does not answer")
	release()
	p.awaitServing()
	p.stop()
}

func TestCke_AnotherDaemonTakesOverAtOnceWhenOneEnds(t *testing.T) {
	s, w := externalStore(t)
	declare(t, s, "one")
	hosts := map[string]*program{}
	key := filepath.Join(t.TempDir(), "secret.key")
	for _, name := range []string{"boot-a", "boot-b"} {
		h := newHost(t)
		h.useStore(w, key, "2m") // longer than the other one is waited for
		p := launch(t, "--config", h.path("config.yml"), "--host-name", name)
		p.http = h.http
		p.awaitServing()
		hosts[name] = p
	}
	first := leader(t, s, "one", func(cke.Leader) bool { return true })
	hosts[first.Host].stop()
	ended := time.Now()
	second := leader(t, s, "one", func(l cke.Leader) bool { return l.Term > first.Term })
	if second.Host == first.Host || hosts[second.Host] == nil {
		t.Errorf("%+v follows %+v", second, first)
	}
	t.Logf("taken over %s after the end of the first", time.Since(ended).Round(time.Millisecond))
	hosts[second.Host].stop()
}

func TestTerm_TellsOfChangesUntilItEnds(t *testing.T) {
	s, _ := externalStore(t)
	declare(t, s, "one")
	d := daemonStore{Store: s, host: "boot-1"}
	lead, err := d.lead(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		late := time.After(startLimit)
		for !ok() {
			select {
			case <-lead.Changed():
			case <-late:
				t.Fatalf("it does not tell of %s", what)
			}
		}
	}
	if l := lead.Leader(); l.Host != "boot-1" || l.Term != 1 || l.Since.IsZero() {
		t.Errorf("%+v", l)
	}
	if _, err := lead.Status(t.Context()); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("the status before the first: %v", err)
	}
	if err := lead.PutStatus(t.Context(), cke.Status{Cluster: "one", Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	if st, err := lead.Status(t.Context()); err != nil || st.Reason != "a test" {
		t.Errorf("%+v, %v", st, err)
	}

	c := cke.Cluster{Name: "one", Nodes: []cke.Node{{Address: "127.0.0.101", ControlPlane: true}}}
	if _, err := s.SetSpec(t.Context(), "one", c, nil, "test@host", storage.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	await("a new generation", func() bool {
		spec, err := lead.Spec(t.Context())
		return err == nil && spec.Generation == 2 && lead.state.Load().Spec.Generation == 2
	})
	keys := hostKeys{lead, slog.New(slog.DiscardHandler)}
	if err := keys.Pin(t.Context(), "127.0.0.101", "ssh-ed25519 AAAA"); err != nil {
		t.Fatal(err)
	}
	await("a pinned key", func() bool {
		line, pinned := keys.Pinned("127.0.0.101")
		return pinned && line == "ssh-ed25519 AAAA"
	})
	if lead.ResignRequested() {
		t.Error("nobody asked")
	}
	if err := s.RequestResign(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	await("a request", lead.ResignRequested)
	if err := lead.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-lead.Context().Done()
	next, err := d.lead(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	if next.Leader().Term != 2 || next.ResignRequested() {
		t.Errorf("%+v was asked to resign: %v", next.Leader(), next.ResignRequested())
	}
	if err := next.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestCampaign_EndsWithTheDaemonAndWithTheCluster(t *testing.T) {
	s, _ := externalStore(t)
	declare(t, s, "one")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lead, err := daemonStore{Store: s, host: "boot-1"}.Campaign(ctx, "one")
	if err == nil {
		t.Errorf("%+v was elected", lead.Leader())
	}
	if _, err := (daemonStore{Store: s, host: "boot-1"}).Campaign(t.Context(), "none"); !errors.Is(err, cke.ErrNotFound) {
		t.Error(err)
	}
}
