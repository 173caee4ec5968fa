package strategy

import (
	"time"

	"cke"
	"cke/op"
)

// verdict is what one rule answers: pass, act, wait or note.
type verdict struct {
	Decision
	kind kind
	// optional: the cluster serves as well without the operation; the policies of the cluster file say when it may run.
	optional bool
	// exclusive: while the operation is held back, the rules below are not asked.
	exclusive bool
	// quiet: the operation changes nothing that the cluster file asks for and interrupts nobody.
	quiet bool
	// patience is the shortest pause after a failure; zero: that of every operation.
	patience time.Duration
}

// kind is what a verdict asks for.
type kind int

const (
	passes kind = iota // the case is not given
	acts               // an operation is to run
	waits              // nothing is done, and no rule below is asked
	notes              // nothing is done for this, and the rules below are asked
)

// pass answers that the case of the rule is not given.
func pass() verdict { return verdict{} }

// act answers with an operation. While it is held back, the rules below are asked, unless it is alone.
func act(o op.Operation, reason string) verdict {
	return verdict{kind: acts, Decision: Decision{Operation: o, Reason: reason}}
}

// wait answers that nothing may be done before something has happened. No rule below is asked.
func wait(reason string, blockers ...cke.Problem) verdict {
	return verdict{kind: waits, Decision: Decision{Reason: reason, Blockers: blockers}}
}

// note answers that the rule itself has to wait. The rules below are asked: what it waits for may be theirs to do.
func note(reason string, blockers ...cke.Problem) verdict {
	return verdict{kind: notes, Decision: Decision{Reason: reason, Blockers: blockers}}
}

// given reports whether the rule has anything to say.
func (v verdict) given() bool { return v.kind != passes }

// yields reports whether the rules below are asked while nothing is done for this one.
func (v verdict) yields() bool { return v.kind == notes || v.kind == acts && !v.exclusive }

// now returns the decision, with the operation held back by a wrong clock, by the policies, or after a failure.
func (v verdict) now(in *Input) Decision {
	d := v.Decision
	d.Operation = pinVolumes(in, d.Operation)
	d = withClock(in, d)
	if v.optional {
		d = withConsent(in, d)
	}
	return backOff(in, d, v.patience)
}

// again sets when to observe again at the latest.
func (v verdict) again(d time.Duration) verdict { v.Again = d; return v }

// blocked names what else is waited for.
func (v verdict) blocked(by []cke.Problem) verdict { v.Blockers = by; return v }

// voluntary marks an operation without which the cluster serves as well.
func (v verdict) voluntary() verdict { v.optional = true; return v }

// upkeep marks an operation that maintains what is there and is no step to what the cluster file asks for.
func (v verdict) upkeep() verdict { v.Upkeep, v.Converged = true, true; return v }

// alone marks an operation that everything below depends on.
func (v verdict) alone() verdict { v.exclusive = true; return v }

// unnoticed marks an operation that keeps nothing from being as the cluster file asks for.
func (v verdict) unnoticed() verdict { v.quiet = true; return v }

// patient sets the shortest pause after a failure of the operation.
func (v verdict) patient(d time.Duration) verdict { v.patience = d; return v }

// decides is the verdict that the decisions of other code amount to: an operation, or the wait for something.
func decides(d Decision) verdict {
	if d.Operation == nil {
		return verdict{kind: waits, Decision: d}
	}
	return verdict{kind: acts, Decision: d}
}
