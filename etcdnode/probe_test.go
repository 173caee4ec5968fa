package etcdnode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The test program stands for ckecli: no probe is beside it.
func TestProbeProgram_IsMissedByItsPath(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(own), ProbeProgram)
	if _, err := ReadProbe(); err == nil || !strings.Contains(err.Error(), path+" is missing") {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	if _, err := ReadProbe(); err == nil || !strings.Contains(err.Error(), "does not run on nodes") {
		t.Error(err)
	}
}
