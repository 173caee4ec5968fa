package take

import (
	"time"

	"cke/backup"
)

// EventType is the kind of an Event.
type EventType string

// Event types.
const (
	FullStored  EventType = "full stored"
	DeltaStored EventType = "delta stored"
	// Restorable means that from now on a full and an unbroken run of deltas lead to what is stored.
	Restorable EventType = "restorable"
	// FullFound means that the newest full in the target is not the one that was known; with a zero Header there is none.
	FullFound EventType = "full found"
	// FullFailed means that a full could not be taken or stored; it is tried again.
	FullFailed EventType = "full failed"
	// Gap means that changes From to To are in no delta; a full follows.
	Gap EventType = "gap"
	// Overflow means that the target has stored nothing since the buffer filled up. Watching is suspended until it does;
	// then a full follows.
	Overflow EventType = "overflow"
	// TargetFailed and TargetBack report that the target fails, and that it works again.
	TargetFailed EventType = "target failed"
	TargetBack   EventType = "target back"
	// Contended means that another writer has extended the stream; the Taker continues from there.
	Contended EventType = "another writer"
	// ClusterFailed means that etcd could not be read or watched.
	ClusterFailed EventType = "cluster failed"
	// Faulty means that cke itself failed; the work starts again.
	Faulty EventType = "fault"
	// Bogus means that an object claims revisions that the cluster has not reached, and is not a backup. It is ignored.
	Bogus EventType = "no backup"
	// AuthChanged means that users or roles changed; a full follows.
	AuthChanged EventType = "auth changed"
)

// Event is something that happened to the backups of a cluster.
type Event struct {
	Type EventType
	At   time.Time
	// Header is of the object stored.
	Header backup.Header
	// From and To are revisions, of a gap.
	From, To int64
	Err      error
	// Damage is of an object that is not a backup.
	Damage *backup.DamagedError
}

// Status is what one Taker knows. It is not shown to the operator: keep outlives Takers, and combines what each of them
// knew with targets, drills, pruning and schedules into a cke.BackupStatus.
type Status struct {
	// FullRevision and FullTime are of the newest full in the target; zero: none.
	FullRevision int64     `json:"fullRevision"`
	FullTime     time.Time `json:"fullTime,omitzero"`
	// Revision is the newest one that can be restored, as far as is known, and Time when it was received.
	Revision int64     `json:"revision"`
	Time     time.Time `json:"time,omitzero"`
	// Seen is the newest revision that the cluster is known to have reached, whether its changes were received or not.
	Seen int64 `json:"seen"`
	// Buffered is the number of bytes that wait for the target.
	Buffered int64 `json:"buffered"`
	// Connected means that a full and an unbroken run of deltas lead to Revision.
	Connected bool `json:"connected"`
	// Full means that a full is being taken.
	Full bool `json:"full"`
	// Resumed means that the target was read, so Connected is known.
	Resumed bool `json:"resumed"`
	// Problem is what is wrong now; empty: no problem.
	Problem      string    `json:"problem,omitempty"`
	ProblemSince time.Time `json:"problemSince,omitzero"`
}
