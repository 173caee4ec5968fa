package strategy

import (
	"cmp"
	"fmt"
	"time"

	"cke"
	"cke/op"
)

const (
	// inSyncFor is how long the member of a node that rebooted is in sync before the reboot is done.
	inSyncFor = 30 * time.Second
	// commandWithin is how long the command of a node that is leased may be impossible to start.
	commandWithin = 10 * time.Minute
)

// rebootsUnderWay: what is known of a reboot under way is not on record yet. It is above the rule for no quorum: the lease of a
// node that is back must end, since its member may be what a quorum lacks.
func rebootsUnderWay(in *Input) verdict {
	if in.Seen.Partial {
		return pass()
	}
	for _, r := range in.Requests.Reboots.Entries {
		n, declared := in.rebootNode(r)
		if !declared {
			return upkeepBy(op.NoteReboot{Reboot: r, Result: cke.RebootUndeclared, Release: r.Active(), Why: "the node left the cluster file"}, r.Node+" left the cluster file, and leaves the reboot queue")
		}
		var v verdict
		switch r.State {
		case cke.RebootLeased:
			v = in.leasedReboot(r, n)
		case cke.RebootRebooting:
			v = in.rebooting(r, n)
		case cke.RebootReturning:
			v = in.returning(r, n)
		}
		if v.given() {
			return v
		}
	}
	return pass()
}

// upkeepBy acts on what keeps nothing from being as declared.
func upkeepBy(o op.Operation, reason string) verdict { return act(o, reason).upkeep().unnoticed() }

// rebootNode is the node of an entry, as it is declared now.
func (in *Input) rebootNode(r cke.Reboot) (cke.Node, bool) {
	for _, n := range in.Spec.Nodes {
		if n.Address == r.Address {
			return n, true
		}
	}
	return cke.Node{}, false
}

// leasedReboot: a node whose member is stopped goes back into the queue, or out of it, if its command is not to be started.
func (in *Input) leasedReboot(r cke.Reboot, n cke.Node) verdict {
	_, carries := in.Identity.On(n)
	switch {
	case r.Canceled:
		return upkeepBy(op.NoteReboot{Reboot: r, Result: cke.RebootCanceled, Release: true}, "the reboot of "+r.Node+" is canceled")
	case carries && in.rebootLease(r) == nil:
		return upkeepBy(op.NoteReboot{Reboot: r, To: cke.RebootQueued, Why: "its lease is over"}, r.Node+" is queued again: its lease is over")
	case carries && !in.Seen.Etcd.Quorate:
		return upkeepBy(op.NoteReboot{Reboot: r, To: cke.RebootQueued, Release: true, Why: "the quorum was lost"}, r.Node+" is queued again: there is no quorum, and its member may help")
	case in.waited(r.Since) > commandWithin:
		why := "its command could not be started for " + commandWithin.String()
		if f, failed := in.Failures[FailureKey(op.RunReboot{Reboot: r})]; failed {
			why += ": " + f.Error
		}
		return upkeepBy(op.NoteReboot{Reboot: r, To: cke.RebootFailed, Result: cke.RebootGaveUp, Release: true, Why: why}, "the reboot of "+r.Node+" failed: "+why)
	}
	return pass()
}

// rebootLease is the lease of an entry that lasts; nil: there is none.
func (in *Input) rebootLease(r cke.Reboot) *cke.Drain {
	for _, d := range in.leases() {
		if d.Reboot == r.ID {
			return &d
		}
	}
	return nil
}

// rebooting: the command was started, or is to be started once more.
func (in *Input) rebooting(r cke.Reboot, n cke.Node) verdict {
	seen, o := in.Reboots.Of(r), in.Spec.Reboot
	if why := in.notBack(r, n); why == "" {
		return upkeepBy(op.NoteReboot{Reboot: r, To: cke.RebootReturning, Release: true}, r.Node+" has rebooted")
	}
	ended := !r.CommandEndedAt.IsZero()
	if !ended && seen.Ended != nil {
		how := "ended"
		if seen.Ended.Error != "" {
			how = "failed: " + seen.Ended.Error
		}
		return upkeepBy(op.NoteReboot{Reboot: r, Ended: seen.Ended}, "the command for "+r.Node+" "+how)
	}
	answers := in.answers(n)
	same := answers && r.Boot.Known() && seen.Boot == r.Boot
	waited, limit := in.waited(r.StartedAt), time.Duration(o.CommandTimeout+o.BootTimeout)
	if ended {
		waited, limit = in.waited(r.CommandEndedAt), time.Duration(o.BootTimeout)
	}
	switch {
	case waited > limit:
		return in.attemptFailed(r, cmp.Or(r.Error, "it did not return from its reboot")+fmt.Sprintf(" (waited %s)", o.BootTimeout.Short()))
	case ended && r.Error != "" && same && seen.BootAt.After(r.CommandEndedAt) && waited >= time.Duration(o.Interval):
		return in.attemptFailed(r, r.Error)
	case ended, seen.Running, !same && (answers || r.Boot.Known()):
		return pass()
	case r.Canceled:
		return in.attemptFailed(r, "it is not known whether its command ran")
	}
	return in.runReboot(r, n, true)
}

