package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"cke"
)

// Daemon is a cke process.
type Daemon struct {
	Log string // path of its log
	// HTTP is the address that it serves once its configuration is read.
	HTTP string
	cmd  *exec.Cmd
	end  chan struct{}
	err  error
}

// startLimit bounds the wait for a daemon to serve.
const startLimit = 20 * time.Second

// StartDaemon starts cke and returns once ckecli can reach the store. name distinguishes daemons of one rig.
func (r *Rig) StartDaemon(ctx context.Context, name string, args ...string) (*Daemon, error) {
	d, err := r.Launch(name, args...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		res, err := r.CLI(ctx, "cluster", "list")
		if err == nil && res.Code == 0 {
			return d, nil
		}
		select {
		case <-d.end:
			return nil, fmt.Errorf("cke ended: %w; its log: %s", d.err, d.LogText())
		case <-ctx.Done():
			return nil, fmt.Errorf("cke does not serve: %s; its log: %s", res.Stderr, d.LogText())
		case <-time.After(lookEvery / 4):
		}
	}
}

// Launch starts cke with further arguments and returns at once. In records it goes by name, as if it ran on a host of
// that name.
func (r *Rig) Launch(name string, args ...string) (*Daemon, error) {
	d := &Daemon{Log: filepath.Join(r.Dir, name+".log"), HTTP: r.HTTP, end: make(chan struct{})}
	if i := slices.Index(args, "--http"); i >= 0 {
		d.HTTP = args[i+1]
	}
	log, err := os.OpenFile(d.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args = append([]string{"--config", r.Config, "--host-name", name}, args...)
	d.cmd = exec.Command(filepath.Join(r.Bin, "cke"), args...)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.Env = append(os.Environ(), "HOME="+r.Dir, "SSH_AUTH_SOCK=")
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start cke: %w", err)
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.end)
	}()
	return d, nil
}

// Pid is the process id.
func (d *Daemon) Pid() int { return d.cmd.Process.Pid }

// Kill ends the process with SIGKILL, as a crash would, and waits until it is gone.
func (d *Daemon) Kill() {
	_ = d.cmd.Process.Kill() // it may be gone already
	<-d.end
}

// Freeze stops the process as it is; Thaw lets it continue.
func (d *Daemon) Freeze() error { return d.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process continue.
func (d *Daemon) Thaw() error { return d.cmd.Process.Signal(syscall.SIGCONT) }

// Stop asks the process to end and returns how long it took. It fails when the process ended with an error or did
// not end within the limit.
func (d *Daemon) Stop(limit time.Duration) (time.Duration, error) {
	began := time.Now()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, err
	}
	select {
	case <-d.end:
		return time.Since(began), d.err
	case <-time.After(limit):
		d.Kill()
		return limit, fmt.Errorf("cke did not stop within %s", limit)
	}
}

// Health is what the daemon says at /health.
type Health struct {
	Status  string   `json:"status"`
	Waiting string   `json:"waiting"`
	Code    cke.Code `json:"code"`
}

// AwaitHealth asks /health until ok, and returns the last answer. It fails when ctx or the process exits first.
func (d *Daemon) AwaitHealth(ctx context.Context, what string, ok func(Health) bool) (Health, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var last Health
	var lastErr error
	for {
		h, err := d.health(ctx)
		if err == nil && ok(h) {
			return h, nil
		}
		if err == nil {
			last = h
		} else if ctx.Err() == nil {
			lastErr = err
		}
		select {
		case <-d.end:
			return last, fmt.Errorf("waited for %s: cke ended: %w; its log: %s", what, d.err, d.LogText())
		case <-ctx.Done():
			return last, fmt.Errorf("waited for %s: last health %+v, error %v: %w", what, last, lastErr, ctx.Err())
		case <-tick.C:
		}
	}
}

func (d *Daemon) health(ctx context.Context) (Health, error) {
	var h Health
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.HTTP+"/health", nil)
	if err != nil {
		return h, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return h, err
	}
	defer resp.Body.Close()
	return h, json.NewDecoder(resp.Body).Decode(&h)
}

// AwaitLog waits until the log holds text. It fails when ctx ends first.
func (d *Daemon) AwaitLog(ctx context.Context, text string) error {
	tick := time.NewTicker(lookEvery / 4)
	defer tick.Stop()
	for {
		data, err := os.ReadFile(d.Log)
		if err != nil || strings.Contains(string(data), text) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cke does not log %q: %w; its log: %s", text, ctx.Err(), d.LogText())
		case <-tick.C:
		}
	}
}

// Races returns an error with what the race detector found, if it did (RaceVariable).
func (d *Daemon) Races() error {
	data, err := os.ReadFile(d.Log)
	if err != nil {
		return err
	}
	if i := bytes.Index(data, []byte(raceFound)); i >= 0 {
		return fmt.Errorf("cke: %s", data[i:])
	}
	return nil
}

// LogText is the end of the log.
func (d *Daemon) LogText() string {
	data, err := os.ReadFile(d.Log)
	if err != nil {
		return err.Error()
	}
	const most = 8 << 10
	if len(data) > most {
		data = data[len(data)-most:]
	}
	return string(data)
}
