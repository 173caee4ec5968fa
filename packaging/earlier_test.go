package packaging_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The package that is upgraded in tests has other programs than the present one.
func TestEarlier_DiffersInWhatIsInstalled(t *testing.T) {
	if _, err := os.Stat("../.git"); err != nil {
		t.Skip("no repository")
	}
	out, err := exec.Command("./earlier.sh").Output()
	if err != nil {
		t.Skipf("not all commits are here: %v", err) // as in a clone with few of them
	}
	commit := strings.TrimSpace(string(out))
	changed, err := exec.Command("git", "diff", "--name-only", commit, "HEAD", "--", "..").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(string(changed)) {
		program := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "ui/") || strings.HasPrefix(name, "packaging/") || name == "go.mod"
		if program && !strings.HasPrefix(name, "mtest/") && !strings.HasPrefix(name, "bench/") {
			return
		}
	}
	t.Errorf("from %s until now nothing that is installed changed:\n%s", commit, changed)
}