// answers reports whether a node answers in full.
func (in *Input) answers(n cke.Node) bool {
	s := in.node(n)
	return s.Answered()
}

// notBack is why a node has not returned from its reboot; empty: it has.
func (in *Input) notBack(r cke.Reboot, n cke.Node) string {
	seen := in.Reboots.Of(r)
	switch {
	case !in.answers(n):
		return "it does not answer"
	case !seen.Boot.Known():
		return "which boot of it runs is not known" + because(seen.BootError)
	case r.Boot.Known() && seen.Boot == r.Boot:
		return "it has not rebooted yet"
	case !r.Boot.Known() && (r.CommandEndedAt.IsZero() || !seen.BootAt.After(r.CommandEndedAt)):
		return "its command has not ended"
	case in.Spec.Reboot.Check != "" && !seen.Checked:
		return "the check " + in.Spec.Reboot.Check + " does not pass" + because(seen.CheckError)
	}
	return ""
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// attemptFailed gives the lease back, and queues the node again while attempts are left.
func (in *Input) attemptFailed(r cke.Reboot, why string) verdict {
	o := op.NoteReboot{Reboot: r, Release: true, Why: why}
	left := in.Spec.Reboot.Attempts() - r.Attempt
	switch {
	case r.Canceled:
		o.Result = cke.RebootCanceled
		return upkeepBy(o, "the reboot of "+r.Node+" is canceled: "+why)
	case left > 0 && r.State == cke.RebootRebooting:
		o.To = cke.RebootQueued
		return upkeepBy(o, fmt.Sprintf("attempt %d to reboot %s failed, %s: %s", r.Attempt, r.Node, cke.Plural(left, "more attempt follows", "more attempts follow"), why))
	}
	o.To, o.Result = cke.RebootFailed, cke.RebootGaveUp
	return upkeepBy(o, "the reboot of "+r.Node+" failed: "+why)
}

// returning: the node has rebooted, and its member is to be in sync.
func (in *Input) returning(r cke.Reboot, n cke.Node) verdict {
	why := in.notInSync(r, n)
	if why == "" {
		return upkeepBy(op.NoteReboot{Reboot: r, Result: cke.RebootDone, Release: true}, "the reboot of "+r.Node+" is done")
	}
	if limit := in.Spec.Reboot.BootTimeout; in.waited(r.Since) > time.Duration(limit) {
		return in.attemptFailed(r, fmt.Sprintf("%s (waited %s)", why, limit.Short()))
	}
	return pass()
}

// notInSync is why the member of a node that rebooted is not in sync, or the node does not answer; empty: all is well.
func (in *Input) notInSync(r cke.Reboot, n cke.Node) string {
	if !in.answers(n) {
		return "it does not answer"
	}
	j, carries := in.Identity.On(n)
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

// runReboot starts the command of a node.
func (in *Input) runReboot(r cke.Reboot, n cke.Node, again bool) verdict {
	o := op.RunReboot{Reboot: r, Node: in.node(n).Node, Command: in.Spec.Reboot.Command, Limit: time.Duration(in.Spec.Reboot.CommandTimeout), Image: in.Spec.Options.Etcd.Image,
		Silent: !in.answers(n), Again: again}
	if j, carries := in.Identity.On(n); carries {
		if in.rebootLease(r) == nil || !in.Seen.Etcd.Quorate {
			return pass()
		}
		j = in.reached(j)
		o.Join, o.Image = &j, j.Etcd.Image
	}
	if why := in.noCommand(); why != "" {
		return note(why).upkeep()
	}
	return upkeepBy(o, "it is the turn of "+r.Node+" to be rebooted")
}
