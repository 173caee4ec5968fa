package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Bytes that are no backup are the newest full by their name. The last full is the one before: the copy can be restored from as the source can.
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
	h.run(exitDamaged, "backup", "copy", h.url, "file://"+out, "--last", "1")
	h.run(exitDone, "backup", "extract", filepath.Join(h.house.dir, "here.db"), "--target", h.url)
	h.run(exitDone, "backup", "extract", filepath.Join(h.house.dir, "there.db"), "--target", "file://"+out)
}
