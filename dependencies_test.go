package cke_test

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cke/internal/golden"
)

// docs/dependencies.md has each module that go.mod requires directly and each tool of tools.mod, with a reason, and names
// only folders that import it.
func TestDependencies_EachHasItsReason(t *testing.T) {
	page, tools, _ := strings.Cut(golden.Read(t, "docs/dependencies.md"), "\n## Tools\n")
	compare(t, "go.mod", direct(t, "go.mod"), page, func(module, used string) {
		for folder := range strings.SplitSeq(used, ", ") {
			if folder = strings.Trim(folder, "`"); !imports(t, folder, module) {
				t.Errorf("docs/dependencies.md: no file in %s imports %s", folder, module)
			}
		}
	})
	compare(t, "tools.mod", direct(t, "tools.mod"), tools, func(string, string) {})
}

// compare names the modules that a table lacks, and those that it has though they are not required.
func compare(t *testing.T, file string, modules []string, table string, check func(module, used string)) {
	t.Helper()
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*) \\| ([^|]*) \\|$").FindAllStringSubmatch(table, -1) {
		module, reason, used := row[1], row[2], row[3]
		listed = append(listed, module)
		if !strings.HasSuffix(reason, ".") || used == "" {
			t.Errorf("docs/dependencies.md: %s needs a reason, as a sentence, and where it is used", module)
		}
		if !slices.Contains(modules, module) {
			t.Errorf("docs/dependencies.md has %s, which %s does not require directly", module, file)
			continue
		}
		check(module, used)
	}
	for _, m := range modules {
		if !slices.Contains(listed, m) {
			t.Errorf("docs/dependencies.md lacks %s of %s", m, file)
		}
	}
}

// direct returns the modules that a go.mod file requires directly, those of its tools included.
func direct(t *testing.T, file string) (modules []string) {
	t.Helper()
	out, err := exec.Command("go", "mod", "edit", "-json", file).Output()
	if err != nil {
		t.Fatalf("go mod edit -json %s: %v", file, err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
		Tool []struct{ Path string }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Require {
		tool := false // go marks modules of tools as indirect
		for _, u := range mod.Tool {
			tool = tool || within(u.Path, r.Path)
		}
		if !r.Indirect || tool {
			modules = append(modules, r.Path)
		}
	}
	return modules
}

// imports reports whether a file of the folder, tests included, imports a package of the module.
func imports(t *testing.T, folder, module string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if path, err := strconv.Unquote(i.Path.Value); err == nil && within(path, module) {
				return true
			}
		}
	}
	return false
}

// within reports whether a package path is the prefix or below it.
func within(path, prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }
