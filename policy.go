package cke

import (
	"cmp"
	"time"
)

// ReconcileMode says when the daemon may change a running cluster.
type ReconcileMode string

// Reconcile modes. Observation, bootstrap, deletion and safety stops are never gated.
const (
	ReconcileAuto   ReconcileMode = "auto"
	ReconcileManual ReconcileMode = "manual"
	ReconcileWindow ReconcileMode = "window"
)

// ForeignPolicy is what happens to foreign members on no declared node.
type ForeignPolicy string

// Foreign policies.
const (
	ForeignHold   ForeignPolicy = "hold"
	ForeignRemove ForeignPolicy = "remove"
)

// ReplaceMode is whether a member whose data is provably lost is replaced without consent.
type ReplaceMode string

// Replace modes.
const (
	ReplaceAuto   ReplaceMode = "auto"
	ReplaceManual ReplaceMode = "manual"
)

// VolumePolicy is what happens to the volume of an ended membership.
type VolumePolicy string

// Volume policies.
const (
	VolumeRetain  VolumePolicy = "retain"
	VolumeArchive VolumePolicy = "archive"
	VolumeDelete  VolumePolicy = "delete"
)

// Policies bound what the daemon does without consent.
type Policies struct {
	Reconcile ReconcileMode  `yaml:"reconcile,omitempty" json:"reconcile,omitempty" jsonschema:"enum=auto,enum=manual,enum=window"`
	Window    Window         `yaml:"window,omitempty" json:"window,omitzero"`
	Foreign   ForeignPolicy  `yaml:"foreign,omitempty" json:"foreign,omitempty" jsonschema:"enum=hold,enum=remove"`
	Replace   ReplacePolicy  `yaml:"replace,omitempty" json:"replace,omitzero"`
	Volumes   VolumePolicies `yaml:"volumes,omitempty" json:"volumes,omitzero"`
}

// Window is a recurring time in which changes are allowed; it needs reconcile: window.
type Window struct {
	Schedule string   `yaml:"schedule,omitempty" json:"schedule,omitempty"` // cron, five fields
	Duration Duration `yaml:"duration,omitempty" json:"duration,omitempty"`
	TimeZone string   `yaml:"time_zone,omitempty" json:"time_zone,omitempty"` // IANA name
}

// ReplacePolicy is about members whose data is provably lost.
type ReplacePolicy struct {
	Mode  ReplaceMode `yaml:"mode,omitempty" json:"mode,omitempty" jsonschema:"enum=auto,enum=manual"`
	Grace Duration    `yaml:"grace,omitempty" json:"grace,omitempty"`
}

// VolumePolicies are about volumes of ended memberships.
type VolumePolicies struct {
	OnRemoval VolumePolicy `yaml:"on_removal,omitempty" json:"on_removal,omitempty" jsonschema:"enum=retain,enum=archive,enum=delete"`
	Keep      Duration     `yaml:"keep,omitempty" json:"keep,omitempty"`
}

// KeepUntil returns when the volume of a membership that ended at a time may be removed; zero: it is kept until the
// operator purges it.
func (p VolumePolicies) KeepUntil(ended time.Time) time.Time {
	switch p.OnRemoval {
	case VolumeArchive:
		return ended.Add(time.Duration(p.Keep))
	case VolumeDelete:
		return ended
	}
	return time.Time{}
}

// Backup is where backups go and how often they are taken. The zero value means no backups.
type Backup struct {
	Target     string           `yaml:"target,omitempty" json:"target,omitempty"`
	Full       BackupSchedule   `yaml:"full,omitempty" json:"full,omitzero"`
	Delta      BackupDelta      `yaml:"delta,omitempty" json:"delta,omitzero"`
	Retention  Retention        `yaml:"retention,omitempty" json:"retention,omitzero"`
	Compaction BackupCompaction `yaml:"compaction,omitempty" json:"compaction,omitzero"`
	Verify     BackupSchedule   `yaml:"verify,omitempty" json:"verify,omitzero"`
	Encryption Encryption       `yaml:"encryption,omitempty" json:"encryption,omitzero"`
}

// BackupSchedule is a cron schedule of five fields in a time zone (IANA name; default UTC).
type BackupSchedule struct {
	Schedule string `yaml:"schedule,omitempty" json:"schedule,omitempty"`
	TimeZone string `yaml:"time_zone,omitempty" json:"time_zone,omitempty"`
}

// BackupDelta bounds what one delta object holds: the bound that is reached first.
type BackupDelta struct {
	Period Duration `yaml:"period,omitempty" json:"period,omitempty"`
	Size   Size     `yaml:"size,omitempty" json:"size,omitempty"`
}

// Retention is which backups to keep, by count and by age.
type Retention struct {
	Last    int `yaml:"last,omitempty" json:"last,omitempty"`
	Hourly  int `yaml:"hourly,omitempty" json:"hourly,omitempty"`
	Daily   int `yaml:"daily,omitempty" json:"daily,omitempty"`
	Weekly  int `yaml:"weekly,omitempty" json:"weekly,omitempty"`
	Monthly int `yaml:"monthly,omitempty" json:"monthly,omitempty"`
	// Within keeps all that is needed to restore any revision of a time of this length before now.
	Within Duration `yaml:"within,omitempty" json:"within,omitempty"`
	// MaxAge limits the other rules; alone it is the only rule: everything younger is kept.
	MaxAge Duration `yaml:"max_age,omitempty" json:"max_age,omitempty"`
}

// BackupCompaction merges a full and its deltas once these have this many events, or bytes in the target, or at a
// time of the schedule (cron, in a time zone, default UTC): at the first of these.
type BackupCompaction struct {
	Events   int64  `yaml:"events,omitempty" json:"events,omitempty"`
	Size     Size   `yaml:"size,omitempty" json:"size,omitempty"`
	Schedule string `yaml:"schedule,omitempty" json:"schedule,omitempty"`
	TimeZone string `yaml:"time_zone,omitempty" json:"time_zone,omitempty"`
}

// When returns its schedule.
func (c BackupCompaction) When() BackupSchedule { return BackupSchedule{c.Schedule, c.TimeZone} }

// Encryption names the age recipients of backups; none means no encryption.
type Encryption struct {
	Recipients []string `yaml:"recipients,omitempty" json:"recipients,omitempty"`
}

func (p Policies) withDefaults() Policies {
	p.Reconcile = cmp.Or(p.Reconcile, ReconcileAuto)
	p.Foreign = cmp.Or(p.Foreign, ForeignHold)
	p.Replace.Mode = cmp.Or(p.Replace.Mode, ReplaceAuto)
	p.Replace.Grace = cmp.Or(p.Replace.Grace, Duration(10*time.Minute))
	p.Volumes.OnRemoval = cmp.Or(p.Volumes.OnRemoval, VolumeArchive)
	p.Volumes.Keep = cmp.Or(p.Volumes.Keep, Duration(168*time.Hour))
	return p
}
