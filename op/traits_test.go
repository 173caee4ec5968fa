package op_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cke/op"
)

// A record names an operation, and its traits are found by that name: none may be missing that a person's task does not name.
func TestTraits_AreFoundByEachName(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	known := op.Names()
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, is := d.(*ast.FuncDecl)
			if !is || fn.Recv == nil || fn.Name.Name != "Name" {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if l, is := n.(*ast.BasicLit); is && l.Kind == token.STRING {
					if name := strings.Trim(l.Value, `"`); name != "" && !slices.Contains(known, name) {
						t.Errorf("%s: kinds in traits.go lacks what is named %q", file, name)
					}
				}
				return true
			})
		}
	}
}
