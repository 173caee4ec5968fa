package strategy

import (
	"cmp"
	"fmt"

	"cke"
	"cke/op"
)

// outForQueue is the lease of a node without a member that reboots or is repaired: it gets no member meanwhile.
// Nil: it does not. It has no end but that of the entry.
func (in *Input) outForQueue(n cke.Node) *cke.Drain {
	if _, carries := in.Identity.On(n); carries || in.notMoved(n) != "" {
		return nil
	}
	for _, r := range in.Requests.Queued() {
		if r.Address == n.Address && r.Active() {
			return &cke.Drain{Node: n.Name(), Address: n.Address, Reason: string(r.Kind()), By: byQueue(r), Since: r.Since, Entry: r.ID, Queue: r.Kind()}
		}
	}
	return nil
}

// queueStatus is a queue with what each entry waits for; nil: it was never used.
func queueStatus(in *Input, d Decision, k cke.QueueKind) *cke.QueueStatus {
	q := in.Requests.Queue(k)
	if !q.Disabled && len(q.Entries) == 0 && len(q.History) == 0 {
		return nil
	}
	s := &cke.QueueStatus{Disabled: q.Disabled, Counts: q.Counts, Entries: []cke.EntryStatus{}}
	if n := len(q.History); n > 0 {
		s.Last = &q.History[n-1]
	}
	_, waits, _ := in.nextEntry()
	rests := in.queuesRest(d)
	for _, r := range q.Entries {
		e := cke.EntryStatus{Entry: r}
		n, declared := in.nodeOf(r)
		t, _ := in.Spec.Turn(r, n)
		switch {
		case !declared:
			e.Waits = "it left the cluster file"
		case r.State == cke.EntryQueued:
			e.Waits = cmp.Or(rests, waits[r.ID])
		case r.State == cke.EntryLeased:
			e.Waits = cmp.Or(rests, in.notStarted(r, t))
		case r.Acting():
			e.Waits = in.notBack(r, n, t)
		case r.State == cke.EntryReturning:
			e.Waits = in.notInSync(r, n)
		case r.State == cke.EntryFailed:
			e.Waits = r.Error
		}
		s.Entries = append(s.Entries, e)
	}
	return s
}

// queuesRest is why nothing of the queues is done in the phase that the cluster is in; empty: it is.
func (in *Input) queuesRest(d Decision) string {
	switch {
	case d.Frozen != nil:
		return "the cluster is frozen"
	case in.held():
		return "the cluster is paused"
	case in.hibernates():
		return "the cluster is hibernated"
	case !in.Formed():
		return "the cluster is not formed"
	}
	return ""
}

// notStarted is why the command of a node that has its lease was not started yet.
func (in *Input) notStarted(r cke.Entry, t cke.Turn) string {
	if why := in.noCommand(t); why != "" {
		return why
	}
	if f, failed := in.Failures[FailureKey(op.RunEntry{Entry: r})]; failed {
		return f.Error
	}
	return "its command is about to be started"
}

// queueCodes are the problems of each queue.
var queueCodes = map[cke.QueueKind]cke.Code{cke.RebootQueue: cke.CodeReboot, cke.RepairQueue: cke.CodeRepair}

// queueProblems are the reboots and repairs that wait for an operator.
func queueProblems(in *Input) []cke.Problem {
	var all []cke.Problem
	for _, r := range in.Requests.Queued() {
		if r.State != cke.EntryFailed {
			continue
		}
		use := r.Kind().Command()
		p := cke.Problem{Code: queueCodes[r.Kind()], Node: r.Node, Message: fmt.Sprintf("its %s failed: %s", r.Kind(), r.Error), Since: r.Since,
			Remedy: fmt.Sprintf("repair it, then %[2]s retry %[1]s, or cancel %[1]s; skip %[1]s lets nodes without a member continue, and the others once all members serve", r.Node, use)}
		switch {
		case r.Agent != "":
			p.Remedy = fmt.Sprintf("repair it and start its agent, or dismiss its request with %s cancel %s", use, r.Node)
		case r.Skipped:
			p.Remedy = fmt.Sprintf("repair it, then %[2]s retry %[1]s, or cancel %[1]s", r.Node, use)
		}
		all = append(all, p)
	}
	told := map[string]bool{}
	for _, r := range in.queueOrder() {
		n, _ := in.nodeOf(r)
		t, known := in.Spec.Turn(r, n)
		k := r.Kind()
		if in.Requests.Queue(k).Disabled || !known && k == cke.RepairQueue || r.Agent != "" {
			continue
		}
		if why := in.noCommand(t); why != "" && !told[why] {
			told[why] = true
			all = append(all, cke.Problem{Code: queueCodes[k], Message: fmt.Sprintf("no node of the %s queue can be %sed: %s", k, k, why),
				Remedy: fmt.Sprintf("name a command in %s of the cluster file, and give it its program in commands of the daemon's configuration", k)})
		}
	}
	return all
}
