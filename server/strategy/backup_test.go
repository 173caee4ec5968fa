package strategy_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
	"cke/server/strategy/scenes"
)

// backed is a formed cluster of three whose backups are as they should be.
func backed(change func(s *scene, b *cke.BackupStatus)) *scene {
	return formed(3).running().with(func(s *scene) {
		s.Spec.Backup.Target = "file:///b"
		s.Backup = scenes.SoundBackups()
		change(s, s.Backup)
	})
}

// Requirement D14: ready while all that the cluster held a moment ago can be restored.
func TestReport_BackupReady(t *testing.T) {
	for name, row := range map[string]struct {
		scene *scene
		want  string // "Status Reason"
		says  string
	}{
		"sound": {backed(func(*scene, *cke.BackupStatus) {}), "True UpToDate", "no restore has been tried"},
		"sound and verified": {backed(func(_ *scene, b *cke.BackupStatus) {
			b.Verified = &cke.VerifiedBackup{Revision: 90, At: noon.Add(-time.Minute), HashChecked: true}
		}), "True UpToDate", "last verified at 2026-05-01T11:59:00Z"},
		"no target":        {formed(3), "False NotConfigured", "no backup target"},
		"not looked yet":   {backed(func(s *scene, _ *cke.BackupStatus) { s.Backup = nil }), "Unknown NotSeen", "not been read"},
		"not read yet":     {backed(func(_ *scene, b *cke.BackupStatus) { *b = cke.BackupStatus{Target: b.Target} }), "Unknown NotSeen", "not been read"},
		"no full yet":      {backed(func(_ *scene, b *cke.BackupStatus) { b.Full = cke.StoredBackup{} }), "False NoFull", "no full"},
		"a gap":            {backed(func(_ *scene, b *cke.BackupStatus) { b.Connected = false }), "False Gap", "missing"},
		"idle":             {backed(func(_ *scene, b *cke.BackupStatus) { b.Idle = "frozen: two clusters" }), "False Suspended", "two clusters"},
		"target fails":     {backed(failing(cke.CodeTarget)), "False Failing", "no space left"},
		"another history":  {backed(failing(cke.CodeOtherHistory)), "False OtherHistory", "no space left"},
		"changes are gone": {backed(failing(cke.CodeStaleBackup)), "False Gap", "no space left"},
		"target unread": {backed(func(s *scene, b *cke.BackupStatus) {
			b.Known = false
			failing(cke.CodeTarget)(s, b)
		}), "False Failing", "no space left"},
		"a little late": {backed(func(_ *scene, b *cke.BackupStatus) { b.Lag = 59 }), "True UpToDate", ""},
		"too late":      {backed(func(_ *scene, b *cke.BackupStatus) { b.Lag = 61 }), "False Lagging", "more than 1m0s"},
		"long period": {backed(func(s *scene, b *cke.BackupStatus) {
			b.Lag = 61
			s.Spec.Backup.Delta.Period = cke.Duration(time.Minute)
		}), "True UpToDate", ""},
		"drill failed":   {backed(trouble("verify", cke.CodeBackupDamaged)), "False NotVerified", "hash differs"},
		"prune failed":   {backed(trouble("prune", cke.CodeTarget)), "True UpToDate", ""},
		"members silent": {backed(func(s *scene, _ *cke.BackupStatus) { s.silent(3) }), "True UpToDate", ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := row.scene.Input
			s := strategy.Report(in, strategy.Decide(in), cke.Status{})
			c, _ := s.Condition(cke.CondBackupReady)
			if got := condition(s, cke.CondBackupReady); got != row.want || !strings.Contains(c.Message, row.says) {
				t.Errorf("%s: %s", got, c.Message)
			}
		})
	}
}

func failing(code cke.Code) func(*scene, *cke.BackupStatus) {
	return func(_ *scene, b *cke.BackupStatus) {
		b.Problem = &cke.BackupTrouble{Work: "take", Code: code, Message: "no space left on device", Since: noon.Add(-time.Minute)}
	}
}

func trouble(work string, code cke.Code) func(*scene, *cke.BackupStatus) {
	return func(_ *scene, b *cke.BackupStatus) {
		b.Troubles = []cke.BackupTrouble{{Work: work, Code: code, Message: "hash differs", Since: noon.Add(-time.Minute)}}
	}
}

