package preflight

import (
	"testing"

	"cke/internal/source"
)

// What judges depends on nothing but what it is given: it neither asks a node nor reads a clock.
func TestJudge_IsPure(t *testing.T) {
	files := source.Files(t)
	for _, name := range []string{"causes.go", "check.go", "judge.go", "members.go"} {
		if files[name] == nil {
			t.Fatalf("%s is gone", name)
		}
		source.NeedPure(t, name, files[name], "cke/etcdnode", "context", "log/slog", "math/rand", "net/http", "os", "sync")
	}
}
