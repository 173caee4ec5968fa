package strategy

import (
	"cmp"
	"fmt"
	"time"

	"cke"
	"cke/op"
)

const (
	// inSyncFor is how long the member of a node that is back is in sync before its reboot or repair is done.
	inSyncFor = 30 * time.Second
	// commandWithin is how long the command of a node that is leased may be impossible to start.
	commandWithin = 10 * time.Minute
	// drainedWithin is for how long a node may be impossible to drain.
	drainedWithin = 10 * time.Minute
	// drainedTries is how often that must have failed by then: two failures far apart show less.
	drainedTries = 5
	// hungAfter is how long a node does not answer before it counts as hung: then it goes down without a stop of its member.
	hungAfter = time.Minute
	// unseenFor is for how long after its command a machine counts as going down, of which no boot was seen before.
	unseenFor = 2 * time.Minute
	// asksWithin is for how long an agent counts as waiting after it has asked, and forgottenAfter when it counts as gone.
	asksWithin     = time.Minute
	forgottenAfter = 2 * time.Hour
)

// queuesUnderWay: what is known of a reboot or a repair under way is not on record yet. It is above the rule for no quorum: the lease
// of a node that is back must end, since its member may be what a quorum lacks.
func queuesUnderWay(in *Input) verdict {
	if in.Seen.Partial {
		return pass()
	}
	if v := in.strayLease(); v.given() {
		return v
	}
	for _, r := range in.Requests.Queued() {
		if in.UnderWay.Of(r).Running {
			continue // an entry moves once its command has ended, which it does at its deadline, or killed as nothing asks for it any more
		}
		if in.Identity.Freeze.HoldsQueued(r) && !r.Canceled {
			return upkeepBy(op.NoteEntry{Entry: r, Cancel: true}, r.What()+" is canceled: it was in the store when that was found to be older than the cluster")
		}
		n, declared := in.nodeOf(r)
		if !declared {
			return upkeepBy(op.NoteEntry{Entry: r, Result: cke.EntryUndeclared, Release: r.Active(), Why: "the node left the cluster file"}, fmt.Sprintf("%s left the cluster file, and leaves the %s queue", r.Node, r.Kind()))
		}
		t, known := in.Spec.Turn(r, n)
		var v verdict
		switch {
		case r.Active() && !known:
			v = in.attemptFailed(r, cke.Turn{Last: true}, "the cluster file no longer says what is done for it")
		case r.State == cke.EntryQueued:
			v = in.waitsFor(r, n, t)
		case r.State == cke.EntryLeased:
			v = in.leasedEntry(r, n, t)
		case r.Acting():
			v = in.acting(r, n, t)
		case r.State == cke.EntryReturning:
			v = in.returning(r, n, t)
		}
		if v.given() {
			return v
		}
	}
	return pass()
}

// strayLease: the lease of an entry that is not under way is over. It was canceled while its member was stopped, or that was not completed.
// What is under way in a queue that cannot be decoded is not known.
func (in *Input) strayLease() verdict {
	for _, d := range in.leases() {
		r, there := in.Requests.Entry(d.Entry)
		if d.Entry == "" || !there && in.Requests.Queue(d.Queue).Unread || there && (r.State == cke.EntryLeased || r.Acting()) {
			continue
		}
		if !there {
			r = cke.Entry{ID: d.Entry, Node: d.Node}
			if d.Queue == cke.RepairQueue {
				r.On = d.Reason
			}
		}
		return upkeepBy(op.NoteEntry{Entry: r, Release: true}, "the lease of "+d.Node+" is over: its entry in the "+string(r.Kind())+" queue is not under way")
	}
	return pass()
}

// upkeepBy acts on what keeps nothing from being as declared.
func upkeepBy(o op.Operation, reason string) verdict { return act(o, reason).upkeep().unnoticed() }

// nodeOf is the node of an entry, as it is declared now.
func (in *Input) nodeOf(r cke.Entry) (cke.Node, bool) {
	for _, n := range in.Spec.Nodes {
		if n.Address == r.Address {
			return n, true
		}
	}
	return cke.Node{}, false
}

