package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cke"
	"cke/server"
	"cke/storage"
)

// asProgram makes the test program behave as cke; with patience it may take as long to stop as a slow machine does.
const asProgram, patience = "CKE_TEST_AS_PROGRAM", "patience"

func TestMain(m *testing.M) {
	if how := os.Getenv(asProgram); how != "" {
		if how == patience {
			stopLimit = startLimit
		}
		main()
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // well waits for signals from its init on
}

const (
	// startLimit bounds what the program is waited for.
	startLimit = time.Minute
)

// program is a cke process under test.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	http  string
	ended chan struct{}

	mu     sync.Mutex
	stderr bytes.Buffer
	more   chan struct{} // closed and replaced with every line
}

// command is cke with these arguments.
func command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	how := "1"
	if testing.Short() {
		how = patience
	}
	cmd.Env = append(os.Environ(), asProgram+"="+how, "SSH_AUTH_SOCK=", "NOTIFY_SOCKET=", "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// launch starts cke. It is killed when the test ends, if it still runs.
func launch(t *testing.T, args ...string) *program {
	t.Helper()
	return start(t, command(context.Background(), args...))
}

func start(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{t: t, cmd: cmd, ended: make(chan struct{}), more: make(chan struct{})}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			p.mu.Lock()
			fmt.Fprintln(&p.stderr, lines.Text())
			close(p.more)
			p.more = make(chan struct{})
			p.mu.Unlock()
		}
		_ = cmd.Wait() // its exit code is asked for
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-p.ended
		if t.Failed() {
			t.Logf("stderr of %v:\n%s", cmd.Args[1:], p.stderr.String())
		}
	})
	return p
}

// said is what stderr holds so far.
func (p *program) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// awaitSaid waits until stderr holds text.
func (p *program) awaitSaid(text string) {
	p.t.Helper()
	late := time.After(startLimit)
	for {
		p.mu.Lock()
		found, more := strings.Contains(p.stderr.String(), text), p.more
		p.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-p.ended:
			if !strings.Contains(p.said(), text) {
				p.t.Fatalf("it ended and never said %q:\n%s", text, p.said())
			}
		case <-late:
			p.t.Fatalf("it does not say %q:\n%s", text, p.said())
		}
	}
}

// get asks the HTTP API; code 0: nobody answers.
func (p *program) get(path string) (code int, body string) {
	client := http.Client{Timeout: startLimit, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + p.http + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

// awaitHealth waits until /health is as ok says, and returns it.
func (p *program) awaitHealth(ok func(code int, h server.Health) bool) server.Health {
	p.t.Helper()
	var code int
	var body string
	for late := time.Now().Add(startLimit); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		var h server.Health
		if code, body = p.get("/health"); code == 0 || json.Unmarshal([]byte(body), &h) != nil {
			continue
		}
		if ok(code, h) {
			return h
		}
	}
	p.t.Fatalf("health stays %d %s", code, body)
	return server.Health{}
}

func (p *program) awaitServing() {
	p.t.Helper()
	p.awaitHealth(func(code int, h server.Health) bool { return code == 200 && h.Status == "ok" })
}

func (p *program) awaitWaiting(code cke.Code, text string) {
	p.t.Helper()
	p.awaitHealth(func(status int, h server.Health) bool {
		return status == 503 && h.Status == "waiting" && h.Code == code && strings.Contains(h.Waiting, text)
	})
}

// stop asks the process to end, and fails unless it does, with success.
func (p *program) stop() {
	p.t.Helper()
	began := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(startLimit):
		p.t.Fatalf("it runs on %s after SIGTERM:\n%s", startLimit, p.said())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Fatalf("exit code %d:\n%s", code, p.said())
	}
	p.t.Logf("ended %s after SIGTERM", time.Since(began).Round(time.Millisecond))
}

// host is a management host in a directory.
type host struct {
	t    *testing.T
	dir  string
	http string
}

func newHost(t *testing.T) *host { return &host{t: t, dir: t.TempDir(), http: freeAddress(t)} }

// freeAddress is a loopback address that nobody listens on now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (h *host) path(name string) string { return filepath.Join(h.dir, name) }

func (h *host) write(name, text string) string {
	h.t.Helper()
	if err := os.WriteFile(h.path(name), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return h.path(name)
}

// config writes a configuration with an embedded store, and more lines.
func (h *host) config(more ...string) string {
	h.t.Helper()
	return h.write("config.yml", fmt.Sprintf("store: {embedded: {data_dir: %s}}\nsecret_key_file: %s\nhttp: {listen: %s}\nsession_ttl: 2m\n%s\n",
		h.path("store"), h.path("secret.key"), h.http, strings.Join(more, "\n")))
}

// launch starts cke on the host.
func (h *host) launch(args ...string) *program {
	h.t.Helper()
	p := launch(h.t, append([]string{"--config", h.path("config.yml"), "--host-name", "boot-1"}, args...)...)
	p.http = h.http
	return p
}

// store opens the store of the daemon that runs on the host, as ckecli does.
func (h *host) store() *storage.Store {
	h.t.Helper()
	return openStore(h.t, storage.Config{Embedded: storage.EmbeddedConfig{DataDir: h.path("store")}, SecretKeyFile: h.path("secret.key"), Patience: startLimit})
}

func openStore(t *testing.T, c storage.Config) *storage.Store {
	t.Helper()
	s, err := storage.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// declare stores a cluster on nodes that are not there.
func declare(t *testing.T, s *storage.Store, name string) {
	t.Helper()
	c := cke.Cluster{Name: name}
	for i := 1; i <= 3; i++ {
		c.Nodes = append(c.Nodes, cke.Node{Address: fmt.Sprintf("127.0.0.%d", 100+i), User: "cke", ControlPlane: true, SSH: cke.SSH{Port: 1}})
	}
	if _, err := s.SetSpec(t.Context(), name, c, nil, "test@host", storage.SetOptions{}); err != nil {
		t.Fatal(err)
	}
}

// notified collects what a process tells systemd; await returns what it was told before.
func notified(t *testing.T) (socket string, await func(prefix string) (before []string)) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return socket, func(prefix string) []string {
		t.Helper()
		if err := c.SetReadDeadline(time.Now().Add(startLimit)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for b := make([]byte, 64<<10); ; {
			n, err := c.Read(b)
			if err != nil {
				t.Fatalf("systemd was not told %s: %v; it was told %q", prefix, err, got)
			}
			if strings.HasPrefix(string(b[:n]), prefix) {
				if strings.Contains(string(b[:n]), "\n") {
					t.Errorf("%q is more than one line", b[:n])
				}
				return got
			}
			got = append(got, string(b[:n]))
		}
	}
}
