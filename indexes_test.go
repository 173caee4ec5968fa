package cke_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cke/internal/golden"
)

// The indexes of decisions and of the changelog have each page once, under its title.
func TestIndexes_HaveEveryDecisionAndChangelogEntry(t *testing.T) {
	link := regexp.MustCompile(`\[(.+)\]\((\d{4}-[^)]+\.md)\)`)
	for _, folder := range []string{"docs/decisions", "docs/changelog"} {
		titles := map[string][]string{} // by file
		for line := range strings.Lines(golden.Read(t, folder+"/README.md")) {
			if cells := strings.Split(line, " | "); len(cells) > 1 { // a row of decisions: number, page, status
				line = cells[1]
			}
			if m := link.FindStringSubmatch(line); m != nil {
				titles[m[2]] = append(titles[m[2]], m[1])
			}
		}
		files, err := filepath.Glob(folder + "/[0-9]*.md")
		if err != nil || len(files) == 0 {
			t.Fatalf("%d pages in %s, %v", len(files), folder, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name, title := filepath.Base(file), titleOf(string(text))
			switch got := titles[name]; {
			case len(got) == 0:
				t.Errorf("%s/README.md lacks [%s](%s)", folder, title, name)
			case len(got) > 1:
				t.Errorf("%s/README.md has %s %d times", folder, name, len(got))
			case got[0] != title:
				t.Errorf("%s/README.md calls %s %q, its title is %q", folder, name, got[0], title)
			}
		}
		for name := range titles {
			if !slices.Contains(files, folder+"/"+name) {
				t.Errorf("%s/README.md has %s, which does not exist", folder, name)
			}
		}
	}
}

// titleOf returns the first heading of a page, without the number of a decision.
func titleOf(page string) string {
	return regexp.MustCompile(`(?m)^# (?:\d+\. )?(.+)$`).FindStringSubmatch(page + "\n# ?")[1]
}
