package strategy_test

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cke/internal/golden"
	"cke/server/strategy"
)

// The table of rules in docs/strategy.md has each rule, in the order in which they are asked.
func TestDocs_StrategyHasEveryRuleInItsOrder(t *testing.T) {
	page := golden.Read(t, "../../docs/strategy.md")
	table := regexp.MustCompile(`(?s)\| rule \| when .*?\n\n`).FindString(page)
	var told []string
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-z][^|]*?) \|`).FindAllStringSubmatch(table, -1) {
		if m[1] != "rule" && m[1] != "none" {
			told = append(told, m[1])
		}
	}
	if diff := cmp.Diff(strategy.Rules(), told); diff != "" {
		t.Errorf("docs/strategy.md (-rules +told):\n%s", diff)
	}
}
