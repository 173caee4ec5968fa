package follow

import (
	"strings"

	"cke"
	"cke/internal/term"
)

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

// steady is text without figures, so that a count of seconds makes no news.
func steady(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' {
			return -1
		}
		return r
	}, text)
}
