package cke

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of a reboot queue.
const (
	maxReboots       = 1000
	maxRebootHistory = 100
	// MaxCommandOutput is how many bytes of a command's output are kept, of which MaxStoredOutput are stored: the last ones.
	MaxCommandOutput = 64 << 10
	MaxStoredOutput  = 4 << 10
)

// RebootState is where an entry of the reboot queue stands. No state is an operation: waiting takes nothing.
type RebootState string

// States of an entry, in their order.
const (
	// RebootQueued: it waits for its turn.
	RebootQueued RebootState = "queued"
	// RebootLeased: the node has its lease and its member is stopped; the command is next.
	RebootLeased RebootState = "leased"
	// RebootRebooting: the attempt is on record, and the command was started or is about to be.
	RebootRebooting RebootState = "rebooting"
	// RebootReturning: the node has rebooted, and its member is to be in sync.
	RebootReturning RebootState = "returning"
	// RebootFailed: nothing is done for it before an operator decides.
	RebootFailed RebootState = "failed"
)

// RebootStates returns all of them.
func RebootStates() []RebootState {
	return []RebootState{RebootQueued, RebootLeased, RebootRebooting, RebootReturning, RebootFailed}
}

// RebootResult is how an entry left the queue, or failed in it.
type RebootResult string

// Results of reboots.
const (
	RebootDone       RebootResult = "done"
	RebootCanceled   RebootResult = "canceled"
	RebootUndeclared RebootResult = "undeclared" // the node left the cluster file
	RebootGaveUp     RebootResult = "failed"
)

// RebootResults returns all of them.
func RebootResults() []RebootResult {
	return []RebootResult{RebootDone, RebootCanceled, RebootUndeclared, RebootGaveUp}
}

// Boot is the evidence of which boot of a machine runs: the kernel's id of the boot, and when process 1 was started, in the
// kernel's ticks. The zero value is unknown. No clock is part of it.
type Boot struct {
	Kernel string `json:"kernel,omitempty"`
	Init   string `json:"init,omitempty"`
}

// Known reports whether there is evidence at all.
func (b Boot) Known() bool { return b != Boot{} }

// Reboots is the reboot queue of a cluster: one document, of which each change is a transaction.
type Reboots struct {
	// Disabled: no reboot is started. One under way is watched to its end.
	Disabled bool `json:"disabled,omitempty"`
	// Entries are in the order in which they were added.
	Entries []Reboot `json:"entries,omitempty"`
	// History are the last ones that left the queue, oldest first.
	History []EndedReboot `json:"history,omitempty"`
	// Counts is how many ended with each result since there is the queue.
	Counts map[RebootResult]int64 `json:"counts,omitempty"`
}

// Reboot is an entry of the queue.
type Reboot struct {
	// ID is new and random. The lease of the node has it, too.
	ID string `json:"id"`
	// Node and Address are as declared when it was added. The address identifies the node.
	Node    string      `json:"node"`
	Address string      `json:"address"`
	State   RebootState `json:"state"`
	Reason  string      `json:"reason,omitempty"`
	By      string      `json:"by,omitempty"` // user@host
	AddedAt time.Time   `json:"addedAt"`
	// Since is when the state was entered.
	Since time.Time `json:"since"`
	// Attempt counts the commands that were started; StartedAt is when the last one was, Boot the evidence before it.
	Attempt   int       `json:"attempt,omitempty"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	Boot      Boot      `json:"boot,omitzero"`
	// CommandEndedAt is when the command of the attempt ended; zero: that is not known, and it is run again unless the
	// machine has rebooted.
	CommandEndedAt time.Time `json:"commandEndedAt,omitzero"`
	// Error is what went wrong last, Output the end of what the command wrote.
	Error  string `json:"error,omitempty"`
	Output string `json:"output,omitempty"`
	// Canceled: an operator canceled it under way. It is watched to its end, and not attempted again.
	Canceled bool `json:"canceled,omitempty"`
	// Skipped: it failed, and an operator lets the others continue all the same.
	Skipped bool `json:"skipped,omitempty"`
}

// Active reports whether its node is not where the others may rely on it.
func (r Reboot) Active() bool {
	return r.State == RebootLeased || r.State == RebootRebooting || r.State == RebootReturning
}

// Blocks reports whether it failed and nodes with members wait for an operator.
func (r Reboot) Blocks() bool { return r.State == RebootFailed && !r.Skipped }

// EndedReboot is an entry that left the queue.
type EndedReboot struct {
	ID      string       `json:"id"`
	Node    string       `json:"node"`
	Address string       `json:"address"`
	Result  RebootResult `json:"result"`
	Reason  string       `json:"reason,omitempty"`
	By      string       `json:"by,omitempty"`
	AddedAt time.Time    `json:"addedAt"`
	// StartedAt is when the last command was started; zero: none was.
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt"`
	Attempts  int       `json:"attempts,omitempty"`
	Error     string    `json:"error,omitempty"`
}

