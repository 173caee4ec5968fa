package strategy

import (
	"slices"
	"strings"
	"time"

	"cke"
	"cke/op"
)

// Input is all that Decide may know: what is declared, the identity of the cluster, the observation and recent failures.
type Input struct {
	// Spec is the declared cluster with defaults filled in, Generation its revision. While an import is reverted it wants no member; whole
	// is what the file declares.
	Spec       cke.Cluster
	whole      *cke.Cluster
	Generation int64
	// SetAt is when that revision was stored.
	SetAt    time.Time
	Deleting bool
	// DeletionAt is when the deletion was requested.
	DeletionAt time.Time
	// Deletion is the id of that request.
	Deletion string
	// Sealed: the deletion can no longer be canceled, and nodes are being marked.
	Sealed bool
	// Destroyed names the nodes that a deletion does not wait for, DestroyedIDs see cke.Spec.
	Destroyed, DestroyedIDs []string
	Identity                cke.Identity
	Seen                    cke.Observation
	// Requests is what operators requested.
	Requests cke.Requests
	// Backup is the status of the backups; nil: none are taken, or nothing is known yet.
	Backup *cke.BackupStatus
	// Inventory is the status of the inventory; nil: there is none, or nothing is known yet.
	Inventory *cke.InventoryStatus
	// UnderWay is what is known of reboots and repairs under way beside what is on record.
	UnderWay cke.QueuesSeen
	// Unclosed is why no task is carried out: a record of an earlier term cannot be read; nil otherwise.
	Unclosed *cke.Problem
	// LeadsSince is since when this daemon leads the cluster.
	LeadsSince time.Time
	// Before is the previous status; times of transition are read from it.
	Before cke.Status
	// Failures are the operations that failed since they last succeeded, keyed by FailureKey.
	Failures map[string]Failure
	// Completed are the operations that completed, keyed by FailureKey.
	Completed map[string]Completion

	// outdated are requests of a store that is older than the cluster.
	outdated []cke.Problem
	// heldQueued are entries of queues in such a store.
	heldQueued []cke.Problem
	// unrecordedStarts are the memberships that were started without a start on record; see noteStarts.
	unrecordedStarts []cke.JoinID
}

// Decision is what to do now: one operation or none, and always why.
type Decision struct {
	// Rule is the name of the rule that decided; empty: none applied. Held are the rules above it that apply and are held back.
	Rule string
	Held []string
	// Operation is nil when there is nothing to do, or when something has to be waited for.
	Operation op.Operation
	// Reason is a sentence for the operator; never empty.
	Reason string
	// Blockers are what is waited for, node by node.
	Blockers []cke.Problem
	// Frozen is why nothing may be changed until the operator decides; nil otherwise.
	Frozen *cke.Problem
	// Converged: everything is as declared. There may still be an operation, for upkeep.
	Converged bool
	// Upkeep: the operation maintains what is there, and is no step to what is declared.
	Upkeep bool
	// Task is the id of the task that the operation is for; empty: it is for none.
	Task string
	// Part: the task continues after the operation, whatever its result.
	Part bool
	// Again is after how long to observe again at the latest; zero: as usual.
	Again time.Duration
}

// Decide chooses exactly one operation, or none: that of the first phase that applies, else of the first duty whose operation can
// run. It is pure: it has no input but in, no clock but in.Seen.ObservedAt, and it always gives a reason.
func Decide(in Input) Decision { return decide(in, omission{}) }

// DecideChange is Decide without upkeep: it returns the next step to what the cluster file asks for, or why there is none.
func DecideChange(in Input) Decision { return decide(in, omission{upkeep: true}) }

// omission names what a decision leaves out of account.
type omission struct {
	upkeep    bool // operations that maintain what is there
	unnoticed bool // operations that keep nothing from being as the cluster file asks for
	backups   bool // backups that were asked for: they change nothing about a cluster
}

func (o omission) skips(v verdict) bool {
	return !v.given() || o.upkeep && v.Upkeep || o.unnoticed && v.quiet
}

func decide(in Input, omit omission) Decision {
	in.noteStarts()
	d := choose(&in, omit)
	if !omit.backups {
		d = withBackup(&in, d)
	}
	return untilLeasesEnd(&in, d)
}

func choose(in *Input, omit omission) Decision {
	for _, rule := range phases {
		if v := rule.judge(in); !omit.skips(v) {
			d := v.now(in)
			d.Rule = rule.name
			return d
		}
	}
	var held *Decision
	for _, rule := range duties {
		v := rule.judge(in)
		if omit.skips(v) {
			continue
		}
		d := v.now(in)
		if d.Operation == nil && v.yields() {
			before := d.beside(held) // a variable of its own: d stays off the heap
			before.Held = append(before.Held, rule.name)
			held = &before
			continue
		}
		d.Rule = rule.name
		return d.beside(held)
	}
	return Decision{Reason: "nothing to do", Converged: true}.beside(held)
}

// beside puts an operation that is held back before a decision that was made in spite of it.
func (d Decision) beside(held *Decision) Decision {
	if held == nil {
		return d
	}
	d.Held = held.Held
	nothing := d.Converged && d.Blockers == nil
	d.Converged = d.Converged && held.Converged
	switch {
	case d.Operation != nil:
		return d
	case nothing:
		return *held
	}
	blockers := slices.Clone(held.Blockers)
	for _, b := range d.Blockers {
		if !slices.ContainsFunc(held.Blockers, func(h cke.Problem) bool { return h.Code == b.Code && h.Node == b.Node }) {
			blockers = append(blockers, b)
		}
	}
	if len(d.Blockers) == 0 || len(blockers) > len(held.Blockers) {
		d.Reason = held.Reason + "; " + d.Reason
	} else { // it says nothing new
		d.Reason = held.Reason
	}
	d.Blockers = blockers
	if d.Again == 0 || held.Again > 0 && held.Again < d.Again {
		d.Again = held.Again
	}
	return d
}

// node returns what was seen of a machine; a machine that was not observed is a problem of its own.
func (in *Input) node(n cke.Node) cke.NodeStatus {
	for _, s := range in.Seen.Nodes {
		if s.Node.Address == n.Address {
			return s
		}
	}
	return cke.NodeStatus{Node: n, Problem: &cke.Problem{Code: cke.CodeUnreachable, Node: n.Name(), Message: "not observed yet"}}
}

// reached is a join whose node is reached as it is declared now: SSH access may have changed since it was made.
func (in *Input) reached(j cke.Join) cke.Join {
	j.Node = in.node(j.Node).Node
	return j
}

// Formed reports whether the cluster has served, or may have.
func (in *Input) Formed() bool {
	inc := in.Identity.Incarnation
	return inc != nil && inc.State == cke.Formed
}

// list joins the problems' messages, each behind its node.
func list(problems []cke.Problem) string {
	var all []string
	for _, p := range problems {
		if p.Node != "" {
			all = append(all, p.Node+": "+p.Message)
		} else {
			all = append(all, p.Message)
		}
	}
	return strings.Join(all, "; ")
}
