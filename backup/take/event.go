package take

import (
	"time"

	"cke/backup"
)

// EventType is what an Event tells of.
type EventType string

// Event types.
const (
	FullStored  EventType = "full stored"
	DeltaStored EventType = "delta stored"
	// FullFound: the newest full in the target is another one than was known; a Header that is zero: there is none.
	FullFound EventType = "full found"
	// FullFailed: a full could not be taken or stored; it is tried again.
	FullFailed EventType = "full failed"
	// Gap: changes From to To are in no delta; a full follows.
	Gap EventType = "gap"
	// Overflow: the target has taken nothing since the buffer filled up. Watching is suspended until it does; then a
	// full follows.
	Overflow EventType = "overflow"
	// TargetFailed and TargetBack tell of the target's troubles.
	TargetFailed EventType = "target failed"
	TargetBack   EventType = "target back"
	// Contended: another writer has extended the stream; it is taken up from there.
	Contended EventType = "another writer"
	// ClusterFailed: etcd could not be asked or watched.
	ClusterFailed EventType = "cluster failed"
	// Faulty: cke itself failed; the work begins again.
	Faulty EventType = "fault"
	// Bogus: an object claims revisions that the cluster has not reached, and is no backup. It is left out of account.
	Bogus EventType = "no backup"
	// AuthChanged: users or roles changed; a full follows.
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
	// Damage is of an object that is no backup.
	Damage *backup.DamagedError
}

// Status is what one Taker knows. It is not what people are shown: keep outlives Takers, and joins what each of them knew with
// targets, drills, pruning and schedules to a cke.BackupStatus.
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
	// Connected: a full and an unbroken run of deltas lead to Revision.
	Connected bool `json:"connected"`
	// Resumed: the target was read, so Connected is known.
	Resumed bool `json:"resumed"`
	// Problem is what is wrong now; empty: nothing.
	Problem      string    `json:"problem,omitempty"`
	ProblemSince time.Time `json:"problemSince,omitzero"`
}
