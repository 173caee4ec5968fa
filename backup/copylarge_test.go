package backup_test

import (
	"testing"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// A file that somebody has put beside the backups and that is too large to be one of cke's is named and skipped, like what is damaged: what is sound is copied.
func TestCopy_PastAFileThatIsTooLarge(t *testing.T) {
	f := makeFixture(t, false)
	b := f.bucket.Clone()
	b.Set("prod/a1b2/verified/x", make([]byte, 17<<20))
	dst := backuptest.NewMemory()
	n, err := f.store(t, b).Copy(etcdtest.Context(t), dst, backup.CopyFilter{})
	if err != nil && len(n.Problems) == 0 {
		t.Errorf("the copy is broken off: %v", err)
	}
	fulls, deltas := f.objects(t)
	if have := len(names(t, dst)); have < len(fulls)+len(deltas) {
		t.Errorf("%d objects are copied, of %d", have, len(fulls)+len(deltas))
	}
}
