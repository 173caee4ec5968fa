package backuptest

import (
	"os"
	"path/filepath"
	"testing"
)

// Programs puts shell scripts, by their names, into a separate PATH until the test ends.
func Programs(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}
