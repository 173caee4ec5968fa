package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/internal/golden"
)

func TestBackupNow_TellsWhatWasStored(t *testing.T) {
	full := cke.StoredBackup{Kind: "full", ID: "a1b2/7-20261120T120000.000Z", Revision: 7, Size: 12_000_000}
	for name, row := range map[string]struct {
		args    []string
		subject string
		stored  cke.StoredBackup
		says    string
	}{
		"full":         {nil, "", full, "a1b2/7-20261120T120000.000Z  revision 7, 12MB, in "},
		"delta":        {[]string{"--delta"}, "delta", cke.StoredBackup{Kind: "delta", ID: "prod/a1b2/delta/x.cke", Revision: 9, Size: 400}, "changes up to revision 9 are stored, 400B, in "},
		"no change":    {[]string{"--delta"}, "delta", cke.StoredBackup{Kind: "delta", Revision: 9}, "nothing has changed since revision 9; all of it is stored\n"},
		"for programs": {[]string{"-o", "json"}, "", full, `"revision": 7`},
	} {
		t.Run(name, func(t *testing.T) {
			h := declared(t)
			l := h.lead("prod")
			l.status(ready(1))
			now := h.start(append([]string{"backup", "now"}, row.args...)...)
			task := h.awaitTask()
			if task.Kind != cke.TaskBackup || task.Subject != row.subject {
				t.Errorf("%+v", task)
			}
			r := l.begin(cke.Record{Operation: "backup", Reason: "asked for", Task: task.ID, Backup: &row.stored})
			l.end(r)
			l.finish(task)
			now.must(exitDone)
			contains(t, now.stdout.String(), row.says)
			if name == "for programs" {
				var d backupDone
				if err := json.Unmarshal([]byte(now.stdout.String()), &d); err != nil || d.Backup == nil || *d.Backup != full || d.Record != r.ID {
					t.Errorf("%+v %v", d, err)
				}
			}
		})
	}
}

// While a backup waits, the command says for what, why, and the way out.
func TestBackupNow_TellsWhatItWaitsFor(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	l.status(ready(1))
	now := h.start("backup", "now")
	task := h.awaitTask()
	r := l.begin(cke.Record{Operation: "backup", Reason: "asked for", Task: task.ID})
	now.stderr.await(t, "asked for") // records and statuses arrive in no order
	s := ready(1)
	s.Operation = &cke.OperationStatus{ID: r.ID, Type: r.Operation, State: cke.RecordRunning}
	s.Backup = &cke.BackupStatus{Problem: &cke.BackupTrouble{Work: "take", Code: cke.CodeTarget, Message: "nothing can be written to the target"}}
	s.Problems = []cke.Problem{
		{Code: cke.CodeTarget, Message: "backups: nothing can be written to the target", Remedy: "make room"},
		{Code: cke.CodeMemberSilent, Node: "cp1", Message: "it does not answer"},
	}
	l.status(s)
	now.stderr.await(t, "nothing can be written to the target")
	now.stderr.await(t, "make room")
	s.Backup, s.Problems = &cke.BackupStatus{}, s.Problems[1:]
	l.status(s)
	now.stderr.await(t, "no longer: ")
	l.end(r)
	l.finish(task)
	now.must(exitDone)
	if strings.Contains(now.stderr.String(), "it does not answer") {
		t.Errorf("a backup does not wait for members:\n%s", now.stderr.String())
	}
}

func TestStatus_RendersBackups(t *testing.T) {
	sound := func() *cke.BackupStatus {
		return &cke.BackupStatus{Known: true, Connected: true, Revision: 1300,
			Full: cke.StoredBackup{Kind: "full", ID: "a1b2/1", Revision: 1234, At: noon.Add(-12 * time.Minute)}, NextFull: noon.Add(48 * time.Minute),
			Verified: &cke.VerifiedBackup{Revision: 998, At: noon.Add(-9 * time.Hour), HashChecked: true}, NextVerify: noon.Add(15 * time.Hour)}
	}
	ready := cke.Condition{Type: cke.CondBackupReady, Status: cke.True, Reason: "UpToDate", Message: "a full and all changes since are stored"}
	for name, row := range map[string]struct {
		change    func(b *cke.BackupStatus)
		condition cke.Condition
	}{
		"sound": {func(*cke.BackupStatus) {}, ready},
		"behind": {func(b *cke.BackupStatus) {
			b.LagRevisions, b.Lag, b.NextFull, b.Verified = 40, 75, noon.Add(-time.Second), nil
		}, cke.Condition{Type: cke.CondBackupReady, Status: cke.False, Reason: "Lagging", Message: "changes have not been stored for more than 1m0s"}},
		"behind-by-one": {func(b *cke.BackupStatus) { b.LagRevisions, b.Lag = 1, 2 }, ready},
		"drill-failed": {func(b *cke.BackupStatus) {
			b.Troubles = []cke.BackupTrouble{{Work: "verify", Code: cke.CodeBackupDamaged, Message: "the data at revision 7 has hash 1"}}
		}, cke.Condition{Type: cke.CondBackupReady, Status: cke.False, Reason: "NotVerified", Message: "the last restore to scratch failed"}},
		"unread": {func(b *cke.BackupStatus) { b.Known = false },
			cke.Condition{Type: cke.CondBackupReady, Status: cke.False, Reason: "Failing", Message: "the target cannot be listed"}},
		"none": {nil, cke.Condition{Type: cke.CondBackupReady, Status: cke.False, Reason: "NotConfigured", Message: "the cluster file declares no backup target"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := degraded()
			s.Problems, s.Conditions = nil, append(s.Conditions, row.condition)
			if row.change != nil {
				s.Backup = sound()
				row.change(s.Backup)
			}
			var b bytes.Buffer
			if err := renderer().renderStatus(&b, screen{status: s, revision: 41, led: true}, false, false); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "testdata/status/backup-"+name+".txt", b.String())
		})
	}
}