// Took returns how long the reboot took from its last command on; 0: no command was started.
func (e EndedReboot) Took() time.Duration {
	if e.StartedAt.IsZero() {
		return 0
	}
	return max(0, e.EndedAt.Sub(e.StartedAt))
}

// Of returns the entry of a node; nil: it has none.
func (q Reboots) Of(address string) *Reboot {
	for i := range q.Entries {
		if q.Entries[i].Address == address {
			return &q.Entries[i]
		}
	}
	return nil
}

// named returns the entry of a node by its name or its address; nil: it has none.
func (q Reboots) named(node string) *Reboot {
	for i := range q.Entries {
		if r := &q.Entries[i]; r.Node == node || r.Address == node {
			return r
		}
	}
	return nil
}

// Entry returns the entry with this id.
func (q Reboots) Entry(id string) (Reboot, bool) {
	for _, r := range q.Entries {
		if r.ID == id {
			return r, true
		}
	}
	return Reboot{}, false
}

// Add returns the queue with these nodes at its end, all or none.
func (q Reboots) Add(nodes []Node, reason, by string, now time.Time) (Reboots, error) {
	q.Entries = slices.Clone(q.Entries)
	for _, n := range nodes {
		if r := q.Of(n.Address); r != nil {
			return q, &Error{Code: CodeConflict, What: fmt.Sprintf("%s is in the reboot queue already (%s)", n.Name(), r.State), Unchanged: true, Try: "ckecli reboot-queue list", Err: ErrConflict}
		}
		q.Entries = append(q.Entries, Reboot{ID: randomID(), Node: n.Name(), Address: n.Address, State: RebootQueued, Reason: reason, By: by, AddedAt: now.UTC(), Since: now.UTC()})
	}
	if len(q.Entries) > maxReboots {
		return q, &Error{Code: CodeCannot, What: fmt.Sprintf("the reboot queue would have %d entries", len(q.Entries)), Facts: []string{fmt.Sprintf("it holds %d", maxReboots)}, Unchanged: true}
	}
	return q, nil
}

// Cancel returns the queue with the entries of these nodes canceled, all or none. What is under way is watched to its end.
func (q Reboots) Cancel(nodes []string, now time.Time) (Reboots, error) {
	return q.each(nodes, func(q Reboots, r *Reboot) (Reboots, error) {
		if r.Active() {
			r.Canceled = true
			return q, nil
		}
		return q.end(*r, RebootCanceled, now), nil
	})
}

// Retry returns the queue with the failed entries of these nodes queued again, all or none.
func (q Reboots) Retry(nodes []string, now time.Time) (Reboots, error) {
	return q.each(nodes, func(q Reboots, r *Reboot) (Reboots, error) {
		if r.State != RebootFailed {
			return q, notFailed(*r, "be retried")
		}
		*r = Reboot{ID: r.ID, Node: r.Node, Address: r.Address, Reason: r.Reason, By: r.By, AddedAt: r.AddedAt, State: RebootQueued, Since: now.UTC(), Error: r.Error}
		return q, nil
	})
}

// Skip returns the queue in which the failed entries of these nodes keep no other node waiting, all or none.
func (q Reboots) Skip(nodes []string) (Reboots, error) {
	return q.each(nodes, func(q Reboots, r *Reboot) (Reboots, error) {
		if r.State != RebootFailed {
			return q, notFailed(*r, "be skipped")
		}
		r.Skipped = true
		return q, nil
	})
}

func notFailed(r Reboot, what string) *Error {
	return &Error{Code: CodeCannot, What: fmt.Sprintf("the reboot of %s cannot %s: it is %s, not failed", r.Node, what, r.State), Unchanged: true, Try: "ckecli reboot-queue list"}
}

// each changes the entries of these nodes in a copy.
func (q Reboots) each(nodes []string, do func(Reboots, *Reboot) (Reboots, error)) (Reboots, error) {
	q.Entries = slices.Clone(q.Entries)
	for _, node := range nodes {
		r := q.named(node)
		if r == nil {
			return q, &Error{Code: CodeCannot, What: fmt.Sprintf("%s is not in the reboot queue", node), Unchanged: true, Try: "ckecli reboot-queue list", Err: ErrNotFound}
		}
		var err error
		if q, err = do(q, r); err != nil {
			return q, err
		}
	}
	return q, nil
}

// Moved returns the queue with one entry changed, which must be as it was seen. ErrConflict: it is not.
func (q Reboots) Moved(seen Reboot, do func(*Reboot)) (Reboots, error) {
	q.Entries = slices.Clone(q.Entries)
	for i := range q.Entries {
		if r := &q.Entries[i]; r.ID == seen.ID && r.same(seen) {
			do(r)
			return q, nil
		}
	}
	return q, fmt.Errorf("the reboot of %s is no longer %s: %w", seen.Node, seen.State, ErrConflict)
}

