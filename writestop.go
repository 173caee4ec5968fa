package cke

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
)

// writeStopMark is the upper half of the member id of the alarms by which cke stops writes; a member's id has it by a chance
// of one in four thousand million.
const writeStopMark = 0x636b652d // "cke-"

// WriteStop is the alarm that stops the writes of a cluster, for the n-th time, for the restore that begins this incarnation. With
// CORRUPT etcd refuses every put, deletion, transaction, compaction and lease, and goes on answering reads, watches and snapshots.
// It is an entry in the log like any other: what was acknowledged stands before it. It is raised in the name of a member that
// does not exist, another one for each time: what lands late for one changes nothing about another.
func WriteStop(incarnation string, n int) Alarm {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", incarnation, n))
	return Alarm{MemberID: fmt.Sprintf("%x%08x", writeStopMark, binary.BigEndian.Uint32(sum[:4])), Kind: "CORRUPT"}
}

// MayStopWritesOf reports whether cke may have stopped the writes of the cluster of this id: one that a restore under way is to replace.
func (i Identity) MayStopWritesOf(clusterID string) bool {
	inc := i.Incarnation
	return inc != nil && inc.State == Restoring && inc.Restore != nil && inc.Restore.Replaces(clusterID)
}

// StopsWrites reports whether cke raised the alarm to stop writes, and etcd found nothing corrupt.
func (a Alarm) StopsWrites() bool {
	id, err := strconv.ParseUint(a.MemberID, 16, 64)
	return err == nil && a.Kind == "CORRUPT" && id>>32 == writeStopMark
}
