package cke

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// QueueKind is what is done with the nodes of a queue.
type QueueKind string

// Queues.
const (
	RebootQueue QueueKind = "reboot"
	RepairQueue QueueKind = "repair"
)

// QueueKinds returns all of them.
func QueueKinds() []QueueKind { return []QueueKind{RebootQueue, RepairQueue} }

// Command is the one with which operators use the queue.
func (k QueueKind) Command() string { return "ckecli " + string(k) + "-queue" }

// Acting is the state of an entry whose command was started.
func (k QueueKind) Acting() EntryState {
	if k == RepairQueue {
		return EntryRepairing
	}
	return EntryRebooting
}

// Bounds of a queue.
const (
	maxQueued       = 1000
	maxQueueHistory = 100
	// maxReason is how long the reason of an entry may be, in bytes.
	maxReason = 300
	// maxQueueBytes is how large the document may be, maxAddedBytes when entries are added. The store takes requests of 1.5 MiB.
	maxQueueBytes = 5 << 18
	maxAddedBytes = 3 << 18
)

// EntryState is where an entry of a queue stands. No state is an operation: waiting takes nothing.
type EntryState string

// States of an entry, in their order.
const (
	// EntryQueued: it waits for its turn.
	EntryQueued EntryState = "queued"
	// EntryLeased: the node has its lease and its member is stopped; the command is next.
	EntryLeased EntryState = "leased"
	// EntryRebooting, of a reboot, and EntryRepairing: the attempt is on record, and the command was started or is about to be.
	EntryRebooting EntryState = "rebooting"
	EntryRepairing EntryState = "repairing"
	// EntryReturning: the node is back, and its member is to be in sync.
	EntryReturning EntryState = "returning"
	// EntryFailed: nothing is done for it before an operator decides.
	EntryFailed EntryState = "failed"
)

// States returns those of the entries of a queue.
func (k QueueKind) States() []EntryState {
	return []EntryState{EntryQueued, EntryLeased, k.Acting(), EntryReturning, EntryFailed}
}

// EntryResult is how an entry left the queue, or failed in it.
type EntryResult string

// Results of reboots and repairs.
const (
	EntryDone       EntryResult = "done"
	EntryCanceled   EntryResult = "canceled"
	EntryUndeclared EntryResult = "undeclared" // the node left the cluster file
	EntryGaveUp     EntryResult = "failed"
)

// EntryResults returns all of them.
func EntryResults() []EntryResult {
	return []EntryResult{EntryDone, EntryCanceled, EntryUndeclared, EntryGaveUp}
}

// Boot is the evidence of which boot of a machine runs: the kernel's id of the boot, and when process 1 was started, in the
// kernel's ticks. The zero value is unknown. No clock is part of it.
type Boot struct {
	Kernel string `json:"kernel,omitempty"`
	Init   string `json:"init,omitempty"`
}

// Known reports whether there is evidence at all.
func (b Boot) Known() bool { return b != Boot{} }

// Queue is the reboot queue or the repair queue of a cluster: one document each, of which each change is a transaction.
type Queue struct {
	// Kind is not stored: the place of the document says it. Empty: that of reboots.
	Kind QueueKind `json:"-"`
	// Unread: it cannot be decoded, so its entries are not known.
	Unread bool `json:"-"`
	// Disabled: nothing is started. What is under way is watched to its end.
	Disabled bool `json:"disabled,omitempty"`
	// Entries are in the order in which they were added.
	Entries []Entry `json:"entries,omitempty"`
	// History are the last ones that left the queue, oldest first.
	History []EndedEntry `json:"history,omitempty"`
	// Counts is how many ended with each result since there is the queue.
	Counts map[EntryResult]int64 `json:"counts,omitempty"`
}

