package cke_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mostLines is how many lines a file of Go may have: more are two subjects.
const mostLines = 450

func TestFiles_AreShort(t *testing.T) {
	err := filepath.WalkDir(".", func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(file, ".go") {
			return err
		}
		source, err := os.ReadFile(file)
		if n := bytes.Count(source, []byte("\n")); n > mostLines {
			t.Errorf("%s has %d lines, %d are the most", file, n, mostLines)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
