package cke

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// DefaultCompactionEvents is how many changes in deltas trigger a merge with their full if the file does not set it.
const DefaultCompactionEvents = 1_000_000

// Backups takes and maintains the backups of one cluster, concurrently with everything else. No call waits longer
// than its context. An *Error with CodeNotBackedUp says that there is no target (ErrNoTarget), or why no backups are taken
// now.
type Backups interface {
	// Full takes a full that starts after the call and returns once it is stored.
	Full(ctx context.Context) (StoredBackup, error)
	// Flush stores all changes made before the call and returns once they are stored. Without changes the result has no
	// ID.
	Flush(ctx context.Context) (StoredBackup, error)
	// Status returns the status of the backups; it never waits. nil: the cluster has no target, or nothing is known yet.
	Status() *BackupStatus
}

// BackupWanted is what a leader daemon requires of the backups of its cluster.
type BackupWanted struct {
	// Spec is the stored revision of the cluster file.
	Spec     Spec
	Identity Identity
	// Idle is why no backups are to be taken now; empty: they are.
	Idle string
	// Clock is why this host's clock cannot be trusted, so that nothing is deleted because of its age; empty: it can.
	Clock string
	// TargetID identifies the target since its first use; empty: it is not known to have been used.
	TargetID string
	// Stored is the newest revision of the incarnation that the target is known to have led to; 0: none is known.
	Stored int64
	// Beside are the digests of identities that lay beside the backups in the target and of which this store has had everything.
	Beside []string
}

// StoredBackup is one object in a target.
type StoredBackup struct {
	Kind string `json:"kind"` // full or delta
	// ID names a full as `LINEAGE/REVISION-TIME`, or is a delta's name.
	ID string `json:"id,omitempty"`
	// Revision is the newest revision that it restores.
	Revision int64     `json:"revision"`
	Size     int64     `json:"size"` // bytes
	At       time.Time `json:"at"`
}

// BackupStatus is the status of the backups of a cluster.
type BackupStatus struct {
	Target string `json:"target"`
	// TargetID is the id in the marker that the target has since its first use; empty: not used yet.
	TargetID string `json:"targetID,omitempty"`
	// Lineage is the incarnation that is backed up.
	Lineage string `json:"lineage,omitempty"`
	// Idle is why no backups are taken now; empty: they are.
	Idle string `json:"idle,omitempty"`
	// Busy: a full, or long work on what is stored, is under way, which another leader would have to start again. It is not stored.
	Busy bool `json:"-"`
	// Known: the target has been read; before that all figures are zero.
	Known bool `json:"known"`

	// Full is the newest full; its zero value: there is none.
	Full     StoredBackup `json:"full,omitzero"`
	NextFull time.Time    `json:"nextFull,omitzero"`
	// Revision is the newest one that can be restored, Time when it was received.
	Revision int64     `json:"revision"`
	Time     time.Time `json:"time,omitzero"`
	// Connected: a full and an unbroken run of deltas lead to Revision.
	Connected bool `json:"connected"`
	// Since is the start of the time up to Time of which every moment can be restored, Fulls the times of the newest fulls:
	// as the target was listed last, and what was stored since.
	Since time.Time   `json:"since,omitzero"`
	Fulls []time.Time `json:"fulls,omitempty"`
	// Resuming: what is in the target has not been compared with the cluster yet.
	Resuming bool `json:"resuming,omitempty"`
	// LagRevisions and Lag (seconds) are how far the target is behind what was received from etcd, Buffered the bytes
	// that wait to be stored.
	LagRevisions int64   `json:"lagRevisions"`
	Lag          float64 `json:"lag"`
	// LagMost (seconds) is how long unstored changes may already have waited when this daemon started the backups; 0:
	// none wait.
	LagMost  float64 `json:"lagMost,omitempty"`
	Buffered int64   `json:"buffered"`

	// Verified is the last successful restore drill; nil: there was none.
	Verified   *VerifiedBackup `json:"verified,omitempty"`
	NextVerify time.Time       `json:"nextVerify,omitzero"`

	// Problem is why backups are not taken or not stored; nil: no problem is known.
	Problem *BackupTrouble `json:"problem,omitempty"`
	// Troubles are failures of other work, by its name: older, beside, list, prune, compact, verify.
	Troubles []BackupTrouble `json:"troubles,omitempty"`
	// Lost is the last loss of stored backups that this daemon noticed; nil: none.
	Lost *BackupTrouble `json:"lost,omitempty"`
	// Compared: the identity beside the backups was compared with the store's. Lacks is what it has and the store does not.
	Compared bool      `json:"compared,omitempty"`
	Lacks    []Lacking `json:"lacks,omitempty"`
	// Beside are digests of identities: see BackupTarget.
	Beside []string `json:"beside,omitempty"`
}