// Entry is an entry of the queue.
type Entry struct {
	// ID is new and random. The lease of the node has it, too.
	ID string `json:"id"`
	// Node and Address are as declared when it was added. The address identifies the node.
	Node    string     `json:"node"`
	Address string     `json:"address"`
	State   EntryState `json:"state"`
	Reason  string     `json:"reason,omitempty"`
	By      string     `json:"by,omitempty"` // user@host
	// On is what a repair is for, as procedures name it; empty: it is a reboot.
	On string `json:"on,omitempty"`
	// Step is that of the procedure, Earlier how many attempts were made before it, also before a retry.
	Step    int `json:"step,omitempty"`
	Earlier int `json:"earlier,omitempty"`
	// Agent is the id with which the machine's own agent asked for the reboot, AskedAt when it did last: no command is run, and the
	// agent says when it is back. Empty: a command reboots it.
	Agent   string    `json:"agent,omitempty"`
	AskedAt time.Time `json:"askedAt,omitzero"`
	AddedAt time.Time `json:"addedAt"`
	// Since is when the state was entered.
	Since time.Time `json:"since"`
	// Attempt counts the commands that were started, each repetition not counted; StartedAt is when the last one was, Boot the evidence
	// before it.
	Attempt   int       `json:"attempt,omitempty"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	Boot      Boot      `json:"boot,omitzero"`
	// CommandEndedAt is when the command of the attempt ended; zero: that is not known, and it is run again unless the
	// machine has rebooted.
	CommandEndedAt time.Time `json:"commandEndedAt,omitzero"`
	// Silent: the node did not answer when it got its lease, so its member is not stopped, and which boot runs is not known.
	Silent bool `json:"silent,omitempty"`
	// Error is what went wrong last, Output the end of what the command wrote.
	Error  string `json:"error,omitempty"`
	Output string `json:"output,omitempty"`
	// Canceled: an operator canceled it under way. It is watched to its end, and not attempted again.
	Canceled bool `json:"canceled,omitempty"`
	// Skipped: it failed, and an operator lets the others continue all the same.
	Skipped bool `json:"skipped,omitempty"`
}

// Kind is the queue that the entry is in.
func (r Entry) Kind() QueueKind {
	if r.On != "" {
		return RepairQueue
	}
	return RebootQueue
}

// What names the entry in texts.
func (r Entry) What() string { return "the " + string(r.Kind()) + " of " + r.Node }

// Active reports whether its node is not where the others may rely on it.
func (r Entry) Active() bool {
	return r.State == EntryLeased || r.Acting() || r.State == EntryReturning
}

// Acting reports whether its command was started and the node is not back.
func (r Entry) Acting() bool { return r.State == EntryRebooting || r.State == EntryRepairing }

// Tries is how often the command of the present step was started.
func (r Entry) Tries() int { return r.Attempt - r.Earlier }

// Tried reports whether an attempt was made since it was added, or retried.
func (r Entry) Tried() bool { return r.Step > 0 || r.Tries() > 0 }

// Blocks reports whether it failed and nodes with members wait for an operator.
func (r Entry) Blocks() bool { return r.State == EntryFailed && !r.Skipped }

// EndedEntry is an entry that left the queue.
type EndedEntry struct {
	ID      string      `json:"id"`
	Node    string      `json:"node"`
	Address string      `json:"address"`
	Result  EntryResult `json:"result"`
	Reason  string      `json:"reason,omitempty"`
	By      string      `json:"by,omitempty"`
	On      string      `json:"on,omitempty"`
	AddedAt time.Time   `json:"addedAt"`
	// StartedAt is when the last command was started; zero: none was.
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt"`
	Attempts  int       `json:"attempts,omitempty"`
	Error     string    `json:"error,omitempty"`
}

// Took returns how long it took from its last command on; 0: no command was started.
func (e EndedEntry) Took() time.Duration {
	if e.StartedAt.IsZero() {
		return 0
	}
	return max(0, e.EndedAt.Sub(e.StartedAt))
}

// Of returns the entry of a node; nil: it has none.
func (q Queue) Of(address string) *Entry {
	for i := range q.Entries {
		if q.Entries[i].Address == address {
			return &q.Entries[i]
		}
	}
	return nil
}

// named returns the entry of a node by its name or its address; nil: it has none.
func (q Queue) named(node string) *Entry {
	for i := range q.Entries {
		if r := &q.Entries[i]; r.Node == node || r.Address == node {
			return r
		}
	}
	return nil
}

// Entry returns the entry with this id.
func (q Queue) Entry(id string) (Entry, bool) {
	for _, r := range q.Entries {
		if r.ID == id {
			return r, true
		}
	}
	return Entry{}, false
}

// refusal is why the queue is not changed as an operator asks for.
func (q Queue) refusal(code Code, what string, err error) *Error {
	return &Error{Code: code, What: what, Unchanged: true, Try: q.kind().Command() + " list", Err: err}
}

func (q Queue) kind() QueueKind { return cmp.Or(q.Kind, RebootQueue) }

