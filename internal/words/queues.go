package words

import (
	"fmt"
	"strings"

	"cke"
)

// Queue is a queue in a line; empty: there is nothing in it.
func Queue(q *cke.QueueStatus) string {
	if q == nil || len(q.Entries) == 0 {
		return ""
	}
	var all []string
	queued := 0
	for _, e := range q.Entries {
		switch {
		case e.State == cke.EntryQueued:
			queued++
		case e.State == cke.EntryFailed && e.Skipped:
			all = append(all, fmt.Sprintf("%s failed and skipped (%s)", e.Node, e.Waits))
		case e.Waits != "":
			all = append(all, fmt.Sprintf("%s %s (%s)", e.Node, e.State, e.Waits))
		default:
			all = append(all, fmt.Sprintf("%s %s", e.Node, e.State))
		}
	}
	if queued > 0 {
		all = append(all, fmt.Sprintf("%d queued", queued))
	}
	text := strings.Join(all, " · ")
	if q.Disabled {
		text += "; the queue is disabled"
	}
	return text
}
