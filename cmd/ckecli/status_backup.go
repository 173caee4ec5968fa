package main

import (
	"fmt"
	"strings"
	"time"

	"cke"
	"cke/internal/term"
)

// backupFacts are the lines about backups. A status of an older daemon shows nothing of them.
func (a *app) backupFacts(l *term.Labels, s cke.Status) {
	c, told := s.Condition(cke.CondBackupReady)
	if !told {
		return
	}
	b := s.Backup
	if b == nil || !b.Known {
		text := c.Message
		if c.Reason == "NotConfigured" {
			text = "none: " + text
		}
		l.Add("Backup", term.Styled(backupStyle(c), text))
		return
	}
	text := a.backupText(b)
	if c.Status != cke.True {
		text = c.Message + "; " + text
	}
	l.Add("Backup", term.Styled(backupStyle(c), text))
	l.Add("Drill", a.drill(b))
}

func backupStyle(c cke.Condition) term.Style {
	if c.Status == cke.True {
		return term.Plain
	}
	return term.Yellow
}

// backupText says what can be restored.
func (a *app) backupText(b *cke.BackupStatus) string {
	if b.Full.Revision == 0 {
		return "no full yet"
	}
	parts := []string{fmt.Sprintf("full %s ago at revision %d", a.ago(b.Full.At), b.Full.Revision)}
	switch {
	case b.LagRevisions > 0:
		parts = append(parts, fmt.Sprintf("deltas to %d, %s", b.Revision, cke.Plural(b.LagRevisions, "revision waits", "revisions wait")))
	case b.Revision > b.Full.Revision:
		parts = append(parts, fmt.Sprintf("deltas to %d", b.Revision))
	default:
		parts = append(parts, "nothing has changed since")
	}
	if !b.NextFull.IsZero() {
		parts = append(parts, "next full "+a.due(b.NextFull))
	}
	return strings.Join(parts, ", ")
}

// due is when something is to come.
func (a *app) due(t time.Time) string {
	if !t.After(a.now()) {
		return "now"
	}
	return "in " + a.in(t)
}

// atOlder says that a hash is of an older revision than the one restored: none was recorded of that.
func atOlder(hashed, restored int64) string {
	if hashed == 0 || hashed == restored {
		return ""
	}
	return fmt.Sprintf(" at revision %d", hashed)
}

// drill describes the last restore to scratch.
func (a *app) drill(b *cke.BackupStatus) term.Cell {
	text, style := "never", term.Plain
	if v := b.Verified; v != nil {
		text = fmt.Sprintf("%s ago, revision %d restored", a.ago(v.At), v.Revision)
		if v.HashChecked {
			text += " with the right hash" + atOlder(v.HashRevision, v.Revision)
		}
		if v.Booted != "" {
			text += ", etcd " + v.Booted + " started on it"
		}
	}
	if t := b.Trouble("verify"); t != nil {
		text, style = text+"; failed: "+t.Message, term.Yellow
	}
	if !b.NextVerify.IsZero() {
		text += ", next " + a.due(b.NextVerify)
	}
	return term.Styled(style, text)
}
