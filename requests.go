package cke

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Requests are the requests to one cluster's leader daemon. Most of them remain until they are withdrawn or expire; a
// task is done once.
type Requests struct {
	// Hold is a pause: no changes; nil: there is none. It may have expired.
	Hold *Hold `json:"hold,omitempty"`
	// Applied is the revision that the operator released for reconcile: manual or outside the window.
	Applied int64 `json:"applied,omitempty"`
	// Interrupt is the revision for which the operator accepted an interruption of service, as one of two voters is
	// restarted although more are declared.
	Interrupt int64 `json:"interrupt,omitempty"`
	// Hibernation is a request that no member runs and all data is kept; nil: there is none.
	Hibernation *Hibernation `json:"hibernation,omitempty"`
	// Drains are maintenance leases, by node name. They may have expired.
	Drains []Drain `json:"drains,omitempty"`
	// Reboots is the reboot queue.
	Reboots Queue `json:"reboots,omitzero"`
	// Repairs is the repair queue.
	Repairs Queue `json:"repairs,omitzero"`
	// Tasks are the open tasks, oldest first.
	Tasks []Task `json:"tasks,omitempty"`
	// Unread are the ids of open tasks that cannot be decoded.
	Unread []string `json:"unread,omitempty"`
	// Undecoded are the names in the store of all requests that cannot be decoded. What restricts among them is above, as strict as it can be.
	Undecoded []string `json:"undecoded,omitempty"`
}

// EndsRestore returns why a restore under preparation must not continue, by these requests; "": it may. This applies
// only until its members may have been started: after that only another restore stops it.
func (r Requests) EndsRestore(now time.Time) string {
	switch {
	case r.Hold.Active(now):
		return "the cluster is paused"
	case r.CallsRestoreOff():
		return "the restore was called off"
	}
	return r.MayCallOff()
}

// MayCallOff returns which tasks may be to call a restore off, as they cannot be decoded; "": there is none.
func (r Requests) MayCallOff() string {
	if r.Unread == nil {
		return ""
	}
	return "a task cannot be decoded, and may be to cancel the restore: " + strings.Join(r.Unread, ", ")
}

// CallsRestoreOff reports whether a restore was called off, and the task is still open.
func (r Requests) CallsRestoreOff() bool {
	return slices.ContainsFunc(r.Tasks, func(t Task) bool { return t.Kind == TaskCancelRestore })
}

// OrderForAnother reports whether an order to restore was confirmed for another incarnation than that of this identity.
func (r Requests) OrderForAnother(id Identity) bool {
	return slices.ContainsFunc(r.Tasks, func(t Task) bool {
		return t.Restore != nil && t.Restore.ShownIncarnation != "" && !id.Incarnation.Life(t.Restore.ShownIncarnation)
	})
}

// Hold is a requested pause: the cluster is observed and backed up, but not changed.
type Hold struct {
	// Reason is the operator's text; never empty.
	Reason string    `json:"reason"`
	By     string    `json:"by,omitempty"` // user@host
	Since  time.Time `json:"since"`
	// Until is when the pause expires; zero: it remains until changes are resumed.
	Until time.Time `json:"until,omitzero"`
}

// Active reports whether there is a pause and it is active now.
func (h *Hold) Active(now time.Time) bool {
	return h != nil && (h.Until.IsZero() || now.Before(h.Until))
}

// Hibernation is a request to stop all members and keep all data.
type Hibernation struct {
	By    string    `json:"by,omitempty"` // user@host
	Since time.Time `json:"since"`
}

