package backup_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"cke/backup"
)

const scratchIn = "CKE_TEST_SCRATCH"

// TestScratch_Child is no test: the next one runs it, and kills it.
func TestScratch_Child(t *testing.T) {
	dir := os.Getenv(scratchIn)
	if dir == "" {
		t.Skip("this is run by TestScratch_OfAKilledProcessIsRemoved")
	}
	for _, kind := range []backup.ScratchKind{backup.ScratchDrill, backup.ScratchFull, backup.ScratchCompact, backup.ScratchBoot, backup.ScratchExtract} {
		s, err := backup.NewScratch(dir, kind)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.Path, "db"), make([]byte, 1<<10), 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Println(s.Path)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or the test is
}

func TestScratch_OfAKilledProcessIsRemoved(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestScratch_Child$")
	cmd.Env = append(os.Environ(), scratchIn+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	var paths []string
	for lines := bufio.NewScanner(out); len(paths) < 5 && lines.Scan(); {
		paths = append(paths, lines.Text())
	}
	there := func() (n int) {
		for _, p := range paths {
			if _, err := os.Stat(filepath.Join(p, "db")); err == nil {
				n++
			}
		}
		return n
	}
	make1 := func() {
		t.Helper()
		s, err := backup.NewScratch(dir, backup.ScratchDrill)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	foreign := filepath.Join(dir, "cke-other-1")
	link := filepath.Join(dir, "cke-drill-link")
	named := filepath.Join(dir, "cke-full-2026", "the-only-copy.cke") // a person's
	for _, d := range []string{foreign, filepath.Dir(named)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(named, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(foreign, link); err != nil {
		t.Fatal(err)
	}
	make1()
	if there() != 5 {
		t.Fatalf("%d of 5 directories are left to a process that lives", there())
	}
	cmd.Process.Kill()
	cmd.Wait()
	make1()
	if there() != 0 {
		t.Errorf("%d directories of a killed process are left", there())
	}
	for _, p := range []string{foreign, link, named} {
		if _, err := os.Lstat(p); err != nil {
			t.Error(err)
		}
	}
}

// What one sweep removes has a bound, and the daemon sweeps the parts of all clusters when it starts.
func TestScratch_SweepsBelowTheScratchDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(dir, "tmp"))
	for i := range 120 {
		for _, part := range []string{".", "prod", "tmp"} {
			left := filepath.Join(dir, part, fmt.Sprintf("cke-full-%d", i))
			if err := errors.Join(os.MkdirAll(left, 0o700), os.WriteFile(filepath.Join(left, ".cke-scratch"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	count := func() int {
		all := 0
		for _, part := range []string{".", "prod", "tmp"} {
			left, err := filepath.Glob(filepath.Join(dir, part, "cke-full-*"))
			if err != nil {
				t.Fatal(err)
			}
			all += len(left)
		}
		return all
	}
	for _, want := range []int{60, 0} {
		if err := backup.SweepScratchBelow(dir); err != nil {
			t.Fatal(err)
		}
		if count() != want && want == 0 || count() > 60 {
			t.Errorf("%d directories are left, at most %d were expected", count(), want)
		}
	}
}
