package cke

import (
	"slices"
	"time"
)

// Requests is what people ask of one cluster's leader. Most of it lasts until a person takes it back or its time is
// over; a task is done once.
type Requests struct {
	// Hold is a wish that nothing be changed; nil: there is none. Its time may be over.
	Hold *Hold `json:"hold,omitempty"`
	// Applied is the revision that a person released for reconcile: manual or outside the window.
	Applied int64 `json:"applied,omitempty"`
	// Interrupt is the revision for which a person accepted that nobody is served for a while, as one of two voters is
	// restarted though more are declared.
	Interrupt int64 `json:"interrupt,omitempty"`
	// Hibernation is a wish that no member run, and that all data be kept; nil: there is none.
	Hibernation *Hibernation `json:"hibernation,omitempty"`
	// Drains are maintenance leases, by node name. Their time may be over.
	Drains []Drain `json:"drains,omitempty"`
	// Tasks are to be done once each, the oldest first.
	Tasks []Task `json:"tasks,omitempty"`
}

// EndsRestore is why a restore that is being prepared must not go on, which these ask for; "": it may. Its members may not have been
// started yet: nothing ends it after that but another restore.
func (r Requests) EndsRestore(now time.Time) string {
	switch {
	case r.Hold.Active(now):
		return "the cluster is paused"
	case r.CallsRestoreOff():
		return "the restore is called off"
	}
	return ""
}

// CallsRestoreOff reports whether a person called a restore off, and nobody has answered yet.
func (r Requests) CallsRestoreOff() bool {
	return slices.ContainsFunc(r.Tasks, func(t Task) bool { return t.Kind == TaskCancelRestore })
}

// Hold is a pause that a person asked for: meanwhile the cluster is observed and backed up, and nothing is changed.
type Hold struct {
	// Reason is a person's words; never empty.
	Reason string    `json:"reason"`
	By     string    `json:"by,omitempty"` // user@host
	Since  time.Time `json:"since"`
	// Until is when the hold ends by itself; zero: it lasts until a person resumes.
	Until time.Time `json:"until,omitzero"`
}

// Active reports whether h holds at this moment. No hold never does.
func (h *Hold) Active(now time.Time) bool {
	return h != nil && (h.Until.IsZero() || now.Before(h.Until))
}

// Hibernation is a wish that a cluster be stopped and kept: scaled to zero.
type Hibernation struct {
	By    string    `json:"by,omitempty"` // user@host
	Since time.Time `json:"since"`
}

// Drain is a maintenance lease: the node's member is stopped, leadership moved away first, and stays so until the lease
// ends. At most one node of a cluster has one.
type Drain struct {
	Node   string    `json:"node"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"` // user@host
	Since  time.Time `json:"since"`
	// Until is when the lease ends by itself; never zero.
	Until time.Time `json:"until"`
}

// Active reports whether the lease lasts at this moment.
func (d Drain) Active(now time.Time) bool { return now.Before(d.Until) }

// Drained returns the lease that lasts for the node with this name; nil: there is none.
func (r Requests) Drained(node string, now time.Time) *Drain {
	for i := range r.Drains {
		if d := &r.Drains[i]; d.Node == node && d.Active(now) {
			return d
		}
	}
	return nil
}

// OtherDrain is the refusal of a lease for a node while another node has one.
func OtherDrain(node string, other Drain) *Error {
	return &Error{Code: CodeDrain, What: node + " cannot be drained: " + other.Text(), Unchanged: true, Try: "ckecli node undrain " + other.Node, Err: ErrConflict}
}

// Text is the lease in a line: which node, by whom, why and until when.
func (d Drain) Text() string {
	text := d.Node + " is drained"
	if d.By != "" {
		text += " by " + d.By
	}
	if d.Reason != "" {
		text += " (" + d.Reason + ")"
	}
	return text + " until " + d.Until.UTC().Format(time.RFC3339)
}

// TaskKind is what a task is about.
type TaskKind string

// Kinds of tasks.
const (
	// TaskReplace gives the membership whose id is Subject up for a fresh one on the same node.
	TaskReplace TaskKind = "replace"
	// TaskMoveLeader makes the member on Node lead.
	TaskMoveLeader TaskKind = "move-leader"
	// TaskDefragment gives disk space of the member on Node back; without a node, of all, one after the other.
	TaskDefragment TaskKind = "defragment"
	// TaskDrain leases the node for maintenance: its member is stopped, and the lease lasts For. Without Accepted it is
	// refused where quorum would be lost.
	TaskDrain TaskKind = "drain"
	// TaskDisarm takes active alarms back.
	TaskDisarm TaskKind = "disarm"
	// TaskAuth turns etcd's authentication on or off, as Subject says: AuthOn or AuthOff.
	TaskAuth TaskKind = "auth"
	// TaskCompare compares the members' data now.
	TaskCompare TaskKind = "compare"
	// TaskAdopt puts a member of cke's in the place of the foreign one on Node that Adopt names.
	TaskAdopt TaskKind = "adopt"
	// TaskUnfreeze ends the freeze whose id is Subject.
	TaskUnfreeze TaskKind = "unfreeze"
	// TaskReclaim puts the memberships that Reclaim names on record again: the store is older than the cluster.
	TaskReclaim TaskKind = "reclaim"
	// TaskPurge removes the archived volume whose name is Subject.
	TaskPurge TaskKind = "purge"
	// TaskUndelete takes the archived volume whose name is Subject out of the trash: it is kept until it is purged.
	TaskUndelete TaskKind = "undelete"
	// TaskRotate replaces the certificate authority whose name is Subject.
	TaskRotate TaskKind = "rotate-authority"
	// TaskFinish says that clients are ready for the next phase of an authority's replacement; Subject is the authority's name
	// and the phase that is over, as "server introduce".
	TaskFinish TaskKind = "finish-authority"
	// TaskBackup takes a full backup, or stores a delta when Subject is "delta".
	TaskBackup TaskKind = "backup"
	// TaskRestore puts the state that Restore means in the place of what there is.
	TaskRestore TaskKind = "restore"
	// TaskCancelRestore goes back to what a restore was about to replace, while nothing of it was started.
	TaskCancelRestore TaskKind = "cancel-restore"
)

// Task is something that a person wants done once. It is over when its record has completed or failed.
type Task struct {
	// ID is fresh and random; the record of the operation carries it.
	ID   string   `json:"id"`
	Kind TaskKind `json:"kind"`
	Node string   `json:"node,omitempty"`
	// Subject is what else the kind needs.
	Subject string `json:"subject,omitempty"`
	// Restore is set for TaskRestore.
	Restore *RestoreOrder `json:"restore,omitempty"`
	// Adopt is set for TaskAdopt.
	Adopt *Adoption `json:"adopt,omitempty"`
	// Reclaim are the memberships that were shown when TaskReclaim was confirmed.
	Reclaim []JoinID  `json:"reclaim,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	By      string    `json:"by,omitempty"` // user@host
	At      time.Time `json:"at"`
	// For is how long what is asked for lasts; zero where it does not last.
	For Duration `json:"for,omitempty"`
	// Accepted: the person was told that the cluster does not serve meanwhile, and wants it all the same.
	Accepted bool `json:"accepted,omitempty"`
}

// NewTask makes a task with a fresh id. Nothing is stored.
func NewTask(kind TaskKind, node, subject, by string, at time.Time) Task {
	return Task{ID: randomID(), Kind: kind, Node: node, Subject: subject, By: by, At: at.UTC()}
}
