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

// asProgram makes the test program behave as cke.
const asProgram = "CKE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // well waits for signals from its init on
}

const (
	// startLimit bounds what the program is waited for.
	startLimit = 20 * time.Second
	// stopPromise is what a daemon that was asked to stop has.
	stopPromise = 5 * time.Second
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
	cmd.Env = append(os.Environ(), asProgram+"=1", "SSH_AUTH_SOCK=", "NOTIFY_SOCKET=", "GORACE=atexit_sleep_ms=0")
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
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
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

// stop asks the process to end, and fails unless it does, with success and in time. It returns how long it took.
func (p *program) stop() time.Duration {
	p.t.Helper()
	began := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(stopPromise):
		p.t.Fatalf("it runs on %s after SIGTERM:\n%s", stopPromise, p.said())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Fatalf("exit code %d:\n%s", code, p.said())
	}
	took := time.Since(began)
	p.t.Logf("ended %s after SIGTERM", took.Round(time.Millisecond))
	return took
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
	return h.write("config.yml", fmt.Sprintf("store: {embedded: {data_dir: %s}}\nsecret_key_file: %s\nhttp: {listen: %s}\nsession_ttl: 2s\n%s\n",
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
	return openStore(h.t, storage.Config{Embedded: storage.EmbeddedConfig{DataDir: h.path("store")}, SecretKeyFile: h.path("secret.key")})
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

func TestCke_TellsItsVersionAndItsFlags(t *testing.T) {
	out, err := command(t.Context(), "--version").Output()
	if err != nil || string(out) != "cke version dev\n" {
		t.Errorf("%q, %v", out, err)
	}
	out, err = command(t.Context(), "--help").Output()
	for _, flag := range []string{"--config", "--data-dir", "--http", "--log-format", "--log-level", "--version"} {
		if err != nil || !strings.Contains(string(out), flag) {
			t.Errorf("%v, no %s in\n%s", err, flag, out)
		}
	}
	if strings.Contains(string(out), "--logfile") {
		t.Errorf("flags of a library in\n%s", out)
	}
}

func TestCke_RefusesWhatItDoesNotUnderstand(t *testing.T) {
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"--no-such-flag"}, "unknown flag: --no-such-flag"},
		{[]string{"--loglevel", "info"}, "unknown flag: --loglevel"},
		{[]string{"serve"}, `"serve" is no flag`},
		{[]string{"--log-level", "loud"}, "--log-level loud: want debug, info, warn or error"},
		{[]string{"--log-format", "xml"}, "--log-format xml: want text or json"},
		{[]string{"--http", "10180"}, "--http 10180: want HOST:PORT"},
		{[]string{"--config"}, "flag needs an argument"},
	} {
		var stdout, stderr bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), startLimit)
		cmd := command(ctx, tt.args...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run() // the exit code tells
		cancel()
		if code := cmd.ProcessState.ExitCode(); code != 64 {
			t.Errorf("%v: exit code %d", tt.args, code)
		}
		if !strings.HasPrefix(stderr.String(), "error: ") || !strings.Contains(stderr.String(), tt.says) || !strings.HasSuffix(stderr.String(), "\nTry: cke --help\n") || stdout.Len() > 0 {
			t.Errorf("%v: stdout %q, stderr %q", tt.args, &stdout, &stderr)
		}
	}
}

