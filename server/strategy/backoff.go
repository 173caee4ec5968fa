package strategy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/op"
)

// Failure is an operation that failed since it last succeeded.
type Failure struct {
	Count int
	// First is when it failed first, At when it last did.
	First, At time.Time
	Error     string
	Problems  []cke.Problem
}

// Again is the failure after another one, now. A problem that it had before is as old as it was.
func (f Failure) Again(now time.Time, err string, problems []cke.Problem) Failure {
	if f.Count == 0 {
		f.First = now
	}
	for i, p := range problems {
		if k := slices.IndexFunc(f.Problems, func(q cke.Problem) bool { return sameProblem(p, q) }); k >= 0 {
			problems[i].Since = f.Problems[k].Since
		}
	}
	return Failure{Count: f.Count + 1, First: f.First, At: now, Error: err, Problems: problems}
}

// FailureKey distinguishes operations for back-off: by name and targets.
func FailureKey(o op.Operation) string { return o.Name() + " " + strings.Join(o.Targets(), ",") }

// Bounds of the back-off after a failed operation.
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// lastAddRetry is for adding a member whose learner was withdrawn: each one leaves a volume and a record.
	lastAddRetry = 5 * time.Minute
)

// backOff holds an operation back that failed a short time ago. The pause doubles with each failure up to lastRetry
// and is spread by ±20 %, by cluster and count, so that many clusters do not retry at one moment.
func backOff(in *Input, d Decision, patience time.Duration) Decision {
	if d.Operation == nil {
		return d
	}
	f, wait := holdBack(in, d.Operation, patience)
	if wait <= 0 {
		return repeated(in, d)
	}
	return Decision{
		Reason:   fmt.Sprintf("%s failed %s and is tried again in %s: %s", d.Operation.Name(), times(f.Count), wait.Round(100*time.Millisecond), f.Error),
		Blockers: f.Problems,
		Again:    wait,
		Frozen:   d.Frozen, Converged: d.Converged,
	}
}

// failing are the problems for which the operation of a decision failed the last time.
func failing(in *Input, d Decision) []cke.Problem {
	if d.Operation == nil {
		return nil
	}
	return in.Failures[FailureKey(d.Operation)].Problems
}

// OfQueued reports whether a failure is that of draining a node that is still in a queue: it counts until it is drained, also while
// something else keeps its turn from coming.
func OfQueued(in Input, key string) bool {
	return slices.ContainsFunc(in.Requests.Queued(), func(r cke.Entry) bool { return FailureKey(op.LeaseEntry{Entry: r}) == key })
}

// holdBack is how long an operation waits after it failed.
func holdBack(in *Input, o op.Operation, patience time.Duration) (Failure, time.Duration) {
	f, failed := in.Failures[FailureKey(o)]
	if !failed {
		return f, 0
	}
	longest := lastRetry
	if _, adds := o.(op.AddMember); adds && f.Count >= withdrawAfter {
		longest = lastAddRetry
	}
	pause := max(retryAfter(in.Spec.Name, f.Count, longest), patience)
	since := in.Seen.ObservedAt.Sub(f.At)
	if wasSetBack(since) { // it would be held back for as long as that
		return f, 0
	}
	return f, min(pause, pause-since)
}

func retryAfter(cluster string, count int, longest time.Duration) time.Duration {
	d := min(firstRetry<<min(max(count-1, 0), 12), longest)
	spread := uint32(2166136261) // FNV-1a
	for _, b := range []byte(fmt.Sprintf("%s/%d", cluster, count)) {
		spread = (spread ^ uint32(b)) * 16777619
	}
	return d*4/5 + d*2/5*time.Duration(spread%1000)/1000
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times in a row", n)
}
