package clusterfile_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"cke"
	"cke/clusterfile"
	"cke/internal/golden"
)

func TestDocs_ClusterFileNamesEveryKeyAndItsExamplesAreGood(t *testing.T) {
	text := golden.Read(t, "../docs/cluster.md")
	for path := range schemaPaths(t) {
		if !strings.Contains(text, "\n| `"+path+"` |") {
			t.Errorf("docs/cluster.md has no row for %s", path)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.\\[\\]]+)` \\|.*\\|.*\\|$").FindAllStringSubmatch(text, -1) {
		if !schemaPaths(t)[m[1]] && m[1] != "etcd_backup" && m[1] != "sabakan" {
			t.Errorf("docs/cluster.md has a row for %s, which does not exist", m[1])
		}
	}
	blocks := yamlBlocks(text)
	if len(blocks) != 3 {
		t.Fatalf("%d examples", len(blocks))
	}
	for _, block := range blocks[:2] {
		if _, warnings, err := clusterfile.ParseCluster("docs/cluster.md", []byte(block)); err != nil || len(warnings) > 0 {
			t.Errorf("%v %v in\n%s", warnings, err, block)
		}
	}
	indented := ""
	for line := range strings.Lines(told([]byte(blocks[2]))) {
		if !strings.HasPrefix(line, "error") {
			line = "  " + line
		}
		indented += "    " + line
	}
	if !strings.Contains(text, indented) {
		t.Errorf("docs/cluster.md shows other faults than\n%s", indented)
	}
}

func TestDocs_ConfigurationNamesEveryKeyAndItsExamplesAreGood(t *testing.T) {
	text := golden.Read(t, "../docs/configuration.md")
	for _, path := range configPaths(reflect.TypeFor[cke.Config](), "") {
		if !strings.Contains(text, "\n| `"+path+"` |") {
			t.Errorf("docs/configuration.md has no row for %s", path)
		}
	}
	blocks := yamlBlocks(text)
	if len(blocks) != 4 {
		t.Fatalf("%d examples", len(blocks))
	}
	for i, block := range blocks {
		c, err := clusterfile.ParseConfig("docs/configuration.md", []byte(block))
		if err != nil {
			t.Errorf("%v in\n%s", err, block)
		}
		if i == 0 && !reflect.DeepEqual(c, cke.DefaultConfig()) {
			t.Errorf("the first example is not what holds without a file: %+v", c)
		}
	}
}

// fullExample is the example of docs/cluster.md that has every key.
func fullExample(t *testing.T) []byte {
	t.Helper()
	blocks := yamlBlocks(golden.Read(t, "../docs/cluster.md"))
	if len(blocks) < 2 {
		t.Fatalf("docs/cluster.md has %d examples", len(blocks))
	}
	return []byte(blocks[1])
}

func yamlBlocks(text string) []string {
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

func configPaths(t reflect.Type, path string) []string {
	var paths []string
	for i := range t.NumField() {
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		at := strings.TrimPrefix(path+"."+key, ".")
		paths = append(paths, at)
		switch f := t.Field(i).Type; {
		case f.Kind() == reflect.Struct:
			paths = append(paths, configPaths(f, at)...)
		case f.Kind() == reflect.Slice && f.Elem().Kind() == reflect.Struct:
			paths = append(paths, configPaths(f.Elem(), at+"[]")...)
		}
	}
	return paths
}
