package storage

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"cke"
	"cke/storage/embedded"
)

// helperTask is what a process of the test binary does instead of testing.
type helperTask struct {
	// Where is the configuration, as far as it can be written down.
	Where where
	// Serve starts the embedded store.
	Serve bool
	// Lead campaigns for this cluster as Host, and then writes its status over and over until a write fails.
	Lead, Host string
	// Blind looks at no clock: what stops it must be the store.
	Blind bool
}

type where struct {
	Endpoints                                              []string
	TLS                                                    TLS
	Prefix, Username, PasswordFile, DataDir, SecretKeyFile string
	SessionTTL, Patience                                   time.Duration
}

func whereOf(c Config) where {
	return where{c.Endpoints, c.TLS, c.Prefix, c.Username, c.PasswordFile, c.Embedded.DataDir, c.SecretKeyFile, c.SessionTTL, c.Patience}
}

func (w where) config() Config {
	return Config{Endpoints: w.Endpoints, TLS: w.TLS, Prefix: w.Prefix, Username: w.Username, PasswordFile: w.PasswordFile,
		Embedded: EmbeddedConfig{DataDir: w.DataDir}, SecretKeyFile: w.SecretKeyFile, SessionTTL: w.SessionTTL, Patience: w.Patience}
}

const helperEnv = "CKE_STORAGE_TEST_TASK"

// runHelper does the task of the environment, if there is one, telling on stdout how far it is.
func runHelper() bool {
	raw := os.Getenv(helperEnv)
	if raw == "" {
		return false
	}
	var task helperTask
	if err := json.Unmarshal([]byte(raw), &task); err != nil {
		fmt.Println("error", err)
		return true
	}
	if err := task.run(context.Background()); err != nil {
		fmt.Println("error", err)
	}
	return true
}

func (task helperTask) run(ctx context.Context) error {
	if task.Serve {
		e, err := embedded.Start(ctx, task.Where.DataDir, slog.New(slog.DiscardHandler), func(string) {})
		if err != nil {
			return err
		}
		defer e.Close()
		fmt.Println("serving")
	}
	if task.Lead == "" {
		select {}
	}
	s, err := Open(ctx, task.Where.config())
	if err != nil {
		return err
	}
	defer s.Close()
	t, err := s.Campaign(ctx, task.Lead, task.Host)
	if err != nil {
		return err
	}
	fmt.Println("elected", t.Number())
	write := t
	if task.Blind {
		write = blind(t)
	}
	for {
		if err := write.PutStatus(ctx, cke.Status{Cluster: task.Lead, Summary: task.Host}); err != nil {
			fmt.Println("stopped deposed:", errors.Is(err, cke.ErrDeposed), "context ended:", t.Context().Err() != nil)
			return nil
		}
		if _, err := write.AppendRecord(ctx, cke.Record{Host: task.Host, State: cke.RecordCompleted}); err != nil && !errors.Is(err, cke.ErrDeposed) {
			return err
		}
	}
}

// blind returns a term that believes for ever that it leads: only the store can stop what it writes.
func blind(t *Term) *Term {
	b := *t
	ses := &session{limit: 1 << 62, renewed: time.Now(), ctx: context.Background(), end: func(error) {}}
	b.ses, b.ctx, b.end = ses, context.Background(), func(error) {}
	return &b
}

// process is a running helper.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	lines chan string
}

func startProcess(t testing.TB, task helperTask) *process {
	t.Helper()
	raw, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(os.Args[0]), lines: make(chan string)}
	p.cmd.Env = append(os.Environ(), helperEnv+"="+string(raw))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		for range p.lines {
		}
		p.cmd.Wait()
	})
	go func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			p.lines <- scan.Text()
		}
	}()
	return p
}

// says waits for a line that starts with what, and returns it.
func (p *process) says(what string) string {
	p.t.Helper()
	return await(p.t, p.lines, func(line string) bool {
		if strings.HasPrefix(line, "error") {
			p.t.Fatalf("process: %s", line)
		}
		return strings.HasPrefix(line, what)
	})
}

func (p *process) signal(sig syscall.Signal) { p.cmd.Process.Signal(sig) }
