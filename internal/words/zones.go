package words

import (
	"fmt"
	"strings"

	"cke"
	"cke/internal/term"
)

// Zone is whether a zone can be lost, with the arithmetic if not.
func Zone(z cke.Zone) string {
	if z.CanBeLost {
		return "can be lost"
	}
	return "cannot: " + z.CannotBecause
}

// Zones are the zones in a line, each with its voters and whether it can be lost; what holds for all is said once.
func Zones(s cke.Spread) string {
	var all []string
	same := AllZones(s)
	for _, z := range s.Zones {
		text := z.Name + " " + strings.Join(z.Voters, ", ")
		if same == "" {
			text += "  " + Zone(z)
		}
		all = append(all, text)
	}
	if names := s.Unplaced(); names != nil {
		all = append(all, Unplaced(names))
	}
	text := strings.Join(all, " · ")
	if same != "" {
		text += "  " + same
	}
	return term.Clean(text)
}

// AllZones is what holds for all zones; "": there is one zone at most, or they differ.
func AllZones(s cke.Spread) string {
	switch {
	case len(s.Zones) < 2:
		return ""
	case s.AnyOne():
		return "any one can be lost"
	}
	for _, z := range s.Zones {
		if z.CannotBecause != s.Zones[0].CannotBecause {
			return ""
		}
	}
	return "none can: " + s.Zones[0].CannotBecause
}

// Unplaced are voters without a zone.
func Unplaced(names []string) string {
	return "no zone: " + strings.Join(names, ", ") + " (as in every zone)"
}

// Meanwhile is which zones can be lost while a node is down, as a half sentence; "": no zone is known.
func Meanwhile(s *cke.Spread, node string) string {
	if s == nil || len(s.Zones) == 0 {
		return ""
	}
	var cannot []string
	for _, z := range s.Without(node).Zones {
		if !z.CanBeLost {
			cannot = append(cannot, z.Name)
		}
	}
	switch len(cannot) {
	case 0:
		return "any one zone can be lost meanwhile"
	case len(s.Zones):
		return "no zone can be lost meanwhile"
	}
	return term.Clean(fmt.Sprintf("%s cannot be lost meanwhile", strings.Join(cannot, ", ")))
}
