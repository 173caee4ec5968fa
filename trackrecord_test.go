package cke_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cke/internal/golden"
)

// Every command in docs/track-record.md selects a test that exists.
func TestTrackRecord_ItsCommandsSelectTests(t *testing.T) {
	commands := regexp.MustCompile(`(?m)^ +go test (\S+) .*?-run ['"]?([^'"\s]+)`).FindAllStringSubmatch(golden.Read(t, "docs/track-record.md"), -1)
	if len(commands) == 0 {
		t.Fatal("no commands")
	}
	tests := map[string]string{} // of each folder
	for _, c := range commands {
		names, there := tests[c[1]]
		if !there {
			names = testsIn(t, c[1])
			tests[c[1]] = names
		}
		top, _, _ := strings.Cut(c[2], "/") // subtests are not looked for
		for _, part := range alternatives(top) {
			pattern, err := regexp.Compile("(?m)" + part)
			if err != nil {
				t.Errorf("%s: %v", c[0], err)
				continue
			}
			if !pattern.MatchString(names) {
				t.Errorf("%s: no test in %s matches %q", strings.TrimSpace(c[0]), c[1], part)
			}
		}
	}
}

// alternatives are the parts of a pattern between bars, those within parentheses left aside.
func alternatives(pattern string) (parts []string) {
	depth, from := 0, 0
	for i, r := range pattern {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == '|' && depth == 0:
			parts, from = append(parts, pattern[from:i]), i+1
		}
	}
	return append(parts, pattern[from:])
}

// testsIn are the names of the tests in a folder, a line for each.
func testsIn(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	declaration := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	var names strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declaration.FindAllSubmatch(text, -1) {
			names.Write(append(m[1], '\n'))
		}
	}
	return names.String()
}
