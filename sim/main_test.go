package sim_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// A world is small and makes much that lasts for one call only: memory is cheaper here than collecting it.
func TestMain(m *testing.M) {
	debug.SetGCPercent(1600)
	os.Exit(m.Run())
}
