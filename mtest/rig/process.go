package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a daemon that another program started, and whose process id is in a file. It can be killed and started
// again.
type Process struct {
	pidFile string
	// How it was started, as read from the process.
	args, env []string
	dir, log  string
	pid       int
}

// FindProcess finds the daemon with its id in pidFile. To be sure that the id is not that of another program by now,
// one of the arguments of the process has to be config, the path of its configuration.
func FindProcess(pidFile, config string) (*Process, error) {
	data, err := os.ReadFile(pidFile)
	if err != nil {
		return nil, err
	}
	p := &Process{pidFile: pidFile}
	if p.pid, err = strconv.Atoi(strings.TrimSpace(string(data))); err != nil {
		return nil, fmt.Errorf("read %s: %w", pidFile, err)
	}
	if err = p.read(); err == nil && !slices.Contains(p.args[1:], config) {
		err = fmt.Errorf("it runs %s", strings.Join(p.args, " "))
	}
	if err != nil {
		return nil, fmt.Errorf("process %d of %s is no cke with %s: %w", p.pid, pidFile, config, err)
	}
	return p, nil
}

// read reads how the process was started. A process that was started just now has no command line for a moment: the
// kernel lets the one that started it continue before the new program is in place.
func (p *Process) read() error {
	at := fmt.Sprintf("/proc/%d/", p.pid)
	args, err := os.ReadFile(at + "cmdline")
	for err == nil && len(args) == 0 {
		if !p.alive() {
			return errors.New("it has exited")
		}
		runtime.Gosched()
		args, err = os.ReadFile(at + "cmdline")
	}
	if err != nil {
		return err
	}
	env, err := os.ReadFile(at + "environ")
	if err == nil {
		p.dir, err = os.Readlink(at + "cwd")
	}
	if err == nil {
		p.log, err = os.Readlink(at + "fd/2")
	}
	p.args, p.env = fields(args), fields(env)
	return err
}

// fields splits what the kernel lists with a zero byte after each.
func fields(list []byte) (all []string) {
	for _, one := range bytes.Split(bytes.TrimSuffix(list, []byte{0}), []byte{0}) {
		all = append(all, string(one))
	}
	return all
}

// Kill ends the process with SIGKILL, as a crash would, and waits until it is gone.
func (p *Process) Kill(ctx context.Context) error {
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill cke: %w", err)
	}
	for p.alive() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until cke is gone: %w", ctx.Err())
		case <-time.After(lookEvery / 4):
		}
	}
	return nil
}

// alive reports whether the process runs; one that only waits for its parent to read how it ended does not.
func (p *Process) alive() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	// "PID (NAME) STATE ...", and a name may contain spaces and parentheses: proc_pid_stat(5).
	state := bytes.TrimLeft(stat[bytes.LastIndexByte(stat, ')')+1:], " ")
	return err == nil && len(state) > 0 && state[0] != 'Z' && state[0] != 'X'
}

// Start starts the daemon again as it was started before. It continues to run when this program exits.
func (p *Process) Start() error {
	if p.alive() {
		return nil
	}
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.args[0], p.args[1:]...)
	if strings.Contains(p.args[0], "/") && !filepath.IsAbs(p.args[0]) {
		cmd.Path = filepath.Join(p.dir, p.args[0])
	}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.dir, p.env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start cke: %w", err)
	}
	p.pid = cmd.Process.Pid
	go func() { _ = cmd.Wait() }() // its log says why it exits
	return os.WriteFile(p.pidFile, fmt.Appendln(nil, p.pid), 0o644)
}
