package backup_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// The digest told is that of the file, with deltas and without.
func TestExtract_TellsTheDigestOfTheFile(t *testing.T) {
	f := makeFixture(t, true)
	for _, rev := range []int64{f.fulls[0], f.fulls[1], f.fulls[1] + 3, f.last} {
		out := filepath.Join(t.TempDir(), "out")
		x, err := f.store(t, f.bucket).Extract(etcdtest.Context(t), backup.At{Revision: rev}, out, backup.ExtractOptions{Digest: true})
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%x", sha256.Sum256(data)); x.Digest != want {
			t.Errorf("revision %d: digest %s, the file's is %s", rev, x.Digest, want)
		}
	}
}
