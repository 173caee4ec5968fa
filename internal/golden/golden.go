// Package golden compares what tests make with files, and writes these with -update. Only tests import it.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Update is set where files are to be written, not compared.
var Update = flag.Bool("update", false, "write what the tests make over the files that they compare it with")

// Compare compares got with a file, or writes it with -update.
func Compare(t *testing.T, file string, got string) {
	t.Helper()
	if *Update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := Read(t, file); want != got {
		t.Errorf("%s is not current; the same test with -update writes it (-want +got):\n%s", file, cmp.Diff(want, got))
	}
}

// Read returns what a file holds.
func Read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
