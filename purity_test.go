package cke_test

import (
	"go/ast"
	"slices"
	"testing"

	"cke/internal/source"
)

// The vocabulary does no input or output: it reads no file and no clock, connects to nothing and logs nothing. Of package
// net it only takes addresses apart and puts them together.
func TestVocabulary_IsPure(t *testing.T) {
	for name, f := range source.Files(t) {
		source.NeedPure(t, name, f, "bufio", "log", "log/slog", "math/rand", "math/rand/v2", "net/http", "os", "os/exec", "os/user", "path/filepath", "syscall")
		ast.Inspect(f, func(n ast.Node) bool {
			if s, is := n.(*ast.SelectorExpr); is {
				if x, is := s.X.(*ast.Ident); is && x.Name == "net" && !slices.Contains([]string{"JoinHostPort", "SplitHostPort"}, s.Sel.Name) {
					t.Errorf("%s uses net.%s: leave connections to the ports", name, s.Sel.Name)
				}
			}
			return true
		})
	}
}
