package strategy

import (
	"fmt"
	"time"

	"cke"
	"cke/op"
)

// Completion is an operation that completed, and how often in a row for one reason.
type Completion struct {
	Reason string
	Count  int
	// At is when it last completed.
	At time.Time
}

// Bounds of the pause after an operation completed that is needed again for the same reason: it had no lasting effect.
const (
	// lastRestart is for what takes a member away that serves, lastRepeat for what does not.
	lastRestart = time.Hour
	lastRepeat  = 5 * time.Minute
	// toldFrom is how often it completed when operators are told.
	toldFrom = 2
	// freeStarts is how often a member that stops is started without a pause.
	freeStarts = 5
)

// Completed counts an operation that completed, and was chosen for a reason.
func Completed(all map[string]Completion, o op.Operation, reason string, now time.Time) {
	key := FailureKey(o)
	c := all[key]
	if c.Reason != reason || c.Stale(now) {
		c = Completion{Reason: reason}
	}
	c.Count, c.At = c.Count+1, now
	all[key] = c
}

// ForgetAfter is how long a failure counts whose operation was not chosen again.
const ForgetAfter = time.Hour

// Stale reports whether the completion is too old for another run of the operation to count as a repetition.
func (c Completion) Stale(now time.Time) bool {
	return now.Sub(c.At) > max(ForgetAfter, 2*retryAfter("", c.Count, lastRestart))
}

// MayRepeat reports whether the operation was repeated, and completed so recently that it may have no effect again.
func (c Completion) MayRepeat(now time.Time) bool {
	return c.Count >= toldFrom && now.Sub(c.At) < 2*lastRetry
}

// longestRepeat is the longest pause before an operation is repeated; 0: it is not held back. Members that stopped are started
// again soon, however often they stop. What an operator
// requested, but for the parts of a task that goes on, or what only observes or records, is none of this.
func longestRepeat(d Decision) time.Duration {
	if d.Task != "" && !d.Part || d.Upkeep {
		return 0
	}
	if d.Operation == nil {
		return 0
	}
	switch d.Operation.Traits().Repeat {
	case op.RepeatSoon:
		return lastRetry
	case op.RepeatLate:
		return lastRestart
	case op.RepeatFree:
		return 0
	}
	return lastRepeat
}

// repeated holds an operation back that completed a short time ago, and is needed again for the same reason.
func repeated(in *Input, d Decision) Decision {
	longest := longestRepeat(d)
	if longest == 0 {
		return d
	}
	c, done := in.Completed[FailureKey(d.Operation)]
	since := in.Seen.ObservedAt.Sub(c.At)
	if !done || c.Reason != d.Reason || c.Stale(in.Seen.ObservedAt) || wasSetBack(since) {
		return d
	}
	count := c.Count
	if longest == lastRetry {
		count -= freeStarts
	}
	wait := retryAfter(in.Spec.Name, count, longest) - since
	if wait <= 0 {
		return d
	}
	held := Decision{Again: wait, Frozen: d.Frozen, Converged: d.Converged,
		Reason: fmt.Sprintf("%s completed %s and is needed again; it is repeated in %s: %s", d.Operation.Name(), times(c.Count), wait.Round(100*time.Millisecond), d.Reason)}
	if c.Count < toldFrom {
		return held
	}
	p := cke.Problem{Code: cke.CodeRepeats, Message: held.Reason, Remedy: cke.WayOut(cke.CodeRepeats)}
	if targets := d.Operation.Targets(); len(targets) == 1 {
		p.Node = targets[0]
	}
	held.Blockers = []cke.Problem{p}
	return held
}
