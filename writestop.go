package cke

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
)

// writeStopMark is the upper half of the member id of the alarms by which cke stops writes; a member's id has it by a chance
// of one in four thousand million.
const writeStopMark = 0x636b652d // "cke-"

// WriteStop returns the alarm that stops the writes of a cluster, for the n-th time, for the restore to this
// incarnation. With CORRUPT etcd refuses every put, deletion, transaction, compaction and lease, and still answers
// reads, watches and snapshots.
// It is an ordinary log entry: what was acknowledged precedes it. It names a member that does not exist, each time
// another one, so that a late effect on one changes nothing about another.
func WriteStop(incarnation string, n int) Alarm {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", incarnation, n))
	return Alarm{MemberID: fmt.Sprintf("%x%08x", writeStopMark, binary.BigEndian.Uint32(sum[:4])), Kind: "CORRUPT"}
}

// NoWriteStop returns why a stop of writes for a restore may not hold in a cluster whose members answer so; "": it holds. With
// etcd 3.5 the alarm NOSPACE, which any member may raise, ends the stop, and its rules allow deletions; and once the stop is
// cleared, members that were restarted go by NOSPACE and others do not.
//
// A member that does not answer may serve clients, and its database may be full: their sizes differ. It counts by the version
// that it was started with, unless its node is destroyed. Members that are put aside do not count.
func NoWriteStop(joins []Join, o RestoreOrder, reply func(Join) EndpointStatus) string {
	replaced, full, silent := false, "", ""
	for _, j := range Chosen(joins) {
		if j.StartedAt.IsZero() || slices.Contains(o.Destroyed, j.Node.Name()) {
			continue
		}
		e := reply(j)
		v, known := ParseVersion(cmp.Or(e.Version, j.Etcd.TaggedVersion()))
		replaced = replaced || !known || v.AlarmsReplace()
		switch {
		case e.NoSpace:
			full = "with etcd 3.5 writes cannot be stopped while the alarm NOSPACE is active"
		case e.Version == "":
			silent = "with etcd 3.5 writes cannot be stopped reliably while a member does not answer: that of " + j.Node.Name()
		case full == "" && j.Etcd.MayFill(e.DBSize):
			full = "with etcd 3.5 writes cannot be stopped reliably while a database is near its quota: that of " + j.Node.Name()
		}
	}
	if !replaced {
		return ""
	}
	return cmp.Or(full, silent)
}

// MayStopWritesOf reports whether cke may have stopped the writes of the cluster of this id: a restore under way
// replaces it.
func (i Identity) MayStopWritesOf(clusterID string) bool {
	inc := i.Incarnation
	return inc != nil && inc.State == Restoring && inc.Restore != nil && inc.Restore.Replaces(clusterID)
}

// StopsWrites reports whether cke raised the alarm to stop writes, and etcd found nothing corrupt.
func (a Alarm) StopsWrites() bool {
	id, err := strconv.ParseUint(a.MemberID, 16, 64)
	return err == nil && a.Kind == "CORRUPT" && id>>32 == writeStopMark
}