// Drain is a maintenance lease: the node's member is stopped, after leadership was moved away, and remains stopped
// until the lease is over. At most one node of a cluster has one.
type Drain struct {
	Node string `json:"node"`
	// Address is the node's: it may be renamed meanwhile. Empty: an earlier version of cke recorded the lease.
	Address string    `json:"address,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	By      string    `json:"by,omitempty"` // user@host
	Since   time.Time `json:"since"`
	// Until is when the lease expires; zero: it is active until an operator ends it, as it cannot be decoded.
	Until time.Time `json:"until"`
	// Entry is the id of the entry of a queue that it is for; empty: an operator has it. Queue says which one; empty: that of reboots.
	Entry string    `json:"reboot,omitempty"`
	Queue QueueKind `json:"queue,omitempty"`
}

// Release is the command to give the lease back.
func (d Drain) Release() string {
	if d.Entry != "" {
		return cmp.Or(d.Queue, RebootQueue).Command() + " cancel " + d.Node
	}
	return "ckecli node undrain " + d.Node
}

// Active reports whether the lease is active now.
func (d Drain) Active(now time.Time) bool { return d.Until.IsZero() || now.Before(d.Until) }

// Drained returns the active lease of the node with this name; nil: there is none.
func (r Requests) Drained(node string, now time.Time) *Drain {
	for i := range r.Drains {
		if d := &r.Drains[i]; d.Node == node && d.Active(now) {
			return d
		}
	}
	return nil
}

// Queue returns the queue of a kind.
func (r *Requests) Queue(k QueueKind) *Queue {
	if k == RepairQueue {
		return &r.Repairs
	}
	return &r.Reboots
}

// Queued returns the entries of all queues, repairs first: they bring back what reboots need.
func (r Requests) Queued() []Entry { return slices.Concat(r.Repairs.Entries, r.Reboots.Entries) }

// Entry returns the entry with this id in either queue.
func (r Requests) Entry(id string) (Entry, bool) {
	for _, e := range r.Queued() {
		if e.ID == id {
			return e, true
		}
	}
	return Entry{}, false
}

// OtherDrain returns the refusal of a lease for a node while another node has one.
func OtherDrain(node string, other Drain) *Error {
	return &Error{Code: CodeDrain, What: node + " cannot be drained: " + other.Text(), Unchanged: true, Try: other.Release(), Err: ErrConflict}
}

// Text describes the lease in a line: which node, by whom, why and until when.
func (d Drain) Text() string {
	text := d.Node + " is drained"
	if d.By != "" {
		text += " by " + d.By
	}
	if d.Reason != "" {
		text += " (" + d.Reason + ")"
	}
	if d.Until.IsZero() { // as long as its entry is under way, or until an operator ends it
		return text
	}
	return text + " until " + d.Until.UTC().Format(time.RFC3339)
}

// TaskKind is the kind of a task.
type TaskKind string

// Kinds of tasks.
const (
	// TaskReplace replaces the membership whose id is Subject with a new one on the same node.
	TaskReplace TaskKind = "replace"
	// TaskMoveLeader makes the member on Node lead.
	TaskMoveLeader TaskKind = "move-leader"
	// TaskDefragment gives disk space of the member on Node back; without a node, of all members, one at a time.
	TaskDefragment TaskKind = "defragment"
	// TaskDrain gives the node a maintenance lease: its member is stopped, and the lease is active for For. Without
	// Accepted it is refused if quorum would be lost.
	TaskDrain TaskKind = "drain"
	// TaskDisarm clears active alarms.
	TaskDisarm TaskKind = "disarm"
	// TaskAuth turns etcd's authentication on or off, as Subject says: AuthOn or AuthOff.
	TaskAuth TaskKind = "auth"
	// TaskUser changes a tenant, as User says.
	TaskUser TaskKind = "user"
	// TaskCompare compares the members' data now.
	TaskCompare TaskKind = "compare"
	// TaskAdopt replaces the foreign member on Node that Adopt names with a member of cke.
	TaskAdopt TaskKind = "adopt"
	// TaskUnfreeze lifts the freeze whose id is Subject.
	TaskUnfreeze TaskKind = "unfreeze"
	// TaskReclaim records the memberships that Reclaim names again: the store is older than the cluster.
	TaskReclaim TaskKind = "reclaim"
	// TaskPurge removes the archived volume whose name is Subject.
	TaskPurge TaskKind = "purge"
	// TaskUndelete keeps the archived volume whose name is Subject until it is purged.
	TaskUndelete TaskKind = "undelete"
	// TaskRotate replaces the certificate authority whose name is Subject.
	TaskRotate TaskKind = "rotate-authority"
	// TaskFinish confirms that clients are ready for the next phase of an authority's replacement; Subject is the
	// authority's name and the phase that is over, as "server introduce".
	TaskFinish TaskKind = "finish-authority"
	// TaskImport turns an import around, as Subject says: ImportRevert or ImportContinue.
	TaskImport TaskKind = "import"
	// TaskBackup takes a full backup, or stores a delta when Subject is "delta".
	TaskBackup TaskKind = "backup"
	// TaskRestore replaces the cluster's data with the state that Restore names.
	TaskRestore TaskKind = "restore"
	// TaskCancelRestore returns to what a restore was about to replace, while none of its members was started.
	TaskCancelRestore TaskKind = "cancel-restore"
)

// Task is something that an operator asked for once. It is over when its record has completed or failed.
type Task struct {
	// ID is new and random; the record of the operation has it, too.
	ID   string   `json:"id"`
	Kind TaskKind `json:"kind"`
	Node string   `json:"node,omitempty"`
	// Subject is what else the kind needs.
	Subject string `json:"subject,omitempty"`
	// Restore is set for TaskRestore.
	Restore *RestoreOrder `json:"restore,omitempty"`
	// Adopt is set for TaskAdopt.
	Adopt *Adoption `json:"adopt,omitempty"`
	// User is set for TaskUser.
	User *UserOrder `json:"user,omitempty"`
	// Reclaim are the memberships that were shown when TaskReclaim was confirmed.
	Reclaim []JoinID `json:"reclaim,omitempty"`
	// ReclaimChanges are the memberships on record that were shown then to end or to be put aside; nil: an earlier ckecli asked.
	ReclaimChanges []JoinID  `json:"reclaimChanges,omitzero"`
	Reason         string    `json:"reason,omitempty"`
	By             string    `json:"by,omitempty"` // user@host
	At             time.Time `json:"at"`
	// For is how long the effect of the task is active; zero: it does not expire.
	For Duration `json:"for,omitempty"`
	// Accepted: the operator accepted that the cluster does not serve meanwhile.
	Accepted bool `json:"accepted,omitempty"`
	// Wrong names the nodes whose members have the wrong data, as the operator says; of TaskUnfreeze.
	Wrong []string `json:"wrong,omitempty"`
}

// NewTask returns a task with a new id. Nothing is stored.
func NewTask(kind TaskKind, node, subject, by string, at time.Time) Task {
	return Task{ID: randomID(), Kind: kind, Node: node, Subject: subject, By: by, At: at.UTC()}
}
