package strategy_test

import (
	"testing"

	"cke/internal/source"
)

// The same input gives the same decision: the strategy dials nobody, reads no file and no clock, and logs nothing.
func TestStrategy_IsPure(t *testing.T) {
	for name, f := range source.Files(t) {
		source.NeedPure(t, name, f, "context", "log", "log/slog", "math/rand", "math/rand/v2", "net", "net/http", "os", "sync")
	}
}
