package follow

import (
	"fmt"
	"strings"

	"cke"
	"cke/internal/term"
)

// Heading names an operation: "#12 bootstrap cp1, cp2, cp3".
func Heading(r cke.Record) string {
	return term.Clean(strings.TrimSpace(fmt.Sprintf("#%d %s %s", r.ID, r.Operation, strings.Join(r.Targets, ", "))))
}

// stepLine is a step's name and node in columns that suit the record.
func stepLine(r cke.Record, s cke.StepRecord) string {
	name, node := 24, 0
	for _, t := range r.Targets {
		node = max(node, term.Width(t))
	}
	for _, other := range r.Steps {
		name, node = max(name, term.Width(other.Name)), max(node, term.Width(other.Node))
	}
	line := "  " + term.Pad(term.Clean(s.Name), name) + "  "
	if node > 0 {
		line += term.Pad(term.Clean(s.Node), node) + "  "
	}
	return line
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

// ProblemText returns a problem in one line: code, node, message.
func ProblemText(p cke.Problem) string {
	text := p.Message
	if p.Node != "" && !strings.HasPrefix(text, p.Node) {
		text = p.Node + ": " + text
	}
	if p.Code != "" && p.Code != cke.CodeInternal {
		text += " [" + string(p.Code) + "]"
	}
	return term.Clean(text)
}

// steady is text without figures, so that a count of seconds makes no news.
func steady(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' {
			return -1
		}
		return r
	}, text)
}