// BackupTarget identifies a target since its first use.
type BackupTarget struct {
	URL string `json:"url"`
	ID  string `json:"id"` // of its marker
	// Lineages are the incarnations of which backups were stored in it, the last one last. They may be missing by now.
	Lineages []string `json:"lineages,omitempty"`
	// Revisions are the newest ones of these incarnations that could be restored from it. They never fall.
	Revisions map[string]int64 `json:"revisions,omitempty"`
	// Lost is the last loss of backups that was noticed; nil: none was.
	Lost *BackupTrouble `json:"lost,omitempty"`
	// Beside are the digests (SHA-256, in hexadecimal) of the last identities that this store wrote beside the backups, or of which it had everything.
	// One that is damaged now says nothing that the store does not have.
	Beside []string `json:"beside,omitempty"`
}

// keptTargets is how many targets a status names at the most, keptLineages how many incarnations of each, keptBeside how many identities.
const (
	keptTargets  = 16
	keptLineages = 16
	keptBeside   = 8
)

// NewestBeside returns digests of identities with those that are newer, the last one last.
func NewestBeside(all []string, newer ...string) []string {
	all = slices.DeleteFunc(slices.Clone(all), func(d string) bool { return slices.Contains(newer, d) })
	return newestOf(append(all, newer...), keptBeside)
}

// Beside returns the digests of identities of which this store has had everything, beside the backups in the target at a URL.
func (s Status) Beside(url string) []string {
	for _, t := range s.KnownTargets(nil) {
		if t.URL == url {
			return t.Beside
		}
	}
	return nil
}

// TargetID returns the id in the marker of the target at a URL; empty: it is not known to have been used.
func (s Status) TargetID(url string) string {
	for _, t := range s.KnownTargets(nil) {
		if t.URL == url {
			return t.ID
		}
	}
	return ""
}

// KnownTargets returns the targets of a status and the current one, last used last. A target stays known while the
// cluster file names another one or none: its URL may later lead to a directory without its mount. So the id at a URL
// never becomes another one: an operator who empties a target gives it a marker of the same id.
func (s Status) KnownTargets(now *BackupStatus) []BackupTarget {
	all := slices.Clone(s.Targets)
	for _, b := range []*BackupStatus{s.Backup, now} { // earlier versions stored no others than that of Backup
		if b == nil || b.Target == "" || b.TargetID == "" && !b.stored() {
			continue
		}
		t := BackupTarget{URL: b.Target, ID: b.TargetID}
		if i := slices.IndexFunc(all, func(t BackupTarget) bool { return t.URL == b.Target }); i >= 0 {
			id := cmp.Or(all[i].ID, t.ID)
			t = all[i]
			t.ID = id
			all = slices.Delete(all, i, i+1)
		}
		if b.stored() {
			t.Lineages = append(slices.DeleteFunc(slices.Clone(t.Lineages), func(l string) bool { return l == b.Lineage }), b.Lineage)
			t.Lineages = t.Lineages[max(0, len(t.Lineages)-keptLineages):]
		}
		if b.stored() && b.Connected && !b.Resuming { // before that, any client may have made it
			revisions := map[string]int64{b.Lineage: b.Revision}
			for _, l := range t.Lineages {
				revisions[l] = max(revisions[l], t.Revisions[l])
			}
			t.Revisions = revisions
		}
		t.Lost, t.Beside = cmp.Or(b.Lost, t.Lost), NewestBeside(t.Beside, b.Beside...)
		all = append(all, t)
	}
	return all[max(0, len(all)-keptTargets):]
}

