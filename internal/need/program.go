package need

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"cke/internal/cache"
)

// Program is a program of another module that tests run.
type Program struct {
	// File is its name in the cache directory. It changes whenever the rest does.
	File string
	// Package is the path of its package, Version that of its module.
	Package, Version string
	// Tags are build tags; empty: none.
	Tags string
	// With are other modules that it is built with, as MODULE@VERSION.
	With []string
}

// Built returns the program, which it builds once and keeps in the cache directory. If the program is not built and
// cannot be, Missing decides. Short tests are skipped.
func (p Program) Built(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skipf("needs %s to be built", p.File)
	}
	binary, err := p.Build()
	if err != nil {
		Missing(t, "%v", err)
	}
	return binary
}

// Build returns the program, which it builds once and keeps in the cache directory.
func (p Program) Build() (string, error) {
	dir, err := cache.Dir()
	if err != nil {
		return "", fmt.Errorf("no directory for %s: %w", p.File, err)
	}
	binary := filepath.Join(dir, "tools", p.File)
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	// In a module of its own: a module that replaces others cannot be installed by version.
	src, err := os.MkdirTemp("", "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(src)
	if err := os.WriteFile(filepath.Join(src, "go.mod"), []byte("module tool\n\ngo 1.26\n"), 0o600); err != nil {
		return "", err
	}
	for _, args := range [][]string{
		append([]string{"get", p.Package + "@" + p.Version}, p.With...),
		{"build", "-tags", p.Tags, "-o", binary, p.Package},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = src, append(os.Environ(), "GOFLAGS=-mod=mod")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s cannot be built: %w\n%s", p.File, err, out)
		}
	}
	return binary, nil
}
