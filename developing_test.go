package cke_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cke/internal/golden"
)

// docs/developing.md names files and tests that exist.
func TestDeveloping_NamesFilesAndTestsThatExist(t *testing.T) {
	page := golden.Read(t, "docs/developing.md")
	for _, m := range regexp.MustCompile("`([\\w./]+(?:\\.(?:go|md|json|yml|txt|txtar)|/))`").FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("docs/developing.md: %v", err)
		}
	}
	var names strings.Builder
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			names.WriteString(testsIn(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`\bTest\w+_\w+`).FindAllString(page, -1) {
		if !strings.Contains(names.String(), name+"\n") {
			t.Errorf("docs/developing.md: there is no test %s", name)
		}
	}
}
