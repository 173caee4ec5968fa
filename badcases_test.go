package cke_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cke/internal/golden"
)

// Each test of the bad cases in docs/proof.md exists, and so does each of its parts.
func TestBadCases_EachHasItsTests(t *testing.T) {
	_, page, found := strings.Cut(golden.Read(t, "docs/proof.md"), "\n## Bad cases")
	if !found {
		t.Fatal("no bad cases")
	}
	page, _, _ = strings.Cut(page, "\n## ")
	test := regexp.MustCompile("`([a-z/]+)\\.(Test\\w+)`((?:(?:: |, )\\*[^*]+\\*)*)")
	for row := range strings.Lines(page) {
		if !strings.HasPrefix(row, "| ") || strings.HasPrefix(row, "| case ") {
			continue
		}
		tests := test.FindAllStringSubmatch(row, -1)
		if len(tests) == 0 {
			t.Errorf("no test: %s", row)
		}
		for _, m := range tests {
			folder, text := strings.TrimPrefix(m[1], "cke"), ""
			files, err := filepath.Glob(filepath.Join(".", folder, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				source, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				text += string(source)
			}
			if !strings.Contains(text, "func "+m[2]+"(") {
				t.Errorf("there is no test %s.%s", m[1], m[2])
			}
			for _, part := range regexp.MustCompile(`\*([^*]+)\*`).FindAllStringSubmatch(m[3], -1) {
				if !strings.Contains(text, `"`+part[1]+`"`) {
					t.Errorf("%s.%s has no part %q", m[1], m[2], part[1])
				}
			}
		}
	}
}
