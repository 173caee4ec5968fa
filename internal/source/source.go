// Package source reads the Go files of a package, for tests that judge how they are written. Only tests import it.
package source

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Files returns the files of the package in the folder of the test, by name and without tests.
func Files(t *testing.T) map[string]*ast.File {
	t.Helper()
	return Parse(t, ".", token.NewFileSet(), 0)
}

// Parse returns the files of the package in a folder, by path and without tests. A folder without any fails the test.
func Parse(t *testing.T, folder string, set *token.FileSet, mode parser.Mode) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%d Go files in %s, %v", len(names), folder, err)
	}
	all := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if all[name], err = parser.ParseFile(set, name, nil, mode|parser.SkipObjectResolution); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Functions returns the functions and methods of the package.
func Functions(t *testing.T) (all []*ast.FuncDecl) {
	t.Helper()
	files := Files(t)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, d := range files[name].Decls {
			if fn, is := d.(*ast.FuncDecl); is {
				all = append(all, fn)
			}
		}
	}
	return all
}

// NeedPure fails the test where a file imports one of some packages, or asks what time it is.
func NeedPure(t *testing.T, name string, f *ast.File, forbidden ...string) {
	t.Helper()
	for _, i := range f.Imports {
		if path, _ := strconv.Unquote(i.Path.Value); slices.Contains(forbidden, path) {
			t.Errorf("%s imports %s: pass in what it provides", name, path)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, is := n.(*ast.SelectorExpr); is {
			if x, is := s.X.(*ast.Ident); is && x.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "After", "Sleep"}, s.Sel.Name) {
				t.Errorf("%s calls time.%s: take the time that is passed in", name, s.Sel.Name)
			}
		}
		return true
	})
}
