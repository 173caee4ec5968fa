package clusterfile

import (
	"fmt"
	"strings"
	"time"

	"filippo.io/age"

	"cke"
)

func checkPolicies(f *findings, p string, s cke.Policies) {
	enum(f, p+".reconcile", s.Reconcile, cke.ReconcileAuto, cke.ReconcileManual, cke.ReconcileWindow)
	enum(f, p+".foreign", s.Foreign, cke.ForeignHold, cke.ForeignRemove)
	enum(f, p+".replace.mode", s.Replace.Mode, cke.ReplaceAuto, cke.ReplaceManual)
	enum(f, p+".volumes.on_removal", s.Volumes.OnRemoval, cke.VolumeRetain, cke.VolumeArchive, cke.VolumeDelete)
	checkWindow(f, p, s)
	notZero(f, p+".replace.grace", s.Replace.Grace, "which means 10m", "Write 1s to replace at once.")
	notZero(f, p+".volumes.keep", s.Volumes.Keep, "which means 168h", "To keep nothing, write on_removal: delete.")
}

// checkRemoval warns where data of former members would go with nothing to bring it back from.
func checkRemoval(f *findings, c cke.Cluster) {
	if c.Policies.Volumes.OnRemoval == cke.VolumeDelete && c.Backup.Target == "" {
		f.warn("policies.volumes.on_removal", "a former member's volume is removed as soon as the others serve, and no backups are declared to restore from", "Write archive, which keeps volumes for a time, or declare a backup target: then a volume is removed once a fresh backup is verified.")
	}
}

// checkWindow checks that a window is whole, and that it is used.
func checkWindow(f *findings, p string, s cke.Policies) {
	w, at := s.Window, p+".window"
	if s.Reconcile != cke.ReconcileWindow {
		if w != (cke.Window{}) && !f.isFaulty(p+".reconcile") {
			f.fault(at, "has no effect without reconcile: window", "Set reconcile: window in policies, or remove the window.")
		}
		return
	}
	checkOpening(f, at, w, "nothing would ever be changed")
}

// checkOpening checks that a window is whole; never is what it would mean otherwise.
func checkOpening(f *findings, at string, w cke.Window, never string) {
	if w.Schedule == "" && w.Duration == 0 {
		f.fault(at, "is missing: "+never, "Say when changes are allowed, as window: {schedule: \"0 2 * * 6\", duration: 2h}.")
	}
	if w.Schedule == "" {
		f.fault(at+".schedule", "is missing: "+never, "Say when the window opens, as schedule: \"0 2 * * 6\".")
	}
	switch {
	case w.Duration == 0:
		f.fault(at+".duration", "is missing or zero: "+never, "Say how long the window stays open, as duration: 2h.")
	case w.Duration < cke.Duration(time.Minute):
		f.fault(at+".duration", fmt.Sprintf("%s is too short for one change", w.Duration), "Write at least 1m.")
	}
	checkSchedule(f, at, w.Schedule, w.TimeZone)
}

