package rig_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"cke/mtest/rig"
)

func TestProcess_IsKilledAndStartsAgainAsItWas(t *testing.T) {
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	const config = "1000" // of seconds
	cmd := exec.Command("sleep", config)
	cmd.Dir, cmd.Stderr = dir, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // it is gone by then, unless the test failed
	pidFile := filepath.Join(dir, "pid")
	if err := os.WriteFile(pidFile, fmt.Appendln(nil, cmd.Process.Pid), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := rig.FindProcess(pidFile, "other.yml"); err == nil {
		t.Error("a process with another configuration is taken for it")
	}
	p, err := rig.FindProcess(pidFile, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := rig.FindProcess(pidFile, config); err == nil {
		t.Error("a process that was killed is found")
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	again, err := rig.FindProcess(pidFile, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil { // it runs
		t.Error(err)
	}
	if err := again.Kill(t.Context()); err != nil {
		t.Error(err)
	}
}
