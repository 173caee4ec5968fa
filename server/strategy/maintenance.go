package strategy

import (
	"fmt"
	"math"
	"slices"
	"time"

	"cke"
	"cke/op"
)

// Bounds of maintenance.
const (
	// renewAgain is the pause after a renewal of certificates that failed.
	renewAgain = time.Hour
	// defragmentFrom is the size of a database, in bytes, from which it is defragmented when less than half is in use.
	defragmentFrom = 256 << 20
	// defragmentAgain is the pause after a defragmentation that failed.
	defragmentAgain = time.Hour
	// trialAgain is the pause between two defragmentations of a full database whose free space is not known.
	trialAgain = 10 * time.Minute
)

// makeRoom defragments the full database of a member, unless another node is down for maintenance.
func (in *Input) makeRoom(j cke.Join, p cke.Problem, reason string) verdict {
	if m, there := in.listed(j); there {
		if g := leaseGate(in, m); g != open {
			return note(p.Message+"; "+string(g), p)
		}
	}
	return act(op.Defragment{Joins: []cke.Join{j}}, "etcd is out of space, and "+reason)
}

// fullDatabase: etcd raised NOSPACE. What is free inside the databases is given back to their quota, one member after
// the other, then the alarm is cleared. History is never compacted for it: it belongs to the clients.
func fullDatabase(in *Input) verdict {
	alarms := noSpace(in)
	if alarms == nil {
		return pass()
	}
	p := noSpaceProblem(in)
	if !oursServe(in) {
		return note("etcd is out of space, and cke does nothing about it while a member is away: "+p.Message, p)
	}
	below, least := true, leastInUse(in)
	for j := range inTurn(in) {
		e := in.reply(j)
		used := min(e.DBSizeInUse, least)
		quota := j.Etcd.Quota() // a larger one that is declared may wait for consent
		switch {
		case e.DBSize == 0:
			return note(p.Message+"; the sizes of the databases are not known", p)
		case e.DBSize*10 < quota*9:
		case used*5 < e.DBSize*4:
			return in.makeRoom(j, p, fmt.Sprintf("of the %s of %s only %s are in use", mebibytes(e.DBSize), j.Node.Name(), mebibytes(used)))
		default:
			below = false
		}
	}
	if trial := in.fullest(); !below && trial != nil {
		if since := in.triedAgo(*trial); since < trialAgain {
			return note(p.Message+"; what is in use does not fit into the quota", p).again(trialAgain - since)
		}
		return in.makeRoom(*trial, p, fmt.Sprintf("reports what a compaction freed only after its next write, which it refuses: %s is defragmented for a trial", trial.Node.Name()))
	}
	if below {
		return act(op.Disarm{Alarms: alarms}, fmt.Sprintf("every database is below its quota of %s again", mebibytes(leastQuota(in))))
	}
	return note(p.Message, p)
}

// leastInUse is how many bytes of every database are in use at most. What a compaction freed etcd reports only after later
// writes, of which a full database gets few. Voters hold the same while all are level, so the least that one of them reports
// is taken for true of all; unless it was not of one that was defragmented. Then each goes by its own figure.
func leastInUse(in *Input) int64 {
	const own = math.MaxInt64
	if noneLags(in) != open {
		return own
	}
	least := int64(own)
	for _, e := range in.replies() {
		if e.Linearizable && !e.Learner && e.DBSizeInUse > 0 {
			least = min(least, e.DBSizeInUse)
		}
	}
	for _, j := range in.Identity.Joins {
		if e := in.reply(j); in.triedAgo(j) < defragmentAgain && least < own && least*5 < e.DBSize*4 {
			return own
		}
	}
	return least
}

// fullest is the first member, the leader last, whose database is at its quota: it is defragmented for a trial, after a pause
// again, since nothing else shows what became free inside it. Nil: there is none.
func (in *Input) fullest() *cke.Join {
	for j := range inTurn(in) {
		if e := in.reply(j); e.DBSize*10 >= j.Etcd.Quota()*9 {
			return &j
		}
	}
	return nil
}

// triedAgo is how long ago a member was defragmented, since the alarm was cleared last; whatever was done since.
func (in *Input) triedAgo(j cke.Join) time.Duration {
	ago := time.Duration(math.MaxInt64)
	if defragmented(in, j) {
		ago = in.Seen.ObservedAt.Sub(in.Before.LastOperation.Time).Abs()
	}
	c, done := in.Completed[FailureKey(op.Defragment{Joins: []cke.Join{j}})]
	if done && !in.Completed[FailureKey(op.Disarm{})].At.After(c.At) {
		ago = min(ago, in.Seen.ObservedAt.Sub(c.At).Abs())
	}
	return ago
}

// noSpace are the alarms of that kind.
func noSpace(in *Input) []cke.Alarm {
	var all []cke.Alarm
	for _, a := range in.Seen.Etcd.Alarms {
		if a.Kind == "NOSPACE" {
			all = append(all, a)
		}
	}
	return all
}

func noSpaceProblem(in *Input) cke.Problem {
	return cke.Problem{Code: cke.CodeNoSpace, Message: fmt.Sprintf("etcd is out of space: it serves reads and deletes, and refuses every other write; the quota is %s", mebibytes(leastQuota(in))),
		Remedy: "delete keys and compact (etcdctl compact REVISION): cke then defragments and clears the alarm; ckecli etcd defrag defragments also before etcd reports what became free; or raise --quota-backend-bytes in options.etcd.extra_args"}
}

// leastQuota is the smallest one that a member runs with.
func leastQuota(in *Input) int64 {
	least := int64(0)
	for _, j := range in.Identity.Joins {
		if q := j.Etcd.Quota(); least == 0 || q < least {
			least = q
		}
	}
	return least
}

// fragmented: a database is large, and less than half of it is in use. It blocks its member for a while, so it waits for
// consent as every voluntary change, and for all to be well.
func fragmented(in *Input) verdict {
	if !in.Formed() || !slices.ContainsFunc(in.replies(), halfEmpty) || !everyoneServes(in) {
		return pass()
	}
	for j := range inTurn(in) {
		e := in.reply(j)
		m, there := in.listed(j)
		if !there || !halfEmpty(e) || mayRestart(in, m) != open || in.triedAgo(j) < defragmentAgain {
			continue
		}
		return act(op.Defragment{Joins: []cke.Join{j}}, fmt.Sprintf("of the %s of %s only %s are in use", mebibytes(e.DBSize), j.Node.Name(), mebibytes(e.DBSizeInUse))).voluntary().patient(defragmentAgain).upkeep()
	}
	return pass()
}

// halfEmpty reports whether a database is large and less than half of it is in use, both as they are known.
func halfEmpty(e cke.EndpointStatus) bool {
	return e.DBSize >= defragmentFrom && e.DBSizeInUse > 0 && e.DBSizeInUse*2 < e.DBSize
}

// defragmented reports whether that was the last thing done: what did not help is not repeated at once.
func defragmented(in *Input, j cke.Join) bool {
	last := in.Before.LastOperation
	return last != nil && last.Type == op.Defragment{}.Name() && in.Seen.ObservedAt.Sub(last.Time).Abs() < defragmentAgain &&
		slices.Contains(last.Targets, j.Node.Name())
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
