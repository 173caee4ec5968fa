package backup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// shrinking takes the file's content away while it is read, which faults as a disk does that cannot be read.
type shrinking struct {
	context.Context
	file *os.File
}

func (s shrinking) Err() error { return s.file.Truncate(0) }

// The working copy is this host's: that it cannot be read says nothing of the backup.
func TestHashFile_AFaultOfTheScratchDiskIsNoDamage(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(4 * snapshotBlock); err != nil {
		t.Fatal(err)
	}
	_, _, err = hashFile(shrinking{t.Context(), f}, f)
	if here := new(os.PathError); !errors.As(err, &here) || here.Op != "read" || here.Path != f.Name() || IsDamage(err) {
		t.Errorf("%v", err)
	}
}
