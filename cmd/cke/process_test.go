package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/server"
)

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
	docs, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, flags, _ := strings.Cut(string(out), "Flags:\n")
	for line := range strings.Lines(flags) {
		if !strings.Contains(string(docs), "\n    "+line) {
			t.Errorf("docs/install.md does not show %q", line)
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
		{[]string{"serve"}, `unexpected argument "serve": cke takes flags only`},
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
	p.stop()
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
	_, body := p.get("/metrics")
	for _, line := range []string{`cke_leader{cluster="one"} 1`, `cke_tolerance{cluster="two"} -1`, `cke_health{cluster="one",health="FORMING"} 1`, `cke_build_info{goversion="go`,
		`version="dev"} 1`, "\ncke_serving 1\n", `cke_store_request_seconds_count{method="Txn"}`, `cke_node_connections_total{cluster="one",result="failed"}`, `cke_operations_total{cluster="one",operation="bootstrap",state="failed"} 0`} {
		if !strings.Contains(body, line) {
			t.Errorf("metrics without %s:\n%s", line, body)
		}
	}
	p.stop()
	if n := strings.Count(p.said(), "panic"); n > 0 {
		t.Errorf("%d panics:\n%s", n, p.said())
	}
}

func TestCke_WaitsForAConfigurationThatCanBeUsed(t *testing.T) {
	for _, tt := range []struct{ name, text, says string }{
		{"unknown key", "stroe: {}\n", "config.yml: line 1: "},
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
	await("STATUS=serving; leads no cluster")
	await("WATCHDOG=1")
	declare(t, h.store(), "two")
	await("STATUS=serving; leads two")
	declare(t, h.store(), "one")
	await("STATUS=serving; leads one, two")
	p.stop()
	await("STOPPING=1")
}

// What is ordered after the unit finds a store that answers.
func TestCke_IsReadyForSystemdOnceTheStoreAnswers(t *testing.T) {
	h := newHost(t)
	h.config()
	socket, await := notified(t)
	cmd := command(context.Background(), "--config", h.path("config.yml"), "--http", h.http)
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+socket)
	p := start(t, cmd)
	p.http = h.http
	await("READY=1")
	if code, body := p.get("/health"); code != 200 {
		t.Errorf("ready, and health is %d %s", code, body)
	}
}

// A loop that stalls is a fault that only a restart ends.
func TestWatchdog_IsFedWhileLoopsMakeProgress(t *testing.T) {
	socket, await := notified(t)
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "30000")
	var log bytes.Buffer
	w := newWaiting(slog.New(slog.NewTextHandler(&log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	w.watchdog(ctx, func(time.Time) []string {
		asked++
		switch asked {
		case 1, 2:
			return []string{"prod"}
		case 3:
			return nil
		}
		cancel()
		return []string{"prod"}
	})
	w.over()
	if before := await("STATUS=serving"); !slices.Equal(before, []string{"WATCHDOG=1", "READY=1"}) {
		t.Errorf("systemd got %q", before)
	}
	if n := strings.Count(log.String(), "loops make no progress"); n < 3 || !strings.Contains(log.String(), "clusters=[prod]") {
		t.Errorf("%d times in the log:\n%s", n, log.String())
	}
}

func TestWaiting_NamesFewOfManyClusters(t *testing.T) {
	socket, await := notified(t)
	t.Setenv("NOTIFY_SOCKET", socket)
	w := newWaiting(slog.New(slog.DiscardHandler))
	w.over()
	w.leading(strings.Fields("a b c d e f g h i j k l"))
	await("STATUS=serving; leads 12 clusters: a, b, c, d, e, f, g, h, i, j, …")
}
