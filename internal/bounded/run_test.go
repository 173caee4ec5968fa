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

// A program that hangs is killed with all that it has started.
func TestRun_KillsTheProcessGroupAtTheDeadline(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	r := script(t, "sleep 1000 & echo $! >"+file+"; echo asked; wait")
	r.Limit = 300 * time.Millisecond
	out, err := r.Do(t.Context())
	if err == nil || !strings.Contains(err.Error(), "did not end within 300ms") || out != "asked\n" {
		t.Errorf("%q, %v", out, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); alive(child); time.Sleep(time.Millisecond) { // nobody tells when a stranger's child ends
		if time.Now().After(deadline) {
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
