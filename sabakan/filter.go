package sabakan

import (
	"slices"
	"time"

	"cke"
)

// Select returns the hosts that have one of the roles (none given: any), all that having says, and nothing that notHaving
// says, in the meaning of sabakan's searchMachines: of labels all must be there, of a list any. One hit of notHaving is enough.
func Select(hosts []cke.Host, roles []string, having, notHaving cke.HostFilter, now time.Time) []cke.Host {
	var selected []cke.Host
	for _, h := range hosts {
		if (len(roles) == 0 || slices.Contains(roles, h.Role)) && fits(h, having, now) && !hit(h, notHaving, now) {
			selected = append(selected, h)
		}
	}
	return selected
}

// fits reports whether a host has all that f says.
func fits(h cke.Host, f cke.HostFilter, now time.Time) bool {
	for name, value := range f.Labels {
		if has, ok := h.Labels[name]; !ok || has != value {
			return false
		}
	}
	return (len(f.Racks) == 0 || slices.Contains(f.Racks, h.Rack)) &&
		(len(f.Roles) == 0 || slices.Contains(f.Roles, h.Role)) &&
		(len(f.States) == 0 || slices.Contains(f.States, h.State)) &&
		(f.MinDaysBeforeRetire == nil || *f.MinDaysBeforeRetire <= daysBeforeRetire(h, now))
}

// hit reports whether a host has anything that f says.
func hit(h cke.Host, f cke.HostFilter, now time.Time) bool {
	for name, value := range f.Labels {
		if has, ok := h.Labels[name]; ok && has == value {
			return true
		}
	}
	return slices.Contains(f.Racks, h.Rack) || slices.Contains(f.Roles, h.Role) || slices.Contains(f.States, h.State) ||
		f.MinDaysBeforeRetire != nil && *f.MinDaysBeforeRetire <= daysBeforeRetire(h, now)
}

// daysBeforeRetire counts whole days, toward zero. Without a date they are long over, as sabakan counts them from the
// registration.
func daysBeforeRetire(h cke.Host, now time.Time) int {
	return int(h.RetireDate.Sub(now).Hours() / 24)
}