// Stored reports whether backups of an incarnation are known to have been stored in the target at a URL ("": in any), and
// the newest revision that they led to (0: not known), even if they are missing now.
func (s Status) Stored(url, lineage string) (revision int64, stored bool) {
	for _, t := range s.KnownTargets(nil) {
		if url == "" || t.URL == url {
			revision = max(revision, t.Revisions[lineage])
			stored = stored || slices.Contains(t.Lineages, lineage)
		}
	}
	return revision, stored
}

// BackupTrouble is a failure in work on backups, which is retried.
type BackupTrouble struct {
	Work    string    `json:"work"`
	Code    Code      `json:"code"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// misses reports whether the target lacks what the cluster holds, however short the trouble has been known.
func (t *BackupTrouble) misses() bool {
	return t.Code == CodeOtherHistory || t.Code == CodeLostBackups || t.Code == CodeOtherTarget
}

// VerifiedBackup is a successful restore drill.
type VerifiedBackup struct {
	Revision int64     `json:"revision"`
	At       time.Time `json:"at"`
	// HashChecked: etcd's own hash matched, at the revision or at the newest one before that has a hash.
	HashChecked bool `json:"hashChecked"`
	// HashRevision is the revision of that hash; 0: no hash was compared, or an earlier version did not record it.
	HashRevision int64 `json:"hashRevision,omitempty"`
	// Booted is the version of an etcd that started on the data and answered; empty: none did.
	Booted string `json:"booted,omitempty"`
	// NotBooted says why none did; also empty if an earlier daemon verified it.
	NotBooted string `json:"notBooted,omitempty"`
}

// stored reports whether backups of its incarnation are in the target.
func (s *BackupStatus) stored() bool { return s.Lineage != "" && s.Revision > 0 }

// Trouble returns the trouble with one kind of work; nil: there is none.
func (s *BackupStatus) Trouble(work string) *BackupTrouble {
	for i := range s.Troubles {
		if s.Troubles[i].Work == work {
			return &s.Troubles[i]
		}
	}
	return nil
}

// FreshBackup is how far the target may be behind for a change that needs a backup first, when no new one can be
// made.
const FreshBackup = 10 * time.Minute

// Stale returns why the backups are too old to change the cluster's version or to stop it; "": all that the cluster
// held a short time ago can be restored. A new daemon dates each problem as of then, and knows of no change that waits before
// it has compared the target with the cluster: Since and the lags prove nothing then.
func (s *BackupStatus) Stale(now time.Time) string {
	switch {
	case !s.Known:
		return "the target could not be read yet"
	case s.Full.Revision == 0:
		return "there is no full backup yet"
	case !s.Connected:
		return "changes are missing after the newest full backup"
	case s.Problem != nil && s.Problem.misses():
		return "the backups lack what the cluster holds: " + s.Problem.Message
	case s.Resuming && now.Sub(s.Time).Abs() > FreshBackup:
		return "the backups have not been compared with the cluster yet, and their newest change is not of the last " +
			FreshBackup.String()
	case s.Problem != nil && now.Sub(s.Problem.Since) > FreshBackup:
		return "backups have failed since " + s.Problem.Since.UTC().Format(time.RFC3339)
	case s.Lag > FreshBackup.Seconds():
		return "changes have not been stored for " + (time.Duration(s.Lag) * time.Second).String()
	case s.LagMost > FreshBackup.Seconds():
		return "changes may not have been stored for " + (time.Duration(s.LagMost) * time.Second).String()
	}
	return ""
}
