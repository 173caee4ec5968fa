package strategy

import (
	"fmt"

	"cke"
)

// outForReboot is the lease of a node without a member that reboots: it gets no member meanwhile. Nil: it does not reboot.
func (in *Input) outForReboot(n cke.Node) *cke.Drain {
	r := in.Requests.Reboots.Of(n.Address)
	if r == nil || !r.Active() {
		return nil
	}
	if _, carries := in.Identity.On(n); carries {
		return nil
	}
	return &cke.Drain{Node: n.Name(), Address: n.Address, Reason: "reboot", By: "the reboot queue", Since: r.Since, Until: r.Since.Add(in.Spec.Reboot.Lease()), Reboot: r.ID}
}

// rebootsStatus is the queue with what each entry waits for; nil: it was never used.
func rebootsStatus(in *Input) *cke.RebootsStatus {
	q := in.Requests.Reboots
	if !q.Disabled && len(q.Entries) == 0 && len(q.History) == 0 {
		return nil
	}
	s := &cke.RebootsStatus{Disabled: q.Disabled, Counts: q.Counts, Entries: []cke.RebootStatus{}}
	if n := len(q.History); n > 0 {
		s.Last = &q.History[n-1]
	}
	_, waits := in.nextReboot()
	for _, r := range q.Entries {
		e := cke.RebootStatus{Reboot: r}
		n, declared := in.rebootNode(r)
		switch {
		case !declared:
			e.Waits = "it left the cluster file"
		case r.State == cke.RebootQueued:
			e.Waits = waits[r.ID]
		case r.State == cke.RebootRebooting:
			e.Waits = in.notBack(r, n)
		case r.State == cke.RebootReturning:
			e.Waits = in.notInSync(r, n)
		case r.State == cke.RebootFailed:
			e.Waits = r.Error
		}
		s.Entries = append(s.Entries, e)
	}
	return s
}

// rebootProblems are the reboots that wait for an operator.
func rebootProblems(in *Input) []cke.Problem {
	var all []cke.Problem
	for _, r := range in.Requests.Reboots.Entries {
		if r.State != cke.RebootFailed {
			continue
		}
		p := cke.Problem{Code: cke.CodeReboot, Node: r.Node, Message: "its reboot failed: " + r.Error, Since: r.Since,
			Remedy: fmt.Sprintf("repair it, then ckecli reboot-queue retry %[1]s, or cancel %[1]s; skip %[1]s lets the others continue", r.Node)}
		if r.Skipped {
			p.Remedy = fmt.Sprintf("repair it, then ckecli reboot-queue retry %[1]s, or cancel %[1]s", r.Node)
		}
		all = append(all, p)
	}
	if q := in.Requests.Reboots; len(in.rebootOrder()) > 0 && !q.Disabled && in.noCommand() != "" {
		all = append(all, cke.Problem{Code: cke.CodeReboot, Message: "no node of the reboot queue can be rebooted: " + in.noCommand(),
			Remedy: "name a command in reboot.command of the cluster file, and give it its program in commands of the daemon's configuration"})
	}
	return all
}
