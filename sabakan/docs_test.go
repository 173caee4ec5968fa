package sabakan_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"cke/internal/golden"
)

// names are the causes and stops that the package has.
func names(t *testing.T) (all []string) {
	t.Helper()
	for _, file := range []string{"choose.go", "stops.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\t(?:Cause|Stop)\w+ +(?:Cause|Stop) = "(.+)"$`).FindAllStringSubmatch(string(source), -1) {
			all = append(all, m[1])
		}
	}
	return all
}

// docs/inventory-choice.md has a row for each stop and each cause, in the order in which they are asked.
func TestDocs_HaveEveryStopAndCauseInItsOrder(t *testing.T) {
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(golden.Read(t, "../docs/inventory-choice.md"), -1) {
		rows = append(rows, m[1])
	}
	declared := names(t)
	for _, name := range declared {
		if !slices.Contains(rows, name) {
			t.Errorf("docs/inventory-choice.md has no row for `%s`", name)
		}
	}
	rows = slices.DeleteFunc(rows, func(row string) bool { return !slices.Contains(declared, row) })
	slices.SortStableFunc(declared, func(a, b string) int { return slices.Index(rows, a) - slices.Index(rows, b) })
	if !slices.Equal(rows, declared) {
		t.Errorf("docs/inventory-choice.md has the rows %q, want each of %q once", rows, declared)
	}
}
