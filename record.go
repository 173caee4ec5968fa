package cke

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// RecordState is the state of an operation.
type RecordState string

// Record states. Interrupted: the daemon that ran it stopped or lost its term; the next round observes the cluster
// again.
const (
	RecordRunning     RecordState = "running"
	RecordCompleted   RecordState = "completed"
	RecordFailed      RecordState = "failed"
	RecordInterrupted RecordState = "interrupted"
)

// Record is the record of one operation: what, on which nodes, why, and every step with its outcome.
type Record struct {
	// ID counts up from 1 within a cluster.
	ID        int64    `json:"id"`
	Cluster   string   `json:"cluster"`
	Operation string   `json:"operation"`
	Targets   []string `json:"targets,omitempty"` // node names
	Reason    string   `json:"reason"`

	State     RecordState `json:"state"`
	StartedAt time.Time   `json:"startedAt"`
	EndedAt   time.Time   `json:"endedAt,omitzero"`
	Error     string      `json:"error,omitempty"`
	Code      Code        `json:"code,omitempty"`
	// Refusal is the error as the operator reads it, if it has a code.
	Refusal *Refusal `json:"refusal,omitempty"`
	// Refused: a request was refused, and nothing was tried. State is failed then, because the request is not fulfilled.
	Refused bool         `json:"refused,omitempty"`
	Steps   []StepRecord `json:"steps,omitempty"`

	// Backup is what the operation stored in the backup target; nil: nothing.
	Backup *StoredBackup `json:"backup,omitempty"`
	// Task is the id of the requested task; empty: none was requested.
	Task string `json:"task,omitempty"`
	// Part: the task continues after this record, whatever its outcome.
	Part bool `json:"part,omitempty"`
	// Generation is the revision of the cluster file that led to the operation.
	Generation int64 `json:"generation"`
	// Host and Term name the daemon that ran it.
	Host string `json:"host"`
	Term int64  `json:"term"`
}

// Refusal is an Error as it is stored.
type Refusal struct {
	What      string   `json:"what"`
	Facts     []string `json:"facts,omitempty"`
	Unchanged bool     `json:"unchanged,omitempty"`
	Try       string   `json:"try,omitempty"`
}

// EndsTask reports whether the task that the operation was for is over with it.
func (r Record) EndsTask() bool {
	return r.Task != "" && !r.Part && (r.State == RecordCompleted || r.State == RecordFailed)
}

// Outcome returns the state in one word, also for counting: a refused request is refused, and did not fail.
func (r Record) Outcome() string { return outcome(r.State, r.Refused) }

// outcomeRefused is the outcome of a request that was refused.
const outcomeRefused = "refused"

// Outcomes returns the outcomes of operations that are over.
func Outcomes() []string {
	return []string{string(RecordCompleted), string(RecordFailed), string(RecordInterrupted), outcomeRefused}
}

func outcome(s RecordState, refused bool) string {
	if refused && s == RecordFailed {
		return outcomeRefused
	}
	return string(s)
}

// Text returns all of a refusal in one line.
func (r Refusal) Text() string { return strings.Join(append([]string{r.What}, r.Facts...), "; ") }

// RefusalOf returns the coded error in err's chain as it is stored; nil: there is none.
func RefusalOf(err error) *Refusal {
	var e *Error
	if !errors.As(err, &e) {
		return nil
	}
	r := &Refusal{What: e.What, Facts: slices.Clone(e.Facts), Unchanged: e.Unchanged, Try: e.Try}
	if e.Err != nil && !slices.Contains(sentinels, e.Err) {
		r.Facts = append(r.Facts, e.Err.Error())
	}
	return r
}

// Took returns how long the operation ran, or has run until now.
func (r Record) Took(now time.Time) time.Duration {
	if !r.EndedAt.IsZero() {
		now = r.EndedAt
	}
	return now.Sub(r.StartedAt)
}

// StepRecord is the record of one step of an operation. A step is recorded before it runs.
type StepRecord struct {
	Name      string    `json:"name"`
	Node      string    `json:"node,omitempty"` // empty: not about one node
	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	Error     string    `json:"error,omitempty"`
	// Progress of a long step, as "42 of 63 MB"; only the last one is kept.
	Progress string `json:"progress,omitempty"`
	// Note is what an operator should know of a step that completed, as "all is stored, up to revision 6".
	Note string `json:"note,omitempty"`
}
