package contain_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cke/internal/contain"
)

func TestDo_APanicIsAnError(t *testing.T) {
	var m map[string]int
	set := func(m map[string]int) { m["x"] = 1 }
	err := contain.Do(func() error { set(m); return nil })
	if f := contain.Of(err); f == nil || !strings.Contains(err.Error(), "nil map") || !strings.Contains(f.Stack, "contain_test.go") {
		t.Errorf("%v", err)
	}
	own := errors.New("own")
	if err := contain.Err(func() error { return own })(); !errors.Is(err, own) || contain.Of(err) != nil {
		t.Errorf("%v", err)
	}
	var failed error
	contain.Work(func() { panic("no") }, func(err error) { failed = err })()
	if contain.Of(failed) == nil {
		t.Errorf("%v", failed)
	}
}

// No goroutine below cke/backup can end the process, nor one that holds backups for a restore: each is started through this package.
func TestContain_EveryGoroutine(t *testing.T) {
	start := regexp.MustCompile(`^\s*(go |.*\.Go\()`)
	check := func(path string, info os.FileInfo, err error) error {
		switch {
		case err != nil:
			return err
		case info.IsDir() && (info.Name() == "backuptest" || strings.HasSuffix(path, "internal/etcdtest") || strings.HasSuffix(path, "internal/taketest")):
			return filepath.SkipDir // used by tests only
		case info.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for i, line := range strings.Split(string(text), "\n") {
			if start.MatchString(line) && !strings.Contains(line, "contain.") {
				t.Errorf("%s:%d: a panic here would end the daemon of all clusters: %s", path, i+1, strings.TrimSpace(line))
			}
		}
		return err
	}
	for _, root := range []string{"../../backup", "../../cmd/cke/hold.go"} {
		if err := filepath.Walk(root, check); err != nil {
			t.Fatal(err)
		}
	}
}
