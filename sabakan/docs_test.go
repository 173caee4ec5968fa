package sabakan_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cke"
	"cke/internal/golden"
	"cke/sabakan"
)

// names are the causes and stops that the package has.
func names(t *testing.T) (all []string) {
	t.Helper()
	source, err := os.ReadFile("stops.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\tStop\w+ +Stop = "(.+)"$`).FindAllStringSubmatch(string(source), -1) {
		all = append(all, m[1])
	}
	if len(all) < 10 {
		t.Fatalf("stops.go has the stops %q", all)
	}
	for _, cause := range cke.InventoryCauses() {
		all = append(all, string(cause))
	}
	return all
}

// outcomes are the names that an outcome may have.
func outcomes(t *testing.T) []string {
	return append(names(t), string(cke.CodeNoHost), string(sabakan.WaitCheck), string(sabakan.WaitUndeclared), sabakan.OutcomeNone)
}

// docs/inventory-choice.md says what each name of an outcome means.
func TestDocs_HaveEveryOutcome(t *testing.T) {
	page := golden.Read(t, "../docs/inventory-choice.md")
	for _, name := range outcomes(t) {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/inventory-choice.md does not say what the outcome `%s` means", name)
		}
	}
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
	if !slices.Equal(rows, declared) {
		t.Errorf("docs/inventory-choice.md has the rows %q, want %q", rows, declared)
	}
}
