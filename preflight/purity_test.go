package preflight

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// What judges depends on nothing but what it is given: it neither asks a node nor reads a clock.
func TestJudge_IsPure(t *testing.T) {
	forbidden := []string{"cke/etcdnode", "context", "log/slog", "math/rand", "net/http", "os", "sync"}
	for _, file := range []string{"check.go", "judge.go", "members.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); slices.Contains(forbidden, path) {
				t.Errorf("%s imports %s", file, path)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains([]string{"Now", "Since", "Until"}, s.Sel.Name) {
				t.Errorf("%s asks for time.%s", file, s.Sel.Name)
			}
			return true
		})
	}
}
