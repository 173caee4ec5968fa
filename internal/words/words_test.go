package words_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/internal/words"
)

// A hash says nothing about changes after its revision.
func TestDrill_NamesTheRevisionWhoseHashWasCompared(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for hashed, want := range map[int64]string{900: "revision 900 restored with the right hash", 100: "with the right hash at revision 100", 0: "revision 900 restored with the right hash"} {
		text, _ := words.Drill(now, &cke.BackupStatus{Verified: &cke.VerifiedBackup{Revision: 900, HashChecked: true, HashRevision: hashed}})
		if !strings.Contains(text, want) || (hashed != 100) == strings.Contains(text, "at revision") {
			t.Errorf("%d: %q", hashed, text)
		}
	}
}
