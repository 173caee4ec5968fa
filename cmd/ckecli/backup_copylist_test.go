package main

import (
	"os"
	"path/filepath"
	"testing"

	"cke/backup"
	"cke/backup/target"
)

// A full is pruned between the listing and the copy, as by a daemon beside it. The copy takes the others, as it does without --last.
func TestBackupCopy_AFullThatIsPrunedMeanwhileStopsNoCopyOfTheLast(t *testing.T) {
	h := newBackedUpHouse(t)
	b, err := target.Open(t.Context(), h.url, target.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s := &backup.Store{Bucket: b, Cluster: "prod"}
	lineages, err := s.Lineages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(h.dir, "prod", "a1b2", "full", "*.cke"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := (copyOptions{last: 2}).begin(t.Context(), s, lineages); err != nil {
		t.Error(err)
	}
}
