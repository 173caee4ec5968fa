package cke

import "time"

// RecordState is how an operation stands.
type RecordState string

// Record states. Interrupted: the daemon that ran it ended or lost its term; the next round looks again.
const (
	RecordRunning     RecordState = "running"
	RecordCompleted   RecordState = "completed"
	RecordFailed      RecordState = "failed"
	RecordInterrupted RecordState = "interrupted"
)

// Record tells of one operation: what, on whom, why, and every step with its outcome.
type Record struct {
	// ID counts up from 1 within a cluster.
	ID        int64    `json:"id"`
	Cluster   string   `json:"cluster"`
	Operation string   `json:"operation"`
	Targets   []string `json:"targets,omitempty"` // node names
	Reason    string   `json:"reason"`

	State     RecordState  `json:"state"`
	StartedAt time.Time    `json:"startedAt"`
	EndedAt   time.Time    `json:"endedAt,omitzero"`
	Error     string       `json:"error,omitempty"`
	Code      Code         `json:"code,omitempty"`
	Steps     []StepRecord `json:"steps,omitempty"`

	// Generation is the revision of the spec that led to the operation.
	Generation int64 `json:"generation"`
	// Host and Term name the daemon that ran it.
	Host string `json:"host"`
	Term int64  `json:"term"`
}

// Took is how long the operation ran, or has run by now.
func (r Record) Took(now time.Time) time.Duration {
	if !r.EndedAt.IsZero() {
		now = r.EndedAt
	}
	return now.Sub(r.StartedAt)
}

// StepRecord tells of one step of an operation. A step is recorded before it runs.
type StepRecord struct {
	Name      string    `json:"name"`
	Node      string    `json:"node,omitempty"` // empty: not about one node
	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	Error     string    `json:"error,omitempty"`
	// Progress of a long step, as "42 of 63 MB"; only the last one is kept.
	Progress string `json:"progress,omitempty"`
}