// Add returns the queue with these nodes at its end, all or none. Of as it takes why, by whom and for what.
func (q Queue) Add(nodes []Node, as Entry, now time.Time) (Queue, error) {
	q.Entries = slices.Clone(q.Entries)
	if len(as.Reason) > maxReason {
		return q, &Error{Code: CodeCannot, What: fmt.Sprintf("the reason has %d bytes", len(as.Reason)), Facts: []string{fmt.Sprintf("it may have %d", maxReason)}, Unchanged: true}
	}
	for _, n := range nodes {
		if r := q.Of(n.Address); r != nil {
			return q, q.refusal(CodeConflict, fmt.Sprintf("%s is in the %s queue already (%s)", n.Name(), q.kind(), r.State), ErrConflict)
		}
		q.Entries = append(q.Entries, Entry{ID: randomID(), Node: n.Name(), Address: n.Address, State: EntryQueued, Reason: as.Reason, By: as.By, On: as.On, Agent: as.Agent, AskedAt: as.AskedAt, AddedAt: now.UTC(), Since: now.UTC()})
	}
	if len(q.Entries) > maxQueued {
		return q, &Error{Code: CodeCannot, What: fmt.Sprintf("the %s queue would have %d entries", q.kind(), len(q.Entries)), Facts: []string{fmt.Sprintf("it holds %d", maxQueued)}, Unchanged: true}
	}
	bare := q
	bare.Entries = slices.Clone(q.Entries)
	for i := range bare.Entries {
		bare.Entries[i].Output, bare.Entries[i].Error = "", ""
	}
	if doc, err := json.Marshal(bare); err != nil || len(doc) > maxAddedBytes {
		return q, &Error{Code: CodeCannot, What: fmt.Sprintf("the %s queue would have %d bytes", q.kind(), len(doc)), Facts: []string{fmt.Sprintf("it holds %d", maxAddedBytes)}, Unchanged: true, Err: err}
	}
	return q, nil
}

// Encode returns the document as it is stored, in JSON. From one that is too large for the store, what the commands of its oldest
// entries wrote is left out, and then why they failed.
func (q Queue) Encode() ([]byte, error) {
	doc, err := json.Marshal(q)
	excess := len(doc) - maxQueueBytes
	if err != nil || excess <= 0 {
		return doc, err
	}
	q.Entries, q.History = slices.Clone(q.Entries), slices.Clone(q.History)
	var texts []*string // in the order in which they are left out
	order := make([]*Entry, len(q.Entries))
	for i := range q.Entries {
		order[i] = &q.Entries[i]
	}
	slices.SortStableFunc(order, func(a, b *Entry) int { return a.Since.Compare(b.Since) })
	for _, r := range order {
		texts = append(texts, &r.Output)
	}
	for i := range q.History {
		texts = append(texts, &q.History[i].Error)
	}
	for _, r := range order {
		texts = append(texts, &r.Error)
	}
	for _, text := range texts {
		if excess <= 0 {
			break
		}
		encoded, _ := json.Marshal(*text)
		excess -= len(encoded)
		*text = ""
	}
	return json.Marshal(q)
}

// Cancel returns the queue with the entries of these nodes canceled, all or none. What is under way is watched to its end.
func (q Queue) Cancel(nodes []string, now time.Time) (Queue, error) {
	return q.each(nodes, func(q Queue, r *Entry) (Queue, error) {
		if r.Active() {
			r.Canceled = true
			return q, nil
		}
		return q.end(*r, EntryCanceled, now), nil
	})
}

// Retry returns the queue with the failed entries of these nodes queued again, all or none.
func (q Queue) Retry(nodes []string, now time.Time) (Queue, error) {
	return q.each(nodes, func(q Queue, r *Entry) (Queue, error) {
		if r.State != EntryFailed {
			return q, q.notFailed(*r, "be retried")
		}
		*r = Entry{ID: r.ID, Node: r.Node, Address: r.Address, Reason: r.Reason, By: r.By, On: r.On, Agent: r.Agent, AskedAt: r.AskedAt, AddedAt: r.AddedAt, State: EntryQueued, Since: now.UTC(), Error: r.Error,
			Attempt: r.Attempt, Earlier: r.Attempt, StartedAt: r.StartedAt} // no number of an attempt returns: it is not to be taken for a former one
		return q, nil
	})
}

// Skip returns the queue in which the failed entries of these nodes keep no other node waiting, all or none.
func (q Queue) Skip(nodes []string) (Queue, error) {
	return q.each(nodes, func(q Queue, r *Entry) (Queue, error) {
		if r.State != EntryFailed {
			return q, q.notFailed(*r, "be skipped")
		}
		r.Skipped = true
		return q, nil
	})
}

