// Package need decides what to do with a test that needs a missing program.
package need

import (
	"os"
	"testing"
)

// variable is set where every program has to be there.
const variable = "CKE_NEED_PROGRAMS"

// Missing skips a test because a program is not available, or fails it where that is no excuse.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(variable) != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
