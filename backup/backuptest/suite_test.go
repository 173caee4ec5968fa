package backuptest_test

import (
	"testing"

	"cke/backup"
	"cke/backup/backuptest"
)

func TestBuckets(t *testing.T) {
	t.Run("memory", func(t *testing.T) { backuptest.Run(t, backuptest.NewMemory()) })
	t.Run("directory", func(t *testing.T) { backuptest.Run(t, backup.Dir(t.TempDir()+"/made/when/needed")) })
	t.Run("within", func(t *testing.T) { backuptest.Run(t, backup.Within(backup.Dir(t.TempDir()), "a/b")) })
}