func (q Queue) notFailed(r Entry, what string) *Error {
	return q.refusal(CodeCannot, fmt.Sprintf("%s cannot %s: it is %s, not failed", r.What(), what, r.State), nil)
}

// each changes the entries of these nodes in a copy.
func (q Queue) each(nodes []string, do func(Queue, *Entry) (Queue, error)) (Queue, error) {
	q.Entries = slices.Clone(q.Entries)
	for _, node := range nodes {
		r := q.named(node)
		if r == nil {
			return q, q.refusal(CodeCannot, fmt.Sprintf("%s is not in the %s queue", node, q.kind()), ErrNotFound)
		}
		var err error
		if q, err = do(q, r); err != nil {
			return q, err
		}
	}
	return q, nil
}

// Moved returns the queue with one entry changed, which must be as it was seen. ErrConflict: it is not.
func (q Queue) Moved(seen Entry, do func(*Entry)) (Queue, error) {
	q.Entries = slices.Clone(q.Entries)
	for i := range q.Entries {
		if r := &q.Entries[i]; r.ID == seen.ID && r.same(seen) {
			do(r)
			return q, nil
		}
	}
	return q, fmt.Errorf("%s is no longer %s: %w", seen.What(), seen.State, ErrConflict)
}

// same reports whether nothing was decided about an entry since it was seen.
func (r Entry) same(seen Entry) bool {
	return r.State == seen.State && r.Attempt == seen.Attempt && r.Canceled == seen.Canceled && r.Since.Equal(seen.Since)
}

// To returns the entry in another state.
func (r *Entry) To(s EntryState, now time.Time) { r.State, r.Since = s, now.UTC() }

// Ended returns the queue without an entry, which must be as it was seen, and its result in the history. ErrConflict: it is not.
func (q Queue) Ended(seen Entry, result EntryResult, why string, now time.Time) (Queue, error) {
	r, there := q.Entry(seen.ID)
	if !there || !r.same(seen) {
		return q, fmt.Errorf("%s is no longer %s: %w", seen.What(), seen.State, ErrConflict)
	}
	r.Error = cmp.Or(why, r.Error)
	return q.end(r, result, now), nil
}

// end is Ended for an entry that is there.
func (q Queue) end(r Entry, result EntryResult, now time.Time) Queue {
	q = q.Without(r.ID)
	e := EndedEntry{ID: r.ID, Node: r.Node, Address: r.Address, Result: result, Reason: r.Reason, By: r.By, On: r.On, AddedAt: r.AddedAt, StartedAt: r.StartedAt, EndedAt: now.UTC(), Attempts: r.Attempt, Error: r.Error}
	if result == EntryDone {
		e.Error = ""
	}
	q.History = append(slices.Clone(q.History), e)
	for len(q.History) > maxQueueHistory {
		oldest := max(0, slices.IndexFunc(q.History, func(e EndedEntry) bool { return e.StartedAt.IsZero() })) // limits count the others
		q.History = slices.Delete(q.History, oldest, oldest+1)
	}
	return q.Counted(result)
}

// Without returns the queue without an entry, of which no history is kept.
func (q Queue) Without(id string) Queue {
	q.Entries = slices.DeleteFunc(slices.Clone(q.Entries), func(r Entry) bool { return r.ID == id })
	return q
}

// Counted returns the queue with one more of a result.
func (q Queue) Counted(result EntryResult) Queue {
	counts := map[EntryResult]int64{}
	for k, n := range q.Counts {
		counts[k] = n
	}
	counts[result]++
	q.Counts = counts
	return q
}

// QueueStatus is a queue as the leader reports it.
type QueueStatus struct {
	Disabled bool          `json:"disabled,omitempty"`
	Entries  []EntryStatus `json:"entries"`
	// Last is the entry that left the queue last; nil: none has.
	Last *EndedEntry `json:"last,omitempty"`
	// Counts is how many ended with each result.
	Counts map[EntryResult]int64 `json:"counts,omitempty"`
}

// EntryStatus is an entry with what it waits for.
type EntryStatus struct {
	Entry
	// Waits is what it waits for.
	Waits string `json:"waits,omitempty"`
}

// Queue returns the status of a queue; nil: it was never used.
func (s Status) Queue(k QueueKind) *QueueStatus {
	if k == RepairQueue {
		return s.Repairs
	}
	return s.Reboots
}
