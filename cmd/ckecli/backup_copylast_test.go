package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Of the newest full only the name counts for --last, and anybody's is the newest who may write to the target: what is copied can be restored from all the same, where
// the error says that all undamaged objects were copied.
func TestBackupCopy_TheLastFullsAreThoseThatCanBeRestored(t *testing.T) {
	h := newBackedUpHouse(t)
	files, err := filepath.Glob(filepath.Join(h.dir, "prod", "a1b2", "full", "*.cke"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	slices.Sort(files)
	if err := os.WriteFile(files[1], []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(h.house.dir, "copy")
	_, stderr := h.run(exitDamaged, "backup", "copy", h.url, "file://"+out, "--last", "1")
	if !strings.Contains(stderr, "all undamaged objects were copied") {
		t.Fatal(stderr)
	}
	h.run(exitDone, "backup", "extract", filepath.Join(h.house.dir, "here.db"), "--target", h.url)
	h.run(exitDone, "backup", "extract", filepath.Join(h.house.dir, "there.db"), "--target", "file://"+out)
}
