package words

import (
	"fmt"
	"strings"

	"cke"
)

// Reboots is the reboot queue in a line; empty: there is nothing in it.
func Reboots(s cke.Status) string {
	if s.Reboots == nil || len(s.Reboots.Entries) == 0 {
		return ""
	}
	var all []string
	queued := 0
	for _, e := range s.Reboots.Entries {
		switch {
		case e.State == cke.RebootQueued:
			queued++
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
	if s.Reboots.Disabled {
		text += "; the queue is disabled"
	}
	return text
}
