package strategy

import (
	"cke"
	"cke/op"
)

// letWrite: writes were stopped for a restore that is not under way any more.
func letWrite(in *Input) verdict {
	o, stopped := writesStopped(in)
	if !stopped {
		return pass()
	}
	return act(o, "writes are stopped for a restore that is no longer running")
}

// writesProblem is that clients cannot write since a restore stopped that; nil: they can.
func writesProblem(in *Input) *cke.Problem {
	if writeStops(in) == nil {
		return nil
	}
	return &cke.Problem{Code: cke.CodeNoWrites, Message: "clients cannot write: a restore stopped writes and has not stopped the members yet",
		Remedy: "cke continues, or lets clients write again, by itself; if it does not: ckecli restore --cancel"}
}

// writesStopped returns what lets clients write again, if cke stopped that for a restore that does nothing now: it was called off,
// or cut off. A cluster that is frozen or paused serves its clients, so it is done there as well.
func writesStopped(in *Input) (op.Operation, bool) {
	if inc := in.Identity.Incarnation; inc != nil && inc.State == cke.Restoring {
		// One that was asked for before writes were allowed again may land after that.
		if !inc.Restore.Stopping && writesProblem(in) == nil || in.Identity.Started() {
			return nil, false
		}
		fence := toFence(in, in.Identity.Joins)
		o := op.AllowWrites{Incarnation: inc.ID, Fence: fence, Alarms: writeStops(in)}
		return o, serveBefore(in, fence) && !inVain(in, o)
	}
	stops := writeStops(in)
	return op.Disarm{Alarms: stops}, in.Formed() && stops != nil
}

// inVain reports whether writes were allowed right before this without an effect, as where the alarm that is left is in the log of a member
// that continued alone and has no leader now. Every attempt of a restore stops writes once more.
func inVain(in *Input, o op.Operation) bool {
	last := in.Before.LastOperation
	c, done := in.Completed[FailureKey(o)]
	if !done || last == nil || last.Type != o.Name() || last.State != cke.RecordCompleted || in.Identity.Incarnation.Restore.Stopping {
		return false
	}
	since := in.Seen.ObservedAt.Sub(c.At)
	return !wasSetBack(since) && since < retryAfter(in.Spec.Name, c.Count, lastRepeat)
}

// writeStops are the alarms seen with which cke stopped writes.
func writeStops(in *Input) (all []cke.Alarm) {
	for _, a := range in.Seen.Etcd.Alarms {
		if a.StopsWrites() {
			all = append(all, a)
		}
	}
	return all
}

// serveBefore reports whether a quorum of the incarnation before runs on the nodes that answer.
func serveBefore(in *Input, fence []cke.Join) bool {
	all, running := 0, 0
	for _, j := range in.Identity.Superseded() {
		if !j.StartedAt.IsZero() {
			all++
		}
	}
	for _, j := range fence {
		if runs(in, j) {
			running++
		}
	}
	return 2*running > all
}