func TestCke_StartsFromNothingAndEndsAtOnce(t *testing.T) {
	h := newHost(t)
	h.config()
	p := h.launch()
	p.awaitServing()
	for path, want := range map[string]string{"/version": `"version": "dev"`, "/status": `"clusters": []`, "/metrics": "go_goroutines"} {
		if code, body := p.get(path); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if info, err := os.Stat(h.path("secret.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key file: %v, %v", info, err)
	}
	if info, err := os.Stat(h.path("store")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the data directory: %v, %v", info, err)
	}
	if took := p.stop(); took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
	for _, text := range []string{"HTTP is served", "store started", "no cluster is declared", "stopped"} {
		if !strings.Contains(p.said(), text) {
			t.Errorf("it does not say %q:\n%s", text, p.said())
		}
	}
	if strings.Contains(p.said(), "url=/metrics") {
		t.Errorf("every request is in the log:\n%s", p.said())
	}
}

func TestCke_LeadsClustersUntilItEnds(t *testing.T) {
	h := newHost(t)
	h.config("probe_interval: 500ms")
	p := h.launch()
	p.awaitServing()
	s := h.store()
	declare(t, s, "one")
	declare(t, s, "two")
	for _, name := range []string{"one", "two"} {
		ctx, cancel := context.WithTimeout(t.Context(), startLimit)
		st, ok := <-s.WatchStatus(ctx, name)
		if !ok || st.Leader.Host != "boot-1" || st.Health != cke.HealthForming || len(st.Problems) != 3 {
			t.Errorf("%s: %+v", name, st)
		}
		cancel()
	}
	if code, body := p.get("/status"); code != 200 || strings.Count(body, `"health": "FORMING"`) != 2 {
		t.Errorf("%d %s", code, body)
	}
	if _, body := p.get("/metrics"); !strings.Contains(body, `cke_leader{cluster="one"} 1`) || !strings.Contains(body, `cke_tolerance{cluster="two"} -1`) {
		t.Errorf("metrics\n%s", body)
	}
	p.stop()
	if n := strings.Count(p.said(), "panic"); n > 0 {
		t.Errorf("%d panics:\n%s", n, p.said())
	}
}

func TestCke_WaitsForAConfigurationThatCanBeUsed(t *testing.T) {
	for _, tt := range []struct{ name, text, says string }{
		{"unknown key", "stroe: {}\n", "config.yml:1"},
		{"no YAML", "store: [\n", "config.yml"},
		{"not there", "", "cannot be read"},
		{"open to everybody", "http: {listen: 0.0.0.0:10180}\n", "http.listen"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			if tt.text != "" {
				h.write("config.yml", tt.text)
			}
			p := h.launch("--http", h.http)
			p.awaitSaid("waiting")
			p.awaitWaiting(cke.CodeConfig, tt.says)
			if !strings.Contains(p.said(), tt.says) || !strings.Contains(p.said(), "code=CKE101") {
				t.Errorf("stderr:\n%s", p.said())
			}
			if code, _ := p.get("/status"); code != 503 {
				t.Errorf("/status answers %d", code)
			}
			h.config()
			p.awaitServing()
			p.stop()
		})
	}
}

func TestCke_EndsAtOnceWhileItWaits(t *testing.T) {
	h := newHost(t)
	h.write("config.yml", "stroe: {}\n")
	p := h.launch("--http", h.http)
	p.awaitSaid("waiting")
	p.stop()
}

// A flag opens nothing that the file would not be allowed to.
func TestCke_DoesNotListenForOthersWithoutAskingWhoTheyAre(t *testing.T) {
	h := newHost(t)
	h.config()
	_, port, err := net.SplitHostPort(h.http)
	if err != nil {
		t.Fatal(err)
	}
	p := h.launch("--http", "0.0.0.0:"+port)
	p.awaitSaid("http.listen")
	if code, body := p.get("/health"); code != 0 {
		t.Errorf("%d %s", code, body)
	}
	p.stop()
}

