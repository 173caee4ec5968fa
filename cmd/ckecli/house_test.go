package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cke"
	"cke/clusterfile"
	"cke/storage"
	"cke/storage/embedded"
)

// limit is how long a test waits for what must happen.
const limit = time.Minute

// house is a management host: a store, a configuration file, and the part of the daemon that tests play.
type house struct {
	t      testing.TB
	dir    string
	config string
	env    map[string]string
	now    func() time.Time
	store  *storage.Store
	// patience and silence are those of commands that follow: a test that does not set them is never told that nobody leads.
	patience, silence time.Duration
	// expired, if set, ends commands with --timeout when it is closed, in place of the clock.
	expired chan struct{}
	// opened, if set, is put before each store that a command opens.
	opened   func(store) store
	embedded *embedded.Store
}

// noStore skips the tests that start a store, for make quick.
var noStore = flag.Bool("no-store", false, "skip the tests that need a store or an etcd")

func skipWithoutStore(t testing.TB) {
	t.Helper()
	if *noStore {
		t.Skip("it needs a store or an etcd, and -no-store is set")
	}
}

func newHouse(t testing.TB) *house {
	t.Helper()
	skipWithoutStore(t)
	dir := t.TempDir()
	h := &house{t: t, dir: dir, patience: 2 * limit, silence: 2 * limit, config: filepath.Join(dir, "config.yml"), env: map[string]string{"HOME": dir}, now: time.Now}
	h.write("config.yml", fmt.Sprintf("store:\n  embedded: {data_dir: %[1]s/store}\nsecret_key_file: %[1]s/secret.key\nimages: {archive_dir: %[1]s/images}\n", dir))
	c, err := clusterfile.LoadConfig(h.config, true)
	if err != nil {
		t.Fatal(err)
	}
	h.startStore(c)
	t.Cleanup(func() { h.embedded.Close() })
	if h.store, err = storage.Open(h.ctx(), patientConfig(c)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.store.Close() })
	if err := h.store.OpenSecrets(h.ctx()); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) startStore(c cke.Config) {
	h.t.Helper()
	e, err := embedded.Start(h.ctx(), c.Store.Embedded.DataDir, slog.New(slog.DiscardHandler), func(string) {})
	if err != nil {
		h.t.Fatal(err)
	}
	h.embedded = e
}

func (h *house) ctx() context.Context {
	ctx, cancel := context.WithTimeout(h.t.Context(), 2*limit)
	h.t.Cleanup(cancel)
	return ctx
}

// write puts a file into the house and returns its path.
func (h *house) write(name, text string) string {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// command is a ckecli under way in this process.
type command struct {
	t              testing.TB
	stdout, stderr *screenText
	cancel         context.CancelFunc
	ended          chan struct{}
	code           int
}

// start runs ckecli with this house's configuration.
func (h *house) start(args ...string) *command { return h.startWith("", args...) }

func (h *house) startWith(stdin string, args ...string) *command {
	ctx, cancel := context.WithCancel(context.Background())
	c := &command{t: h.t, stdout: newScreenText(), stderr: newScreenText(), cancel: cancel, ended: make(chan struct{})}
	a := newApp(strings.NewReader(stdin), c.stdout, c.stderr, func(name string) string { return h.env[name] }, h.now, h.open)
	a.patience, a.silence = h.patience, h.silence
	if h.expired != nil {
		a.bound = h.bound
	}
	go func() {
		defer close(c.ended)
		c.code = a.run(ctx, append([]string{"--config", h.config}, args...))
	}()
	h.t.Cleanup(func() { cancel(); <-c.ended })
	return c
}

// patientConfig is a configuration for which no store is too slow, and with which terms end when the test says so.
func patientConfig(c cke.Config) storage.Config {
	sc := storeConfig(c)
	sc.Patience, sc.SessionTTL = limit, 2*limit
	return sc
}

// open is openPatiently, with what a test puts before the store.
func (h *house) open(ctx context.Context, c cke.Config) (store, error) {
	s, err := openPatiently(ctx, c)
	if err == nil && h.opened != nil {
		s = h.opened(s)
	}
	return s, err
}

// openPatiently is openStore without its haste.
func openPatiently(ctx context.Context, c cke.Config) (store, error) {
	return storage.Open(ctx, patientConfig(c))
}

// bound ends a context once the house's clock says that time is up.
func (h *house) bound(ctx context.Context, _ time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-h.expired:
			cancel(cause)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// stopClock has commands take the present for the time of their start, however long the test takes.
func (h *house) stopClock() {
	now := time.Now()
	h.now = func() time.Time { return now }
}

// wait returns the exit code.
func (c *command) wait() int {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(limit):
		c.t.Fatalf("ckecli did not end; it wrote\n%s%s", c.stdout.String(), c.stderr.String())
	}
	return c.code
}

// must ends the test unless the command ends with this exit code.
func (c *command) must(code int) *command {
	c.t.Helper()
	if got := c.wait(); got != code {
		c.t.Fatalf("exit code %d, want %d; it wrote\n%s%s", got, code, c.stdout.String(), c.stderr.String())
	}
	return c
}

// run runs ckecli to its end, which must have this exit code.
func (h *house) run(code int, args ...string) (stdout, stderr string) {
	h.t.Helper()
	c := h.start(args...).must(code)
	return c.stdout.String(), c.stderr.String()
}

// screenText is what a command wrote; readers can wait for a text.
type screenText struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newScreenText() *screenText { return &screenText{changed: make(chan struct{})} }

func (s *screenText) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(b)
	close(s.changed)
	s.changed = make(chan struct{})
	return len(b), nil
}