func TestReport_NamesWhatIsWrongWithBackupsAndKeepsTheClusterReady(t *testing.T) {
	in := backed(failing(cke.CodeTarget)).Input
	s := strategy.Report(in, strategy.Decide(in), cke.Status{})
	if s.Health != cke.HealthReady {
		t.Errorf("health %s", s.Health)
	}
	if len(s.Problems) != 1 || s.Problems[0].Code != cke.CodeTarget || s.Problems[0].Remedy == "" || !s.Problems[0].Since.Equal(noon.Add(-time.Minute)) {
		t.Errorf("%+v", s.Problems)
	}
}

func TestDecide_TakesABackupThatWasAskedForWhenNothingElseIsToBeDone(t *testing.T) {
	ask := func(s *scene) { s.Requests.Tasks = []cke.Task{scenes.Asked(cke.TaskBackup, "")} }
	for name, row := range map[string]struct {
		scene *scene
		want  op.Operation
	}{
		"all is well":         {formed(3).running().with(ask), op.Backup{}},
		"a delta":             {formed(3).running().with(func(s *scene) { s.Requests.Tasks = []cke.Task{scenes.Asked(cke.TaskBackup, "delta")} }), op.Backup{Delta: true}},
		"paused":              {formed(3).running().with(ask).with(func(s *scene) { s.Requests.Hold = &cke.Hold{Reason: "switch"} }), op.Backup{}},
		"a node is silent":    {formed(3).running().silent(3).with(ask), op.Backup{}},
		"no quorum":           {formed(3).running().silent(2, 3).lost().with(ask), op.Backup{}},
		"a member is stopped": {formed(3).running().stopped(3).with(ask), nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := strategy.Decide(row.scene.Input)
			if row.want == nil {
				if _, is := d.Operation.(op.Backup); is || d.Operation == nil || d.Task != "" {
					t.Errorf("%+v", d)
				}
				return
			}
			if d.Operation != row.want || d.Task != "t1" || !strings.Contains(d.Reason, "ops@boot-1") {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestDecide_AnotherVersionNeedsAFreshBackup(t *testing.T) {
	upgrade := func(change func(s *scene, b *cke.BackupStatus)) *scene {
		return backed(func(s *scene, b *cke.BackupStatus) {
			s.Spec.Options.Etcd.Version, s.Spec.Options.Etcd.Image = "3.6.99", "etcd:3.6.99"
			change(s, b)
		})
	}
	for name, row := range map[string]struct {
		scene  *scene
		acts   bool
		backup bool
	}{
		"fresh":                {upgrade(func(*scene, *cke.BackupStatus) {}), true, true},
		"fails since a minute": {upgrade(failing(cke.CodeTarget)), true, true},
		"fails for long": {upgrade(func(_ *scene, b *cke.BackupStatus) {
			b.Problem = &cke.BackupTrouble{Code: cke.CodeTarget, Since: noon.Add(-time.Hour)}
		}), false, false},
		"late":         {upgrade(func(_ *scene, b *cke.BackupStatus) { b.Lag = 3600 }), false, false},
		"no full":      {upgrade(func(_ *scene, b *cke.BackupStatus) { b.Full = cke.StoredBackup{} }), false, false},
		"not seen yet": {upgrade(func(s *scene, _ *cke.BackupStatus) { s.Backup = nil }), false, false},
		"no target":    {upgrade(func(s *scene, _ *cke.BackupStatus) { s.Spec.Backup.Target, s.Backup = "", nil }), true, true},
		"halfway": {upgrade(func(s *scene, b *cke.BackupStatus) {
			b.Connected = false
			s.Identity.Joins[1].Etcd.Version, s.Identity.Joins[1].Etcd.Image = "3.6.99", "etcd:3.6.99"
		}), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := strategy.Decide(row.scene.Input)
			r, acts := d.Operation.(op.RestartMember)
			if acts != row.acts || r.Backup != row.backup {
				t.Fatalf("%+v", d)
			}
			if !acts && (!strings.Contains(d.Reason, "fresh backup") || d.Blockers[0].Code != cke.CodeStaleBackup) {
				t.Errorf("%s %+v", d.Reason, d.Blockers)
			}
		})
	}
}
