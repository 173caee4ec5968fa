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

// The front page is read in a few minutes, and shows what operators watch.
func TestReadme_IsShortAndShowsThePage(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(readme, []byte("\n")); n >= 120 {
		t.Errorf("README.md has %d lines, want fewer than 120", n)
	}
	for _, name := range []string{"fleet.png", "cluster.png"} {
		if !bytes.Contains(readme, []byte("](docs/images/"+name+")")) {
			t.Errorf("README.md does not show docs/images/%s", name)
		}
	}
}

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