func (s *screenText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until text was written.
func (s *screenText) await(t testing.TB, text string) {
	t.Helper()
	s.awaitTimes(t, text, 1)
}

// awaitTimes waits until text was written n times.
func (s *screenText) awaitTimes(t testing.TB, text string, n int) {
	t.Helper()
	end := time.After(limit)
	for {
		s.mu.Lock()
		found, changed := strings.Count(s.text.String(), text) >= n, s.changed
		s.mu.Unlock()
		if found {
			return
		}
		select {
		case <-changed:
		case <-end:
			t.Fatalf("%q was not written, but\n%s", text, s.String())
		}
	}
}

// leader is the daemon's part in a test.
type leader struct {
	t    testing.TB
	term *storage.Term
	self cke.Leader
}

// lead makes the test the leader of a stored cluster.
func (h *house) lead(cluster string) *leader {
	h.t.Helper()
	term, err := h.store.Campaign(h.ctx(), cluster, "boot-1")
	if err != nil {
		h.t.Fatal(err)
	}
	self, err := h.store.Leader(h.ctx(), cluster)
	if err != nil {
		h.t.Fatal(err)
	}
	return &leader{h.t, term, self}
}

func (l *leader) status(s cke.Status) {
	l.t.Helper()
	s.Cluster, s.Leader = l.term.Cluster(), l.self
	if s.ObservedAt.IsZero() {
		s.ObservedAt = time.Now()
	}
	if err := l.term.PutStatus(l.t.Context(), s); err != nil {
		l.t.Fatal(err)
	}
}

func (l *leader) begin(r cke.Record) cke.Record {
	l.t.Helper()
	r.State, r.Host, r.StartedAt = cke.RecordRunning, "boot-1", time.Now().UTC()
	for i := range r.Steps {
		r.Steps[i].StartedAt = r.StartedAt
	}
	r, err := l.term.AppendRecord(l.t.Context(), r)
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

func (l *leader) put(r cke.Record) {
	l.t.Helper()
	if err := l.term.PutRecord(l.t.Context(), r); err != nil {
		l.t.Fatal(err)
	}
}

// end ends every step of a record, and the record.
func (l *leader) end(r cke.Record) cke.Record {
	l.t.Helper()
	r.State, r.EndedAt = cke.RecordCompleted, r.StartedAt.Add(900*time.Millisecond)
	for i := range r.Steps {
		if r.Steps[i].EndedAt.IsZero() {
			r.Steps[i].EndedAt = r.Steps[i].StartedAt.Add(300 * time.Millisecond)
		}
	}
	l.put(r)
	return r
}

const clusterFile = `name: prod
nodes:
  - {address: 10.0.0.11, hostname: cp1, user: cke, control_plane: true}
  - {address: 10.0.0.12, hostname: cp2, user: cke, control_plane: true}
  - {address: 10.0.0.13, hostname: cp3, user: cke, control_plane: true}
`
