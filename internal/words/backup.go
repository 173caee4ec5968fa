package words

import (
	"fmt"
	"strings"
	"time"

	"cke"
)

// Backup says what can be restored; empty: nothing is known of backups. bad: it is not as it should be.
func Backup(now time.Time, s cke.Status) (text string, bad bool) {
	c, known := s.Condition(cke.CondBackupReady)
	if !known { // a status of an older daemon
		return "", false
	}
	bad = c.Status != cke.True
	b := s.Backup
	if b == nil || !b.Known {
		if c.Reason == "NotConfigured" {
			return "none: " + c.Message, bad
		}
		return c.Message, bad
	}
	if text = restorable(now, b); bad {
		text = c.Message + "; " + text
	}
	return text, bad
}

// restorable says what can be restored.
func restorable(now time.Time, b *cke.BackupStatus) string {
	if b.Full.Revision == 0 {
		return "no full yet"
	}
	parts := []string{fmt.Sprintf("full %s ago at revision %d", Ago(now, b.Full.At), b.Full.Revision)}
	switch {
	case b.LagRevisions > 0:
		parts = append(parts, fmt.Sprintf("deltas to %d, %s", b.Revision, cke.Plural(b.LagRevisions, "revision waits", "revisions wait")))
	case b.Revision > b.Full.Revision:
		parts = append(parts, fmt.Sprintf("deltas to %d", b.Revision))
	default:
		parts = append(parts, "nothing has changed since")
	}
	if !b.NextFull.IsZero() {
		parts = append(parts, "next full "+Due(now, b.NextFull))
	}
	return strings.Join(parts, ", ")
}

// AtOlder says that a hash is of an older revision than the one restored: none was recorded of that.
func AtOlder(hashed, restored int64) string {
	if hashed == 0 || hashed == restored {
		return ""
	}
	return fmt.Sprintf(" at revision %d", hashed)
}

// Drill describes the last restore drill. bad: the one after it failed.
func Drill(now time.Time, b *cke.BackupStatus) (text string, bad bool) {
	text = "never"
	if v := b.Verified; v != nil {
		text = fmt.Sprintf("%s ago, revision %d restored", Ago(now, v.At), v.Revision)
		if v.HashChecked {
			text += " with the right hash" + AtOlder(v.HashRevision, v.Revision)
		}
		if v.Booted != "" {
			text += ", etcd " + v.Booted + " started on it"
		}
	}
	if t := b.Trouble("verify"); t != nil {
		text, bad = text+"; failed: "+t.Message, true
	}
	if !b.NextVerify.IsZero() {
		text += ", next " + Due(now, b.NextVerify)
	}
	return text, bad
}
