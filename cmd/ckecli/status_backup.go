package main

import (
	"cke"
	"cke/internal/term"
	"cke/internal/words"
)

// backupFacts are the lines about backups. A status of an older daemon shows nothing of them.
func (a *app) backupFacts(l *term.Labels, s cke.Status) {
	text, bad := words.Backup(a.now(), s)
	if text == "" {
		return
	}
	l.Add("Backup", term.Styled(warned(bad), text))
	if b := s.Backup; b != nil && b.Known {
		drill, failed := words.Drill(a.now(), b)
		l.Add("Drill", term.Styled(warned(failed), drill))
	}
}

func warned(bad bool) term.Style {
	if bad {
		return term.Yellow
	}
	return term.Plain
}
