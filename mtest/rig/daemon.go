package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Daemon is a cke process.
type Daemon struct {
	Log string // path of its log
	cmd *exec.Cmd
	end chan struct{}
	err error
}

// startLimit bounds the wait for a daemon to serve.
const startLimit = 20 * time.Second

// StartDaemon starts cke and returns once ckecli can reach the store. name tells daemons of one rig apart.
func (r *Rig) StartDaemon(ctx context.Context, name string) (*Daemon, error) {
	d, err := r.Launch(name)
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

// Launch starts cke and returns at once.
func (r *Rig) Launch(name string) (*Daemon, error) {
	d := &Daemon{Log: filepath.Join(r.Dir, name+".log"), end: make(chan struct{})}
	log, err := os.OpenFile(d.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d.cmd = exec.Command(filepath.Join(r.Bin, "cke"), "--config", r.Config, "--log-level", "debug")
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

// Freeze stops the process as it stands; Thaw lets it go on.
func (d *Daemon) Freeze() error { return d.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on.
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

// Ended is closed when the process has ended.
func (d *Daemon) Ended() <-chan struct{} { return d.end }

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
