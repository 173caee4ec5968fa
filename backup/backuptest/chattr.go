package backuptest

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Chattr sets attributes of a file, such as unix.STATX_ATTR_IMMUTABLE, until the test ends. It skips the test if they
// cannot be set: that requires root and a file system that supports them.
func Chattr(t testing.TB, file string, attributes int) {
	t.Helper()
	set := func(to int) error {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, to)
	}
	if err := set(attributes); err != nil {
		t.Skip(fmt.Errorf("chattr: %w", err))
	}
	t.Cleanup(func() {
		if err := set(0); err != nil {
			t.Error(err)
		}
	})
}
