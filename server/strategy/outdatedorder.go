package strategy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/op"
)

// orderLasts is how long an order to restore may wait, as for the end of a pause, or for a daemon or a node: its plan was
// confirmed for the cluster as it was then.
const orderLasts = time.Hour

// outdatedOrder is why an order to restore is no longer what was confirmed; nil: it is.
func outdatedOrder(in *Input, t cke.Task) *cke.Error {
	o := *t.Restore
	e := &cke.Error{Code: cke.CodeCannot, What: "the " + o.Kind() + " is no longer what was confirmed, and is not carried out", Unchanged: true, Try: o.Command() + " --plan"}
	if waited := in.untilNow().Sub(in.lastWorked(t)); waited > orderLasts && !t.At.IsZero() {
		e.Facts = append(e.Facts, fmt.Sprintf("it was requested at %s, and waited for %s: the cluster may have changed", t.At.UTC().Format(time.RFC3339), inMinutes(waited)),
			fmt.Sprintf("the first time is by the clock of the host on which it was requested; by the daemon's it is %s now: correct a clock that is wrong", in.Seen.ObservedAt.UTC().Format(time.RFC3339)))
	}
	if o.ShownIncarnation != "" && !in.Identity.Incarnation.Life(o.ShownIncarnation) {
		e.Facts = append(e.Facts, fmt.Sprintf("it was to replace incarnation %s, and the cluster has another one now", o.ShownIncarnation))
	}
	if o.ShownGeneration != 0 && o.ShownGeneration < in.Generation {
		e.Facts = append(e.Facts, fmt.Sprintf("the plan was made for revision %d of the cluster file, and it has revision %d now", o.ShownGeneration, in.Generation))
	}
	if e.Facts == nil {
		return nil
	}
	return e
}

// fromLater refuses a recovery that was requested by a clock that is ahead: where it is interrupted before it is on record, members that
// were started after that time are what shows that others served meanwhile.
func fromLater(in *Input, t cke.Task) *cke.Error {
	ahead := t.At.Sub(in.Seen.ObservedAt)
	if t.Restore.Survivor == "" || ahead <= op.ClockLimit {
		return nil
	}
	return &cke.Error{Code: cke.CodeClock, What: fmt.Sprintf("cannot recover: the clock of the host on which it was requested is %s ahead of the daemon's", inMinutes(ahead)),
		Facts: []string{"cke could not notice which members are started after the request"}, Unchanged: true, Try: "correct the clock, then: " + t.Restore.Command() + " --plan"}
}

// lastWorked is since when an order waits: since its fetch was interrupted, which may take hours, or since it was given.
func (in *Input) lastWorked(t cke.Task) time.Time {
	before := Remembered(in.Before)
	if last := before.InterruptedOrder; last != nil && last.Task == t.ID && last.Time.After(t.At) {
		return last.Time
	}
	return t.At
}

// outdatedRestore is why a restore that is on record, and has started none of its members, is no longer what was confirmed; nil:
// it is. A store that lacks what came since is no reason to go back.
func outdatedRestore(in *Input) *cke.Problem {
	if ran := ranSince(in); ran != nil {
		return ran
	}
	inc := in.Identity.Incarnation
	if inc.Restore.Canceling {
		return &cke.Problem{Code: cke.CodeCannot, Message: "an operator requested that, and not enough of the members that it stopped were started again"}
	}
	if back := inc.Restore.Returned; inc.Restore.Order.Survivor != "" && back != nil {
		return &cke.Problem{Code: cke.CodeFence, Node: back[0], Message: fmt.Sprintf("named as destroyed, and seen with a member since, which may have acknowledged what the copied data lacks: %s", and(back))}
	}
	if inc.Restore.Order.Survivor != "" || len(in.Identity.Joins) == 0 || len(in.mayServe()) > 0 || !servedBefore(in) {
		return nil
	}
	worked := inc.CreatedAt
	if last := Remembered(in.Before).RestoreWorkedAt; last.After(worked) {
		worked = last
	}
	waited := in.untilNow().Sub(worked)
	if waited <= orderLasts {
		return nil
	}
	return &cke.Problem{Code: cke.CodeCannot, Message: fmt.Sprintf("it waited for %s, and clients may have written since it was confirmed; to restore again: %s --plan", inMinutes(waited), inc.Restore.Order.Command())}
}

// ofRestore reports whether an operation prepares a restore; the answer to an order has the same name, and its task. Before one
// lets clients write again, they could not.
func ofRestore(o cke.OperationStatus) bool {
	return o.Task == "" && (o.Type == op.Restore{}.Name() || o.Type == op.AllowWrites{}.Name())
}

// Remembered returns a status with what follows from its last operation, which another one may replace at any time.
func Remembered(s cke.Status) cke.Status {
	s.TouchedAt = TouchedAt(s)
	switch last := s.LastOperation; {
	case last == nil:
	case ofRestore(*last) && last.Time.After(s.RestoreWorkedAt):
		s.RestoreWorkedAt = last.Time
	case last.Task != "" && last.State == cke.RecordInterrupted && slices.Contains(beginnings, last.Type):
		s.InterruptedOrder = last
	}
	return s
}

// beginnings are the names of operations that put a restore on record.
var beginnings = []string{op.BeginRestore{Task: cke.Task{Restore: &cke.RestoreOrder{}}}.Name(), op.BeginRestore{Task: cke.Task{Restore: &cke.RestoreOrder{Survivor: "one"}}}.Name()}

// servedBefore reports whether members of the life before may serve until the restore stops them.
func servedBefore(in *Input) bool {
	if in.Identity.Incarnation.BeforeRestores().State != cke.Formed {
		return false
	}
	for _, j := range in.Identity.Superseded() {
		n := in.node(j.Node)
		_, data := n.VolumeOf(j)
		c, _ := n.Of(j.ID)
		if !in.Identity.Incarnation.Restore.Believed().Excuses(j.Node.Name()) && (!n.Answered() || data || c.Running()) {
			return true
		}
	}
	return false
}

// inMinutes is a time in whole minutes, as "5h0m".
func inMinutes(d time.Duration) string {
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
