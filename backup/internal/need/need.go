// Package need says what becomes of a test for which a program is missing.
package need

import (
	"os"
	"testing"
)

// variable is set where every program has to be there.
const variable = "CKE_NEED_PROGRAMS"

// Missing skips a test because a program cannot be had, or fails it where that is no excuse.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(variable) != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
