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

// docs/developing.md names files and tests that exist, and in a row of a table what the files of that row have.
func TestDeveloping_NamesFilesAndTestsThatExist(t *testing.T) {
	page := golden.Read(t, "docs/developing.md")
	for _, m := range regexp.MustCompile("`([\\w./]+(?:\\.(?:go|md|json|yml|txt|txtar)|/))`").FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("docs/developing.md: %v", err)
		}
	}
	row := regexp.MustCompile("(?m)^\\| (`[^|]+) \\| (.*) \\|$")
	for _, m := range row.FindAllStringSubmatch(page, -1) {
		var text strings.Builder
		for _, file := range regexp.MustCompile("`([^` ]+\\.(?:go|md))`").FindAllStringSubmatch(m[1], -1) {
			text.WriteString(golden.Read(t, file[1]))
		}
		for _, name := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(m[2], -1) {
			if text.Len() > 0 && !strings.Contains(text.String(), name[1]) {
				t.Errorf("docs/developing.md: %s is not in %s", name[1], m[1])
			}
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
