package cke

import (
	"context"
	"slices"
	"time"
)

// DefaultCompactionEvents is how many changes in deltas lead to a merge with their full when the file does not say.
const DefaultCompactionEvents = 1_000_000

// Backups takes and tends the backups of one cluster, beside everything else. No call waits longer than its context.
// An *Error with CodeNotBackedUp says that there is no target, or why no backups are taken now.
type Backups interface {
	// Full takes a full that begins after the call and returns once it is stored.
	Full(ctx context.Context) (StoredBackup, error)
	// Flush stores all changes made before the call and returns once they are stored. When there were none, the
	// result has no ID.
	Flush(ctx context.Context) (StoredBackup, error)
	// Status tells how the backups stand; it never waits. nil: the cluster has no target, or nothing is known yet.
	Status() *BackupStatus
}

// BackupWanted is what a leader wants of the backups of its cluster.
type BackupWanted struct {
	// Spec is as it is stored.
	Spec     Spec
	Identity Identity
	// Idle is why no backups are to be taken now; empty: they are.
	Idle string
	// Clock is why the clock of this host cannot be trusted, and nothing is deleted for its age; empty: it can.
	Clock string
	// TargetID is what the target is known by since it was used first; empty: it was not, as far as is known.
	TargetID string
}

// StoredBackup is one object in a target.
type StoredBackup struct {
	Kind string `json:"kind"` // full or delta
	// ID is what a person calls a full by, LINEAGE/REVISION-TIME, or a delta's name.
	ID string `json:"id,omitempty"`
	// Revision is the newest one that it leads to.
	Revision int64     `json:"revision"`
	Size     int64     `json:"size"` // bytes
	At       time.Time `json:"at"`
}

// BackupStatus is how the backups of a cluster stand.
type BackupStatus struct {
	Target string `json:"target"`
	// TargetID is the id of the marker that the target has since it was used first; empty: it was not.
	TargetID string `json:"targetID,omitempty"`
	// Lineage is the incarnation that is backed up.
	Lineage string `json:"lineage,omitempty"`
	// Idle is why no backups are taken now; empty: they are.
	Idle string `json:"idle,omitempty"`
	// Known: the target has been read; before that all figures are zero.
	Known bool `json:"known"`

	// Full is the newest full; its zero value: there is none.
	Full     StoredBackup `json:"full,omitzero"`
	NextFull time.Time    `json:"nextFull,omitzero"`
	// Revision is the newest one that can be restored, and Time when it was received.
	Revision int64     `json:"revision"`
	Time     time.Time `json:"time,omitzero"`
	// Connected: a full and an unbroken run of deltas lead to Revision.
	Connected bool `json:"connected"`
	// LagRevisions and Lag (seconds) are how far the target is behind what was received from etcd, Buffered the bytes
	// that wait for it.
	LagRevisions int64   `json:"lagRevisions"`
	Lag          float64 `json:"lag"`
	// LagMost (seconds) is how long changes may have waited that were not stored when this daemon began with the backups; 0: none wait.
	LagMost  float64 `json:"lagMost,omitempty"`
	Buffered int64   `json:"buffered"`

	// Verified is the last restore to scratch that came out right; nil: there was none.
	Verified   *VerifiedBackup `json:"verified,omitempty"`
	NextVerify time.Time       `json:"nextVerify,omitzero"`

	// Problem is why backups are not taken or not stored; nil: nothing is known to be wrong.
	Problem *BackupTrouble `json:"problem,omitempty"`
	// Troubles are of work beside that, by its name: beside, prune, compact, verify.
	Troubles []BackupTrouble `json:"troubles,omitempty"`
}

// BackupTarget is what a target is known by since it was used first.
type BackupTarget struct {
	URL string `json:"url"`
	ID  string `json:"id"` // of its marker
}

// keptTargets is how many targets a status names at the most.
const keptTargets = 16

// TargetID is the id of the marker of the target at a URL; empty: it was not used, as far as is known.
func (s Status) TargetID(url string) string {
	for _, t := range s.KnownTargets(nil) {
		if t.URL == url {
			return t.ID
		}
	}
	return ""
}

// KnownTargets are the targets that a status knows, and the one of now, in the order in which they were used last. A target stays known
// while the cluster file names another one or none: what lies at its URL later may be a directory over which nothing is mounted.
func (s Status) KnownTargets(now *BackupStatus) []BackupTarget {
	all := slices.Clone(s.Targets)
	for _, b := range []*BackupStatus{s.Backup, now} { // earlier versions stored no others than that of Backup
		if b == nil || b.Target == "" || b.TargetID == "" {
			continue
		}
		all = slices.DeleteFunc(all, func(t BackupTarget) bool { return t.URL == b.Target })
		all = append(all, BackupTarget{URL: b.Target, ID: b.TargetID})
	}
	return all[max(0, len(all)-keptTargets):]
}

// BackupTrouble is something about backups that failed, and is tried again.
type BackupTrouble struct {
	Work    string    `json:"work"`
	Code    Code      `json:"code"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// VerifiedBackup is a restore to scratch that came out right.
type VerifiedBackup struct {
	Revision int64     `json:"revision"`
	At       time.Time `json:"at"`
	// HashChecked: etcd's own hash was equal, of the revision or of the newest before that has one.
	HashChecked bool `json:"hashChecked"`
	// HashRevision is the revision of that hash; 0: not recorded by an earlier version, or no hash was compared.
	HashRevision int64 `json:"hashRevision,omitempty"`
	// Booted is the version of an etcd that started on it and answered; empty: none did.
	Booted string `json:"booted,omitempty"`
	// NotBooted says why none did; empty also if it was found right by an earlier daemon.
	NotBooted string `json:"notBooted,omitempty"`
}

// Holds reports whether backups of the first of these lineages are known to have been stored.
func (s *BackupStatus) Holds(lineages []string) bool {
	return s != nil && len(lineages) > 0 && s.Lineage == lineages[0] && s.Revision > 0
}

// Trouble returns the trouble of one kind of work; nil: there is none.
func (s *BackupStatus) Trouble(work string) *BackupTrouble {
	for i := range s.Troubles {
		if s.Troubles[i].Work == work {
			return &s.Troubles[i]
		}
	}
	return nil
}

// FreshBackup is how far the target may be behind for a change that ought to be preceded by a backup, and cannot have one.
const FreshBackup = 10 * time.Minute

// Stale is why the backups are not good enough to change the cluster's version or to stop it; "" when they are: all that
// the cluster held a short time ago can be restored.
func (s *BackupStatus) Stale(now time.Time) string {
	switch {
	case !s.Known:
		return "the target could not be read yet"
	case s.Full.Revision == 0:
		return "there is no full backup yet"
	case !s.Connected:
		return "changes are missing after the newest full backup"
	case s.Problem != nil && now.Sub(s.Problem.Since) > FreshBackup:
		return "backups have failed since " + s.Problem.Since.UTC().Format(time.RFC3339)
	case s.Lag > FreshBackup.Seconds():
		return "changes have not been stored for " + (time.Duration(s.Lag) * time.Second).String()
	case s.LagMost > FreshBackup.Seconds():
		return "changes may not have been stored for " + (time.Duration(s.LagMost) * time.Second).String()
	}
	return ""
}