// same reports whether nothing was decided about an entry since it was seen.
func (r Reboot) same(seen Reboot) bool {
	return r.State == seen.State && r.Attempt == seen.Attempt && r.Canceled == seen.Canceled && r.Since.Equal(seen.Since)
}

// To returns the entry in another state.
func (r *Reboot) To(s RebootState, now time.Time) { r.State, r.Since = s, now.UTC() }

// Ended returns the queue without an entry, which must be as it was seen, and its result in the history. ErrConflict: it is not.
func (q Reboots) Ended(seen Reboot, result RebootResult, why string, now time.Time) (Reboots, error) {
	r, there := q.Entry(seen.ID)
	if !there || !r.same(seen) {
		return q, fmt.Errorf("the reboot of %s is no longer %s: %w", seen.Node, seen.State, ErrConflict)
	}
	r.Error = cmp.Or(why, r.Error)
	return q.end(r, result, now), nil
}

// end is Ended for an entry that is there.
func (q Reboots) end(r Reboot, result RebootResult, now time.Time) Reboots {
	q.Entries = slices.DeleteFunc(slices.Clone(q.Entries), func(o Reboot) bool { return o.ID == r.ID })
	e := EndedReboot{ID: r.ID, Node: r.Node, Address: r.Address, Result: result, Reason: r.Reason, By: r.By, AddedAt: r.AddedAt, StartedAt: r.StartedAt, EndedAt: now.UTC(), Attempts: r.Attempt, Error: r.Error}
	if result == RebootDone {
		e.Error = ""
	}
	q.History = append(slices.Clone(q.History), e)
	q.History = q.History[max(0, len(q.History)-maxRebootHistory):]
	return q.Counted(result)
}

// Counted returns the queue with one more of a result.
func (q Reboots) Counted(result RebootResult) Reboots {
	counts := map[RebootResult]int64{}
	for k, n := range q.Counts {
		counts[k] = n
	}
	counts[result]++
	q.Counts = counts
	return q
}

// CommandRun is one run of a command of the daemon's configuration for an entry of the reboot queue.
type CommandRun struct {
	// Name is that in the configuration.
	Name string
	// Reboot and Attempt say for what it runs.
	Reboot  string
	Attempt int
	Cluster string
	Node    Node
	// Limit is its deadline.
	Limit time.Duration
}

// Environment returns the variables that the command gets besides those of the daemon.
func (c CommandRun) Environment() []string {
	return []string{"CKE_CLUSTER=" + c.Cluster, "CKE_NODE=" + c.Node.Name(), "CKE_ADDRESS=" + c.Node.Address,
		"CKE_SERIAL=" + c.Node.Annotations[AnnotationSerial], fmt.Sprintf("CKE_ATTEMPT=%d", c.Attempt)}
}

// CommandEnd is how a command ended.
type CommandEnd struct {
	At time.Time
	// Error is why it failed; empty: it did not.
	Error string
	// Output is what it wrote, at most MaxCommandOutput bytes from the end.
	Output string
}

// StoredOutput is the end of the output, as it is put on record.
func (e CommandEnd) StoredOutput() string {
	out := strings.ToValidUTF8(e.Output[max(0, len(e.Output)-MaxStoredOutput):], "�")
	return strings.TrimSpace(out)
}

// RebootSeen is what is known of a reboot under way beside what is on record.
type RebootSeen struct {
	Reboot  string
	Attempt int
	// Running: the command runs. Ended is how it ended; nil: it did not, or this daemon did not run it.
	Running bool
	Ended   *CommandEnd
	// Boot is the evidence that the node showed last, at BootAt; unknown: it showed none. BootError is why.
	Boot      Boot
	BootAt    time.Time
	BootError string
	// Checked: the check said that the node is ready. CheckError is why not.
	Checked    bool
	CheckError string
}

// RebootsSeen is what runs beside the loop for reboots.
type RebootsSeen struct {
	// Commands are the names of those in the daemon's configuration.
	Commands []string
	Seen     []RebootSeen
}

// Of returns what is known of an attempt.
func (s RebootsSeen) Of(r Reboot) RebootSeen {
	for _, seen := range s.Seen {
		if seen.Reboot == r.ID && seen.Attempt == r.Attempt {
			return seen
		}
	}
	return RebootSeen{}
}

// RebootsStatus is the reboot queue as the leader reports it.
type RebootsStatus struct {
	Disabled bool           `json:"disabled,omitempty"`
	Entries  []RebootStatus `json:"entries"`
	// Last is the reboot that left the queue last; nil: none has.
	Last *EndedReboot `json:"last,omitempty"`
	// Counts is how many ended with each result.
	Counts map[RebootResult]int64 `json:"counts,omitempty"`
	// WaitsSince is since when the first entry that could be next has waited for what only an operator or a repair ends; zero: none does.
	WaitsSince time.Time `json:"waitsSince,omitzero"`
}

// RebootStatus is an entry with what it waits for.
type RebootStatus struct {
	Reboot
	// Waits is what it waits for.
	Waits string `json:"waits,omitempty"`
}