// waitsFor: nothing is left to do for an entry that waits. Its node cannot be drained, its machine became healthy after an attempt that
// did not help in time, or the agent that asked for it no longer does.
func (in *Input) waitsFor(r cke.Entry, n cke.Node, t cke.Turn) verdict {
	f := in.Failures[FailureKey(op.LeaseEntry{Entry: r})]
	switch {
	case f.Count >= drainedTries && min(f.At.Sub(f.First), f.At.Sub(r.Since)) >= drainedWithin:
		return upkeepBy(op.NoteEntry{Entry: r, To: cke.EntryFailed, Result: cke.EntryGaveUp, Release: true, Why: notDrained(f)}, r.What()+" failed: "+notDrained(f))
	case r.Agent != "" && in.overdue(r.AskedAt, forgottenAfter):
		return upkeepBy(op.NoteEntry{Entry: r, Result: cke.EntryCanceled, Why: "its agent no longer asks"}, "the agent of "+r.Node+" no longer asks for a reboot")
	case r.Kind() == cke.RepairQueue && r.Tried() && in.recovered(r, t) && in.notInSync(r, n) == "":
		return upkeepBy(op.NoteEntry{Entry: r, Result: cke.EntryDone}, r.What()+" is done: it became healthy after its last attempt")
	}
	return pass()
}

// recovered reports whether a machine is healthy that was not after its last attempt: its check passes, or without one it shows another
// boot, or any after it was silent.
func (in *Input) recovered(r cke.Entry, t cke.Turn) bool {
	seen := in.UnderWay.Of(r)
	if t.Check != "" {
		return seen.Checked
	}
	if r.Boot.Known() {
		return seen.Boot.Known() && seen.Boot != r.Boot
	}
	return seen.Boot.Known() && !r.CommandEndedAt.IsZero() && seen.BootAt.After(r.CommandEndedAt)
}

const helpsQuorum = "there is no quorum, and its member may help"

// leasedEntry: a node whose member is stopped goes back into the queue, or out of it, if its command is not to be started.
func (in *Input) leasedEntry(r cke.Entry, n cke.Node, t cke.Turn) verdict {
	_, carries := in.Identity.On(n)
	strange, stays := in.strangersOn(n), cmp.Or(in.notMoved(n), in.neighborOn(n, t))
	switch {
	case r.Canceled:
		return in.queuedAgain(r, "")
	case carries && t.Lease && in.leaseOf(r) == nil:
		return upkeepBy(op.NoteEntry{Entry: r, To: cke.EntryQueued, Why: "its lease is over"}, r.Node+" is queued again: its lease is over")
	case !in.Seen.Etcd.Quorate:
		return in.queuedAgain(r, helpsQuorum)
	case len(strange) > 0:
		return in.queuedAgain(r, in.strangerIs(strange[0], n))
	case stays != "":
		return in.queuedAgain(r, stays)
	case in.closed(r.Kind()) != "":
		return in.queuedAgain(r, in.closed(r.Kind()))
	case r.Silent && in.answers(n):
		return in.queuedAgain(r, "it answers again")
	case !r.Silent && t.Boots && in.hung(n):
		return in.queuedAgain(r, "it no longer answers")
	case in.overdue(r.Since, commandWithin):
		why := "its command could not be started for " + commandWithin.String()
		if f, failed := in.Failures[FailureKey(op.RunEntry{Entry: r})]; failed {
			why += ": " + f.Error
		}
		return upkeepBy(op.NoteEntry{Entry: r, To: cke.EntryFailed, Result: cke.EntryGaveUp, Release: true, Why: why}, r.What()+" failed: "+why)
	}
	return pass()
}

