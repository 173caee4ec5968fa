package cke_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cke/internal/golden"
)

var (
	requirementID  = regexp.MustCompile(`\b[AINDC]\d+\b`)
	requirementRow = regexp.MustCompile(`(?m)^\| ([AINDC]\d+) \| ([^|]+) \| ([^|]+) \| [^|]*\|$`)
	testName       = regexp.MustCompile("`([a-z/]+)\\.(Test\\w+)`")
)

// requirementIDs are all rows, in the order in which docs/requirements.md has them.
func requirementIDs() []string {
	var all []string
	for _, group := range []struct {
		name string
		rows int
	}{{"A", 22}, {"I", 19}, {"N", 15}, {"D", 16}, {"C", 13}} {
		for i := range group.rows {
			all = append(all, fmt.Sprint(group.name, i+1))
		}
	}
	return all
}

func TestRequirements_EachRowIsShownByATestThatNamesIt(t *testing.T) {
	cited := citedRequirements(t)
	var ids []string
	for _, row := range requirementRow.FindAllStringSubmatch(golden.Read(t, "docs/requirements.md"), -1) {
		id, tests := row[1], testName.FindAllStringSubmatch(row[3], -1)
		ids = append(ids, id)
		if len(tests) == 0 {
			t.Errorf("%s: no test is named", id)
		}
		for _, test := range tests {
			name := test[1] + "." + test[2]
			switch named, there := cited[name]; {
			case !there:
				t.Errorf("%s: there is no test %s", id, name)
			case !slices.Contains(named, id):
				t.Errorf("%s: the comment of %s names %q only", id, name, named)
			}
		}
	}
	if want := requirementIDs(); !slices.Equal(ids, want) {
		t.Errorf("rows %q, want %q", ids, want)
	}
	for name, named := range cited {
		for _, id := range named {
			if !slices.Contains(ids, id) {
				t.Errorf("%s names %s, which there is not", name, id)
			}
		}
	}
}

// citedRequirements returns, for every test as "folder.TestName", the rows that its comment names behind "Requirement".
func citedRequirements(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := filepath.WalkDir(".", func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder := path.Dir(filepath.ToSlash(file))
		if folder == "." {
			folder = "cke"
		}
		for _, d := range f.Decls {
			fn, is := d.(*ast.FuncDecl)
			if !is || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			name := folder + "." + fn.Name.Name
			_, requirements, _ := strings.Cut(fn.Doc.Text(), "Requirement")
			all[name] = requirementID.FindAllString(requirements, -1)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
