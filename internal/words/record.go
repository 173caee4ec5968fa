package words

import (
	"fmt"
	"strings"
	"time"

	"cke"
	"cke/internal/term"
)

// Heading names an operation: "#12 bootstrap cp1, cp2, cp3".
func Heading(r cke.Record) string {
	return term.Clean(strings.TrimSpace(fmt.Sprintf("#%d %s %s", r.ID, r.Operation, strings.Join(r.Targets, ", "))))
}

// OutcomeStyle returns the style of an operation's outcome. A refused request is no failure.
func OutcomeStyle(s cke.RecordState, refused bool) term.Style {
	switch {
	case s == cke.RecordCompleted:
		return term.Green
	case s == cke.RecordFailed && !refused:
		return term.Red
	}
	return term.Yellow
}

// StepOutcome returns what a step with an error did.
func StepOutcome(r cke.Record) string {
	if r.Refused {
		return "refused"
	}
	return "failed"
}

// Why is the reason of an operation, with the error that it met.
func Why(r cke.Record) string {
	switch {
	case r.Refused && r.Refusal != nil:
		return r.Reason + ": " + r.Refusal.Text()
	case r.Error != "":
		return r.Reason + "; " + r.Outcome() + ": " + r.Error
	}
	return r.Reason
}

// StepResult is how a step ended, or that it has not, and when, with what it noted.
func StepResult(now time.Time, r cke.Record, s cke.StepRecord) (end time.Time, style term.Style, text string) {
	end, style, text = s.EndedAt, term.Green, "done"
	switch {
	case s.Error != "":
		style, text = OutcomeStyle(cke.RecordFailed, r.Refused), StepOutcome(r)+": "+s.Error
	case s.EndedAt.IsZero() && r.EndedAt.IsZero():
		end, style, text = now, term.Yellow, "under way"
		if s.Progress != "" {
			text += ", " + s.Progress
		}
	case s.EndedAt.IsZero():
		end, style, text = r.EndedAt, term.Yellow, "not finished"
	}
	if s.Note != "" && s.Error == "" {
		text += ", " + s.Note
	}
	return end, style, text
}