// queuedAgain gives the lease back of an entry whose command did not run, and queues it again unless it is canceled.
func (in *Input) queuedAgain(r cke.Entry, why string) verdict {
	if r.Canceled {
		return upkeepBy(op.NoteEntry{Entry: r, Result: cke.EntryCanceled, Release: true, Why: why}, r.What()+" is canceled")
	}
	return upkeepBy(op.NoteEntry{Entry: r, To: cke.EntryQueued, Release: true, Why: why}, r.Node+" is queued again: "+why)
}

// hung reports whether a node has not answered for so long that it is not a moment's silence.
func (in *Input) hung(n cke.Node) bool {
	s := in.node(n)
	last := s.SeenAt
	if last.Before(in.LeadsSince) {
		last = in.LeadsSince
	}
	return !s.Answered() && in.waited(last) >= hungAfter
}

// leaseOf is the lease of an entry that lasts; nil: there is none.
func (in *Input) leaseOf(r cke.Entry) *cke.Drain {
	for _, d := range in.leases() {
		if d.Entry == r.ID {
			return &d
		}
	}
	return nil
}

// acting: the command was started, or is to be started once more.
func (in *Input) acting(r cke.Entry, n cke.Node, t cke.Turn) verdict {
	seen, ended := in.UnderWay.Of(r), !r.CommandEndedAt.IsZero()
	if !ended && seen.Ended != nil {
		how := "ended"
		if seen.Ended.Error != "" {
			how = "failed: " + seen.Ended.Error
		}
		return upkeepBy(op.NoteEntry{Entry: r, Ended: seen.Ended}, "the command for "+r.Node+" "+how)
	}
	notBack := in.notBack(r, n, t)
	if notBack == "" {
		how := " is back"
		if t.Boots {
			how = " has rebooted"
		}
		return upkeepBy(op.NoteEntry{Entry: r, To: cke.EntryReturning, Release: true}, r.Node+how)
	}
	answers := in.answers(n)
	same := answers && r.Boot.Known() && seen.Boot == r.Boot // it has not rebooted
	idle := (same || answers && !t.Boots) && r.Agent == ""   // and no command of ours may still let it
	from, limit := backWithin(r, t)
	_, carries := in.Identity.On(n)
	switch {
	case carries && !in.Seen.Etcd.Quorate && answers && (r.Canceled || in.forgotten(r)):
		return in.queuedAgain(r, helpsQuorum)
	case carries && !in.Seen.Etcd.Quorate && idle && (!ended || r.Error != ""):
		return in.attemptFailed(r, t, helpsQuorum) // its command may have run
	case in.overdue(from, limit):
		why := "it did not return from its reboot"
		switch {
		case r.Agent != "" && !ended:
			why = "its agent did not report that it is back"
		case r.Kind() == cke.RepairQueue:
			why = "it did not become healthy: " + notBack
		}
		return in.attemptFailed(r, t, cmp.Or(r.Error, why)+fmt.Sprintf(" (waited %s)", t.BootTimeout.Short()))
	case ended && r.Error != "" && in.noReboot(r, t, same && seen.BootAt.After(r.CommandEndedAt), answers) && in.waited(from) >= time.Duration(t.Interval):
		return in.attemptFailed(r, t, r.Error)
	case !ended && t.Boots && !r.Boot.Known() && answers && !in.mayGoDown(r, t):
		return in.attemptFailed(r, t, notBack)
	case ended, r.Agent != "", t.Boots && !same:
		return pass()
	case r.Canceled, in.overdue(r.Since, limit):
		return in.attemptFailed(r, t, "it is not known whether its command ran")
	case in.Requests.Queue(r.Kind()).Disabled:
		return in.disabledAgain(r, idle && t.Attempts > r.Tries())
	}
	return in.runEntry(r, n, t, true)
}

// backWithin is from when on, and within how long, a node has to be back from an attempt.
func backWithin(r cke.Entry, t cke.Turn) (from time.Time, limit time.Duration) {
	if r.CommandEndedAt.IsZero() {
		return r.StartedAt, time.Duration(t.CommandTimeout + t.BootTimeout)
	}
	return r.CommandEndedAt, time.Duration(t.BootTimeout)
}

