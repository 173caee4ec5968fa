package strategy

import (
	"fmt"
	"time"

	"cke"
	"cke/internal/schedule"
	"cke/op"
)

// paused: an operator asked that nothing be changed. Observation continues.
func paused(in *Input) verdict {
	if !in.held() {
		return pass()
	}
	d := Decision{Reason: "paused: " + in.Requests.Hold.Reason}
	if in.Requests.Hold.By != "" {
		d.Reason = fmt.Sprintf("paused by %s: %s", in.Requests.Hold.By, in.Requests.Hold.Reason)
	}
	if !in.Requests.Hold.Until.IsZero() {
		d.Again = in.Requests.Hold.Until.Sub(in.untilNow())
	}
	if o, stopped := writesStopped(in); stopped {
		d.Operation = o
	}
	return decides(d)
}

// withConsent holds an operation back that the file's policy does not allow now. What was started is finished: a learner
// that is half added would keep every other change waiting. And what was lost is put back: no operator asked for one member
// fewer. Without a quorum nothing serves that a policy could protect.
func withConsent(in *Input, d Decision) Decision {
	if d.Operation == nil || !in.Seen.Etcd.Quorate {
		return d
	}
	if a, ok := d.Operation.(op.AddMember); ok {
		if _, repairs := in.repaired(a.Node); repairs || a.Resume != "" {
			return d
		}
	}
	why, again := noConsent(in)
	if why == "" {
		return d
	}
	return Decision{Reason: fmt.Sprintf("%s; %s waits: %s", d.Reason, d.Operation.Name(), why), Again: again}
}

// noConsent is why changes wait, and for how long at the least; "" when they need not.
func noConsent(in *Input) (why string, again time.Duration) {
	released := in.Requests.Applied >= in.Generation && in.Generation > 0
	switch p := in.Spec.Policies; {
	case p.Reconcile == cke.ReconcileManual && !released:
		return fmt.Sprintf("revision %d is applied after `ckecli cluster apply` (reconcile: manual)", in.Generation), 0
	case p.Reconcile == cke.ReconcileWindow && !released:
		if why := ClocksIn(in.Seen).Why(); why != "" {
			return "it is not known whether a maintenance window is open: " + why, 0
		}
		open, next := windowAt(p.Window, in.Seen.ObservedAt)
		if open {
			return "", 0
		}
		if next.IsZero() {
			return "the maintenance window of the cluster file is invalid", 0
		}
		return "the next maintenance window starts at " + next.Format(time.RFC3339), next.Sub(in.Seen.ObservedAt)
	}
	return "", 0
}

// windowAt reports whether a window is open at a time, and when the next one starts; a zero time when its schedule or
// its time zone cannot be read, and then it is shut.
func windowAt(w cke.Window, now time.Time) (open bool, next time.Time) {
	due, err := schedule.Parse(w.Schedule, w.TimeZone)
	if err != nil {
		return false, time.Time{}
	}
	if begun := due.Next(now.Add(-time.Duration(w.Duration))); !begun.IsZero() && !begun.After(now) {
		return true, begun
	}
	return false, due.Next(now)
}
