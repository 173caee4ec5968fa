package cke

import "time"

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