// forgotten reports whether the agent that asked for a reboot does not now: it is not about to reboot, or it has.
func (in *Input) forgotten(r cke.Entry) bool {
	return r.Agent != "" && in.Seen.ObservedAt.Sub(r.AskedAt).Abs() > asksWithin
}

// noReboot reports whether a command that failed is known to have rebooted nothing, or nothing can show that it did.
func (in *Input) noReboot(r cke.Entry, t cke.Turn, same, answers bool) bool {
	return !t.Boots || same || answers && !r.Boot.Known()
}

// disabledAgain: a command that may not have run is not started in a queue that was disabled. again: the attempt may be repeated.
func (in *Input) disabledAgain(r cke.Entry, again bool) verdict {
	if !again {
		return pass()
	}
	return in.queuedAgain(r, in.closed(r.Kind()))
}

// answers reports whether a node answers in full.
func (in *Input) answers(n cke.Node) bool {
	s := in.node(n)
	return s.Answered()
}

// notBack is why a node is not back after its command; empty: it is.
func (in *Input) notBack(r cke.Entry, n cke.Node, t cke.Turn) string {
	seen := in.UnderWay.Of(r)
	switch {
	case !in.answers(n):
		return "it does not answer"
	case r.Agent != "" && r.CommandEndedAt.IsZero():
		return "its agent has not reported that it is back"
	case !t.Boots && r.CommandEndedAt.IsZero():
		return "its command has not ended"
	case !t.Boots && r.Error != "":
		return "its command failed: " + r.Error
	case t.Boots && !seen.Boot.Known():
		return "which boot of it runs is not known" + because(seen.BootError)
	case t.Boots && r.Boot.Known() && seen.Boot == r.Boot:
		return "it has not rebooted yet"
	case t.Boots && !r.Boot.Known() && r.Error != "":
		return "its command failed: " + r.Error
	case t.Boots && !r.Boot.Known() && in.mayGoDown(r, t):
		return "it may still be going down: no boot of it was seen before its command"
	case t.Boots && !r.Boot.Known() && r.CommandEndedAt.IsZero():
		return "it is not known whether it has rebooted"
	case t.Check != "" && !seen.Checked:
		return "the check " + t.Check + " does not pass" + because(seen.CheckError)
	}
	return ""
}

