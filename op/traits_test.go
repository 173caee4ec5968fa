package op_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"

	"cke/internal/source"
	"cke/op"
)

// A record names an operation, and its traits are found by that name: none may be missing that a person's task does not name.
func TestTraits_AreFoundByEachName(t *testing.T) {
	known := op.Names()
	for _, fn := range source.Functions(t) {
		if fn.Recv == nil || fn.Name.Name != "Name" {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			if l, is := n.(*ast.BasicLit); is && l.Kind == token.STRING {
				if name := strings.Trim(l.Value, `"`); name != "" && !slices.Contains(known, name) {
					t.Errorf("kinds in traits.go lacks what is named %q", name)
				}
			}
			return true
		})
	}
}
