package bounded_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cke/internal/bounded"
)

// script writes a program that a shell reads.
func script(t *testing.T, text string) bounded.Run {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	syscall.ForkLock.RLock() // a program that is started meanwhile would keep the file open for writing, and it could not be started
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return bounded.Run{Program: path, Limit: time.Minute, Output: 64 << 10}
}

func TestRun_GivesArgumentsAndEnvironment(t *testing.T) {
	t.Parallel()
	r := script(t, `echo "$1 $CKE_NODE"; echo trouble >&2; pwd`)
	r.Args, r.Env = []string{"10.0.0.1; rm -rf x"}, []string{"CKE_NODE=cp1"}
	if out, err := r.Do(t.Context()); err != nil || out != "10.0.0.1; rm -rf x cp1\ntrouble\n/\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestRun_ReportsHowItFailed(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ text, says string }{
		{"echo no power; exit 3", "exit status 3"},
		{"kill -9 $$", "signal: killed"},
		{"sh -c 'kill -9 $PPID'; echo on", "signal: killed"},
	} {
		if _, err := script(t, row.text).Do(t.Context()); err == nil || err.Error() != row.says {
			t.Errorf("%s: %v", row.text, err)
		}
	}
	if _, err := (bounded.Run{Program: "/nowhere/bmc", Limit: time.Minute}).Do(t.Context()); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}

// Whatever a program that fails has started is killed with it: at its own end, and at the deadline.
func TestRun_KillsTheProcessGroup(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, text, says string }{
		{"it hangs", "sleep 1000 & echo $! >FILE; echo asked; wait", "did not end within 300ms"},
		{"it fails", "sleep 1000 & echo $! >FILE; echo asked; exit 1", "exit status 1"},
		{"it is killed", "sleep 1000 & echo $! >FILE; echo asked; kill -9 $$", "signal: killed"},
		{"its child kills it, and lives on", "echo asked; sh -c 'echo $$ >FILE; kill -9 $PPID; exec sleep 1000'; true", "signal: killed"},
		{"its child closed the output", "sleep 1000 >/dev/null 2>&1 & echo $! >FILE; echo asked; exit 1", "exit status 1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			r := script(t, strings.ReplaceAll(row.text, "FILE", file))
			if strings.Contains(row.says, "within") {
				r.Limit = 300 * time.Millisecond
			}
			out, err := r.Do(t.Context())
			if err == nil || !strings.Contains(err.Error(), row.says) || out != "asked\n" {
				t.Errorf("%q, %v", out, err)
			}
			text, err := os.ReadFile(file)
			dies(t, string(text), err)
		})
	}
}

// A daemon that is killed leaves no command behind.
func TestRun_EndsWithTheDaemon(t *testing.T) {
	t.Parallel()
	if program := os.Getenv("BOUNDED_PROGRAM"); program != "" {
		_, _ = bounded.Run{Program: program, Limit: time.Hour}.Do(t.Context())
		return
	}
	file := filepath.Join(t.TempDir(), "pid")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Skip(err)
	}
	daemon := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRun_EndsWithTheDaemon$")
	daemon.Env = append(os.Environ(), "BOUNDED_PROGRAM="+script(t, "echo $$ >"+file+"; exec sleep 1000").Program)
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	_ = daemon.Process.Kill()
	_ = daemon.Wait()
	dies(t, string(text), err)
}

// dies fails unless the process with this id ends; err is why the id is not known.
func dies(t *testing.T, id string, err error) {
	t.Helper()
	child, bad := strconv.Atoi(strings.TrimSpace(id))
	if err != nil || bad != nil {
		t.Fatal(err, bad)
	}
	for deadline := time.Now().Add(10 * time.Second); alive(child); time.Sleep(time.Millisecond) { // nobody tells when a stranger's child ends
		if time.Now().After(deadline) {
			_ = syscall.Kill(child, syscall.SIGKILL)
			t.Fatalf("process %d lives", child)
		}
	}
}

// alive reports whether a process runs; one that ended and that nobody waited for does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestRun_EndsWithTheTerm(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	r := script(t, "echo started; exec sleep 1000")
	go cancel(context.Canceled)
	if _, err := r.Do(ctx); err == nil {
		t.Error("it ended well")
	}
}

// What a program leaves in the background does not hold up its end, and is not killed with it.
func TestRun_LeavesWhatItStarted(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	began := time.Now()
	if out, err := script(t, "sleep 60 & echo asked").Do(t.Context()); err != nil || out != "asked\n" || time.Since(began) > 30*time.Second {
		t.Errorf("%q, %v after %s", out, err, time.Since(began))
	}
}

func TestRun_KeepsTheEndOfItsOutput(t *testing.T) {
	t.Parallel()
	r := script(t, "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done")
	r.Output = len("line 1998\nline 1999\n")
	if out, err := r.Do(t.Context()); err != nil || out != "\nline 1998\nline 1999\n"[1:] {
		t.Errorf("%q, %v", out, err)
	}
}