func TestCke_WaitsForTheKeyThatTheStoreWasSealedWith(t *testing.T) {
	h := newHost(t)
	h.config()
	p := h.launch()
	p.awaitServing()
	declare(t, h.store(), "one")
	p.stop()
	if err := os.Rename(h.path("secret.key"), h.path("elsewhere.key")); err != nil {
		t.Fatal(err)
	}

	p = h.launch()
	p.awaitWaiting(cke.CodeSecret, "secret.key is missing")
	if !strings.Contains(p.said(), "code=CKE105") {
		t.Errorf("stderr:\n%s", p.said())
	}
	if _, err := os.Stat(h.path("secret.key")); err == nil {
		t.Error("a new key was made over old data")
	}
	// The store serves meanwhile, and goes on without a break.
	s := h.store()
	if _, err := s.Spec(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	if err := os.Rename(h.path("elsewhere.key"), h.path("secret.key")); err != nil {
		t.Fatal(err)
	}
	p.awaitServing()
	if n := strings.Count(p.said(), "store started"); n != 1 {
		t.Errorf("the store was started %d times", n)
	}
	p.stop()

	// Or the file names another place now.
	if err := os.Rename(h.path("secret.key"), h.path("elsewhere.key")); err != nil {
		t.Fatal(err)
	}
	p = h.launch()
	p.awaitWaiting(cke.CodeSecret, "secret.key is missing")
	config, err := os.ReadFile(h.path("config.yml"))
	if err != nil {
		t.Fatal(err)
	}
	h.write("config.yml", strings.ReplaceAll(string(config), "secret.key", "elsewhere.key"))
	p.awaitServing()
	p.stop()
}

func TestCke_ASecondDaemonOnTheSameDataWaits(t *testing.T) {
	h := newHost(t)
	h.config()
	first := h.launch()
	first.awaitServing()
	second := h.launch("--http", freeAddress(t))
	second.http = second.cmd.Args[len(second.cmd.Args)-1]
	second.awaitHealth(func(code int, health server.Health) bool {
		return code == 503 && strings.Contains(health.Waiting, fmt.Sprintf("another cke holds %s (another cke (process %d))", h.path("store"), first.cmd.Process.Pid))
	})
	first.stop()
	second.awaitServing()
	third := h.launch("--http", freeAddress(t))
	third.awaitSaid("waiting")
	third.stop()
	second.stop()
}

func TestCke_WaitsForAnAddressThatIsTaken(t *testing.T) {
	h := newHost(t)
	l, err := net.Listen("tcp", h.http)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h.config()
	p := h.launch()
	p.awaitSaid("HTTP is not served")
	p.awaitSaid("no cluster is declared") // the work goes on without it
	l.Close()
	p.awaitServing()
	p.stop()
}

func TestCke_LogsInJSON(t *testing.T) {
	h := newHost(t)
	h.config()
	p := h.launch("--log-format", "json", "--log-level", "debug")
	p.awaitServing()
	p.stop()
	lines := strings.Split(strings.TrimSpace(p.said()), "\n")
	seen := map[string]bool{}
	for _, line := range lines {
		var e struct {
			Time       time.Time
			Level, Msg string
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Time.IsZero() || e.Level == "" || e.Msg == "" {
			t.Errorf("%v: %s", err, line)
		}
		seen[e.Msg] = true
	}
	for _, msg := range []string{"store started", "well: got signal", "well: access", "stopped"} {
		if !seen[msg] {
			t.Errorf("no line %q in\n%s", msg, p.said())
		}
	}
}

// notified collects what a process tells systemd.
func notified(t *testing.T) (socket string, await func(prefix string)) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return socket, func(prefix string) {
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
				return
			}
			got = append(got, string(b[:n]))
		}
	}
}

func TestCke_TellsSystemdHowItIs(t *testing.T) {
	h := newHost(t)
	h.write("config.yml", "stroe: {}\nhtpt: {}\n") // two faults, two lines
	socket, await := notified(t)
	cmd := command(context.Background(), "--config", h.path("config.yml"), "--http", h.http)
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=300000")
	p := start(t, cmd)
	p.http = h.http
	await("READY=1")
	await("STATUS=waiting: ")
	await("WATCHDOG=1")
	h.config()
	await("STATUS=serving")
	await("WATCHDOG=1")
	p.stop()
	await("STOPPING=1")
}
