package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cke/internal/golden"
)

// What passed is one line for a package; what failed is printed in full, also where a test never ended.
func TestPrinter_PrintsWhatFailed(t *testing.T) {
	var out strings.Builder
	p := newPrinter(&out)
	if err := p.read(strings.NewReader(golden.Read(t, "testdata/events.json"))); err != nil {
		t.Fatal(err)
	}
	p.summary()
	times := filepath.Join(t.TempDir(), "times")
	for range 2 { // two runs share the file
		if err := note(times, p.taken); err != nil {
			t.Fatal(err)
		}
	}
	if err := list(&out, times, 3); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/printed.txt", out.String())
}

func TestRun_KeepsTheExitCode(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 1": 1, "exit 2": 2, "kill -9 $$": 1} {
		var out strings.Builder
		if code, err := run(&out, "", []string{"sh", "-c", "echo not an event; " + script, "-json"}); code != want || err != nil {
			t.Errorf("%s: code %d, %v; want %d", script, code, err, want)
		}
		if out.String() != "not an event\n" {
			t.Errorf("%s: printed %q", script, out.String())
		}
	}
	if code, err := run(os.Stdout, "", []string{"go", "test", "./..."}); code == 0 || err == nil {
		t.Errorf("a command without -json: code %d, %v", code, err)
	}
}

func TestList_OfNothingIsNothing(t *testing.T) {
	var out strings.Builder
	if err := list(&out, filepath.Join(t.TempDir(), "none"), 10); err != nil || out.Len() > 0 {
		t.Errorf("%q, %v", out.String(), err)
	}
}