// mayGoDown reports whether a machine, of which no boot was seen before its command, may still show the former one.
func (in *Input) mayGoDown(r cke.Entry, t cke.Turn) bool {
	end := r.CommandEndedAt
	if end.IsZero() {
		end = r.StartedAt.Add(time.Duration(t.CommandTimeout))
	}
	return in.UnderWay.Of(r).BootAt.Sub(end) < min(unseenFor, time.Duration(t.BootTimeout)/2)
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// attemptFailed gives the lease back, and queues the node again while attempts or steps are left.
func (in *Input) attemptFailed(r cke.Entry, t cke.Turn, why string) verdict {
	o := op.NoteEntry{Entry: r, Release: true, Why: why}
	left, repeats := t.Attempts-r.Tries(), r.Acting() || r.State == cke.EntryReturning && r.Kind() == cke.RepairQueue
	switch {
	case r.Canceled:
		o.Result = cke.EntryCanceled
		return upkeepBy(o, r.What()+" is canceled: "+why)
	case left > 0 && repeats:
		o.To = cke.EntryQueued
		return upkeepBy(o, fmt.Sprintf("attempt %d to %s %s failed, %s: %s", r.Attempt, r.Kind(), r.Node, cke.Plural(left, "more attempt follows", "more attempts follow"), why))
	case !t.Last && repeats:
		o.To, o.NextStep = cke.EntryQueued, true
		return upkeepBy(o, fmt.Sprintf("step %d to repair %s did not help, and the next one follows: %s", r.Step+1, r.Node, why))
	}
	o.To, o.Result = cke.EntryFailed, cke.EntryGaveUp
	return upkeepBy(o, r.What()+" failed: "+why)
}

// returning: the node is back, and its member is to be in sync.
func (in *Input) returning(r cke.Entry, n cke.Node, t cke.Turn) verdict {
	why := in.notInSync(r, n)
	if why == "" {
		return upkeepBy(op.NoteEntry{Entry: r, Result: cke.EntryDone, Release: true}, r.What()+" is done")
	}
	if limit := t.BootTimeout; in.overdue(r.Since, time.Duration(limit)) {
		return in.attemptFailed(r, t, fmt.Sprintf("%s (waited %s)", why, limit.Short()))
	}
	return pass()
}

// notInSync is why the member of a node that is back is not in sync, or the node does not answer; empty: all is well.
func (in *Input) notInSync(r cke.Entry, n cke.Node) string {
	if !in.answers(n) {
		return "it does not answer"
	}
	j, carries := in.Identity.On(n)
	if !carries {
		j, carries = in.recordedElsewhere(n)
	}
	if !carries {
		return ""
	}
	m, there := in.listed(j)
	switch {
	case !there || !healthyMember(in, m):
		return "its member does not serve"
	case in.behindLeader(j):
		return "its member is behind the leader"
	case in.waited(r.Since) < inSyncFor || in.healthyFor(j) < inSyncFor:
		return "its member is not in sync for " + inSyncFor.String()
	}
	return ""
}

// healthyFor is for how long the member was observed to be healthy.
func (in *Input) healthyFor(j cke.Join) time.Duration {
	for _, m := range in.Before.Members {
		if m.Join == j.ID && m.State == "healthy" {
			return in.watched(m)
		}
	}
	return 0
}

func (in *Input) behindLeader(j cke.Join) bool {
	behind := lag(in, in.reply(j))
	return behind < 0 || behind >= op.MaxLag
}

// runEntry starts the command of a node, or lets its agent reboot it.
func (in *Input) runEntry(r cke.Entry, n cke.Node, t cke.Turn, again bool) verdict {
	if in.Identity.Freeze.HoldsQueued(r) {
		return pass()
	}
	silent := r.Silent || r.Agent != "" || !t.Boots && !in.answers(n)
	if !in.Seen.Etcd.Quorate || in.notMoved(n) != "" || t.Lease && in.needsLease(r, n) || !again && !silent && !in.answers(n) {
		return pass()
	}
	o := op.RunEntry{Entry: r, Node: in.node(n).Node, Command: t.Command, Limit: time.Duration(t.CommandTimeout), Image: in.Spec.Options.Etcd.Image,
		Unleased: !t.Lease, Silent: silent, Again: again, Ahead: in.Seen.ObservedAt.Sub(in.untilNow())}
	if j, carries := in.Identity.On(n); carries {
		j = in.reached(j)
		o.Join, o.Image = &j, j.Etcd.Image
		if again && t.Lease {
			o.Renew = in.leaseFor(r, n, t)
		}
	} else {
		o.Elsewhere = in.placed()
	}
	if why := in.noCommand(t); why != "" {
		return note(why).upkeep()
	}
	if r.Kind() == cke.RepairQueue {
		return upkeepBy(o, fmt.Sprintf("it is the turn of %s to be repaired: step %d, %s", r.Node, r.Step+1, t.Command))
	}
	return upkeepBy(o, "it is the turn of "+r.Node+" to be rebooted")
}

// needsLease reports whether the node of a member has lost the lease of its entry.
func (in *Input) needsLease(r cke.Entry, n cke.Node) bool {
	_, carries := in.Identity.On(n)
	return carries && in.leaseOf(r) == nil
}

// leaseFor is the lease that the node of an entry gets for an attempt.
func (in *Input) leaseFor(r cke.Entry, n cke.Node, t cke.Turn) *op.DrainNode {
	return &op.DrainNode{Node: n, Reason: string(r.Kind()), By: byQueue(r), For: t.LeaseFor() + in.behind(), Entry: r.ID, Queue: r.Kind()}
}
