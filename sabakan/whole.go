package sabakan

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"cke"
)

// listed sorts hosts by their ids. Two hosts with one id or one address are an error: which of them is meant is not known.
func listed(hosts []cke.Host) ([]cke.Host, error) {
	slices.SortStableFunc(hosts, func(a, b cke.Host) int { return strings.Compare(a.ID, b.ID) })
	owners := map[string]string{} // of addresses
	for i, h := range hosts {
		switch {
		case h.ID == "":
			return nil, fmt.Errorf("a machine has no serial; its addresses: %s", addresses(h))
		case strings.ContainsFunc(h.ID, unicode.IsControl):
			return nil, fmt.Errorf("a machine has the serial %q, which cannot be written in one line", bounded(h.ID))
		case i > 0 && hosts[i-1].ID == h.ID:
			return nil, fmt.Errorf("two machines have the serial %s; their addresses: %s, and %s", h.ID, addresses(hosts[i-1]), addresses(h))
		}
		for _, a := range h.Addresses {
			if owner, ok := owners[a]; ok {
				return nil, fmt.Errorf("two machines have the address %s: %s and %s", a, owner, h.ID)
			}
			owners[a] = h.ID
		}
	}
	return hosts, nil
}

func addresses(h cke.Host) string {
	if len(h.Addresses) == 0 {
		return "none"
	}
	return strings.Join(h.Addresses, ", ")
}
