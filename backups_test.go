package cke_test

import (
	"testing"
	"time"

	"cke"
)

// A new leader daemon, or new settings, see each problem as one of now, and no change that waits. What the cluster was not compared
// with is as old as the newest change in it.
func TestStale_ANewLeaderTakesNoOldBackupForFresh(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		change func(s *cke.BackupStatus)
		stale  bool
	}{
		"compared": {func(s *cke.BackupStatus) { s.Time = now.AddDate(0, -1, 0) }, false}, // nothing was written since
		"compared, with a problem of now": {func(s *cke.BackupStatus) {
			s.Problem = &cke.BackupTrouble{Code: cke.CodeTarget, Since: now}
		}, false},
		"not compared, of now":      {func(s *cke.BackupStatus) { s.Resuming = true }, false},
		"not compared, old":         {func(s *cke.BackupStatus) { s.Resuming, s.Time = true, now.Add(-cke.FreshBackup-time.Second) }, true},
		"not compared, of no time":  {func(s *cke.BackupStatus) { s.Resuming, s.Time = true, time.Time{} }, true},
		"not compared, dated ahead": {func(s *cke.BackupStatus) { s.Resuming, s.Time = true, now.Add(time.Hour) }, true},
		"of another history":        {func(s *cke.BackupStatus) { s.Problem = &cke.BackupTrouble{Code: cke.CodeOtherHistory, Since: now} }, true},
		"backups are missing":       {func(s *cke.BackupStatus) { s.Problem = &cke.BackupTrouble{Code: cke.CodeLostBackups, Since: now} }, true},
		"in another target":         {func(s *cke.BackupStatus) { s.Problem = &cke.BackupTrouble{Code: cke.CodeOtherTarget, Since: now} }, true},
	} {
		s := &cke.BackupStatus{Known: true, Connected: true, Full: cke.StoredBackup{Revision: 7}, Revision: 9, Time: now}
		c.change(s)
		if why := s.Stale(now); (why != "") != c.stale {
			t.Errorf("%s: %q", name, why)
		}
	}
}
