package strategy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The same input gives the same decision: the strategy dials nobody, reads no file and no clock, and logs nothing.
func TestStrategy_IsPure(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	forbidden := []string{"context", "log", "log/slog", "math/rand", "math/rand/v2", "net", "net/http", "os", "sync"}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); slices.Contains(forbidden, path) {
				t.Errorf("%s imports %s: what it tells belongs into the Input", file, path)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, is := n.(*ast.SelectorExpr); is {
				if x, is := s.X.(*ast.Ident); is && x.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "After", "Sleep"}, s.Sel.Name) {
					t.Errorf("%s calls time.%s: take Input.Seen.ObservedAt", file, s.Sel.Name)
				}
			}
			return true
		})
	}
}
