package strategy_test

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cke/internal/golden"
	"cke/server/strategy"
)

// The tables of phases and duties in docs/strategy.md have each rule, in the order in which they are asked.
func TestDocs_StrategyHasEveryRuleInItsOrder(t *testing.T) {
	page := golden.Read(t, "../../docs/strategy.md")
	var told []string
	for _, table := range regexp.MustCompile(`(?s)\| rule \| when .*?\n\n`).FindAllString(page, -1) {
		for _, m := range regexp.MustCompile(`(?m)^\| ([a-z][^|]*?) \|`).FindAllStringSubmatch(table, -1) {
			if m[1] != "rule" && m[1] != "none" {
				told = append(told, m[1])
			}
		}
	}
	if diff := cmp.Diff(strategy.Rules(), told); diff != "" {
		t.Errorf("docs/strategy.md (-rules +told):\n%s", diff)
	}
}