func checkBackup(f *findings, p string, b cke.Backup) {
	if b.Target == "" {
		for _, part := range []struct {
			key string
			set bool
		}{
			{"full", b.Full != cke.BackupSchedule{}}, {"delta", b.Delta != cke.BackupDelta{}}, {"retention", b.Retention != cke.Retention{}},
			{"compaction", b.Compaction != cke.BackupCompaction{}}, {"verify", b.Verify != cke.BackupSchedule{}}, {"encryption", len(b.Encryption.Recipients) > 0},
		} {
			if part.set {
				f.fault(p+".target", fmt.Sprintf("is missing: there is %s, but nowhere to put a backup", part.key), "Say where backups go, as target: s3://bucket/prefix, or remove the backup section.")
				break
			}
		}
	} else {
		checkTarget(f, p+".target", b.Target)
	}
	checkSchedule(f, p+".full", b.Full.Schedule, b.Full.TimeZone)
	checkSchedule(f, p+".verify", b.Verify.Schedule, b.Verify.TimeZone)
	zoneNeedsSchedule(f, p+".full", b.Full)
	checkSchedule(f, p+".compaction", b.Compaction.Schedule, b.Compaction.TimeZone)
	zoneNeedsSchedule(f, p+".verify", b.Verify)
	zoneNeedsSchedule(f, p+".compaction", b.Compaction.When())
	notZero(f, p+".delta.period", b.Delta.Period, "which means 10s", "Write a duration, as 10s.")
	notZero(f, p+".delta.size", b.Delta.Size, "which means 10MiB", "Write a size, as 10MiB.")
	if d := b.Delta.Period; d > 0 && d < cke.Duration(time.Second) {
		f.fault(p+".delta.period", fmt.Sprintf("%s is too short: each delta is an object of its own", d), "Write 1s or more; 10s is usual.")
	}
	r := b.Retention
	for _, n := range []struct {
		key   string
		value int64
	}{
		{"retention.last", int64(r.Last)}, {"retention.hourly", int64(r.Hourly)}, {"retention.daily", int64(r.Daily)},
		{"retention.weekly", int64(r.Weekly)}, {"retention.monthly", int64(r.Monthly)}, {"compaction.events", b.Compaction.Events},
	} {
		if n.value < 0 {
			f.fault(p+"."+n.key, fmt.Sprintf("%d is negative", n.value), "Write a number that is not negative.")
		}
	}
	checkAges(f, p+".retention", r)
	notZero(f, p+".compaction.size", b.Compaction.Size, "which means no limit", "Write a size, as 1GiB.")
	for i, s := range b.Encryption.Recipients {
		checkRecipient(f, itemPath(p+".encryption.recipients", i), s)
	}
}

// checkAges checks the rules of a retention that go by age.
func checkAges(f *findings, at string, r cke.Retention) {
	notZero(f, at+".within", r.Within, "which means no such rule", "Write a duration, as 72h.")
	notZero(f, at+".max_age", r.MaxAge, "which means no limit", "Write a duration, as 2160h.")
	if r.MaxAge > 0 && r.MaxAge < cke.Duration(time.Hour) {
		f.fault(at+".max_age", fmt.Sprintf("%s is too short: a mistake would be in every backup before it is noticed", r.MaxAge.Short()), "Write 1h or more; weeks are usual.")
	}
	if r.MaxAge > 0 && r.Within > r.MaxAge {
		f.fault(at+".within", fmt.Sprintf("%s is longer than max_age, %s, which would delete what it keeps", r.Within.Short(), r.MaxAge.Short()), "Write a shorter one, or raise max_age.")
	}
}

func zoneNeedsSchedule(f *findings, at string, s cke.BackupSchedule) {
	if s.TimeZone != "" && s.Schedule == "" {
		f.fault(at+".schedule", "is missing: a time zone alone has no effect", "Write schedule: \"0 * * * *\", or remove the time zone.")
	}
}

// checkTarget checks the URL of a backup target without access to it.
func checkTarget(f *findings, at, s string) {
	_, faults := cke.ParseTarget(s)
	for _, fault := range faults {
		f.fault(at, fault.What, fault.Remedy)
	}
}

func checkRecipient(f *findings, at, s string) {
	const remedy = "Write the public key, as age-keygen prints it: age1…"
	if strings.Contains(strings.ToUpper(s), "AGE-") {
		f.fault(at, "is a private key, want the public one", remedy+" All who have read this file can read the backups: make a new key.")
		return
	}
	recipients, err := age.ParseRecipients(strings.NewReader(s))
	if err != nil || len(recipients) != 1 || strings.TrimSpace(s) != s {
		f.fault(at, fmt.Sprintf("invalid age recipient %q", shorten(s)), remedy)
	}
}

// enum checks a word that may be left out.
func enum[T ~string](f *findings, at string, value T, words ...T) {
	if value == "" {
		return
	}
	var list []string
	for _, w := range words {
		list = append(list, string(w))
	}
	oneOf(f, at, string(value), list...)
}

// notZero refuses a zero that was written down, because it could not be told from a value that was left out.
func notZero[T ~int64](f *findings, at string, value T, meaning, remedy string) {
	if value == 0 && f.given(at) {
		f.fault(at, "zero cannot be distinguished from a value that is left out, "+meaning, remedy)
	}
}
