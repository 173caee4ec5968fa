package words

import (
	"fmt"
	"strings"
	"time"

	"cke"
)

// Machines counts the machines of the last good read by state; empty: there was none in this term.
func Machines(s *cke.InventoryStatus) string {
	if s.Hosts == nil {
		return ""
	}
	n := 0
	for _, k := range s.Hosts {
		n += k
	}
	text := cke.Count(n, "machine")
	if of := States(s.Hosts); of != "" {
		text += ": " + of
	}
	return text + fmt.Sprintf("; %d can carry a further member", s.Candidates)
}

// States counts machines by state, in the order of the states; empty: there are none.
func States(hosts map[cke.HostState]int) string {
	var of []string
	for _, state := range cke.HostStates() {
		if k := hosts[state]; k > 0 {
			of = append(of, fmt.Sprintf("%d %s", k, state))
		}
	}
	return strings.Join(of, ", ")
}

// LastRead says how long ago the inventory was read well.
func LastRead(now time.Time, s *cke.InventoryStatus) string {
	if s.ReadAt.IsZero() {
		return "never read"
	}
	return "last read " + Ago(now, s.ReadAt) + " ago"
}

// InventoryChange says what a change moved, and why.
func InventoryChange(c cke.InventoryChange) string {
	what := "the cluster file"
	switch {
	case c.Old != "" && c.New != "" && c.Old != c.New:
		what = fmt.Sprintf("%s in place of %s", c.New, c.Old)
	case c.New != "":
		what = c.New
	case c.Old != "":
		what = "without " + c.Old
	}
	text := fmt.Sprintf("revision %d: %s (%s)", c.Generation, what, c.Cause)
	if !c.RolledBackAt.IsZero() {
		text += ", rolled back"
	}
	return text
}
