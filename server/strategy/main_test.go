package strategy_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"cke/server/strategy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(whole{m}) }

// whole fails a run of all tests if a rule has nothing to say in any of them.
type whole struct{ *testing.M }

func (w whole) Run() int {
	code := w.M.Run()
	for _, part := range []string{"run", "skip", "list", "fuzz"} {
		if flag.Lookup("test."+part).Value.String() != "" {
			return code
		}
	}
	if silent := strategy.Silent(); code == 0 && silent != nil {
		fmt.Printf("no test reaches the rules: %s\n", strings.Join(silent, ", "))
		return 1
	}
	return code
}
