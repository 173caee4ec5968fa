package sabakan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"cke"
)

const (
	// healthyFor is for how long a machine has to be healthy before it is chosen.
	healthyFor = 10 * time.Minute
	// freshCheck is how old the check of a machine may be.
	freshCheck = 15 * time.Minute
	// badZone is how many bad machines keep a zone from getting a member.
	badZone = 2
	// mostChecks is how many machines are checked at once.
	mostChecks = 7
)

// Unfit counts machines that no member may be put on for one reason.
type Unfit struct {
	Why   string `json:"why"`
	Hosts int    `json:"hosts"`
}

// The reasons for which a machine is unfit, in the order in which they are asked for.
const (
	fit = iota
	inCluster
	inAnother
	otherRole
	lacksHaving
	hasNotHaving
	retiring
	notHealthy
	healthyLately
	noAddress
	noName
	repaired
	inBadZone
	failedCheck
	reasons
)

// unfitWords are those reasons in words that follow a number of machines.
var unfitWords = [reasons]string{
	inCluster: "in this cluster", inAnother: "in another cluster", otherRole: "of another role",
	lacksHaving: "without what `having` asks for", hasNotHaving: "with what `not_having` excludes",
	retiring: "retiring or retired", notHealthy: "not healthy", healthyLately: "healthy for less than " + short(healthyFor), noAddress: "without an IPv4 address",
	noName: "with a serial that cannot be a host name", repaired: "being repaired",
	inBadZone: fmt.Sprintf("in a zone with %d or more bad machines", badZone), failedCheck: "that failed the check",
}

// candidate is a machine that a member, or a spare, may be put on.
type candidate struct {
	host *cke.Host
	zone string
	// spare is the index of its node in the cluster file; -1: it is not declared.
	spare int
	// checked: it is known that a member can be there.
	checked bool

	together bool // all others are in its zone
	fatal    int  // zones whose loss would end the quorum
	voters   int  // others in its zone
	retires  int
}

// addressOf returns the IPv4 address by which a machine is reached; empty: it has none.
func addressOf(h cke.Host) string {
	for _, s := range h.Addresses {
		if a, err := netip.ParseAddr(s); err == nil && a.Is4() {
			return s
		}
	}
	return ""
}

// search finds machines, and counts those that are unfit.
type search struct {
	c        *chooser
	declared map[string]int  // indexes of nodes, by serial
	used     map[string]bool // serials of machines with a node, or member, besides the node that is declared as theirs
	others   map[string]bool // those of machines that other clusters have
	bad      map[string]int  // machines, by zone
	repaired map[string]bool
	fit      []candidate
	unfit    [reasons]int
	soonest  *cke.Host // is healthy for longest of those that are so for too short a time; nil: none is
	failed   *cke.Host // is the first one that failed its check; nil: none did
}

func (c *chooser) newSearch() *search {
	s := &search{c: c, declared: map[string]int{}, used: map[string]bool{}, others: map[string]bool{}, bad: map[string]int{}, repaired: map[string]bool{}}
	nodes := c.Spec.Cluster.Nodes
	for i, n := range nodes {
		for _, known := range c.nodes {
			if known.Address == n.Address {
				s.declared[known.serial] = i
			}
		}
	}
	uses := func(h *cke.Host, address string) {
		if h == nil {
			return
		}
		if i, declared := s.declared[h.ID]; !declared || address != "" && nodes[i].Address != address {
			s.used[h.ID] = true
		}
	}
	for _, n := range nodes {
		uses(c.at[n.Address], n.Address)
	}
	for _, m := range c.Status.Members {
		uses(c.at[m.Address], m.Address)
		uses(c.hosts[m.Name], "")
	}
	for of := range c.Taken {
		for _, h := range []*cke.Host{c.at[of], c.hosts[of]} {
			if h != nil {
				s.others[h.ID] = true
			}
		}
	}
	repaired := func(h *cke.Host) bool {
		return c.Status.Repairs != nil && slices.ContainsFunc(c.Status.Repairs.Entries, func(r cke.EntryStatus) bool { return slices.Contains(h.Addresses, r.Address) })
	}
	for i := range c.Read.Hosts {
		s.repaired[c.Read.Hosts[i].ID] = repaired(&c.Read.Hosts[i])
		if h := &c.Read.Hosts[i]; h.State == cke.HostUnhealthy || h.State == cke.HostUnreachable {
			s.bad[c.zoneOf(h)]++
		}
	}
	return s
}

// judge returns why a machine is unfit, or that it is fit, and whether it was checked; spares: whether declared spares are fit.
func (s *search) judge(h *cke.Host, spares bool) (why int, checked bool) {
	address := addressOf(*h)
	check, checked := s.c.checkOf(h, address)
	return s.unfitness(h, address, check, checked, spares), checked
}

func (s *search) unfitness(h *cke.Host, address string, check Check, checked, spares bool) int {
	c, o := s.c, s.c.o
	i, declared := s.declared[h.ID]
	switch {
	case declared && (!spares || c.Spec.Cluster.Nodes[i].ControlPlane), s.used[h.ID]:
		return inCluster
	case s.others[h.ID]:
		return inAnother
	case len(o.Roles) > 0 && !slices.Contains(o.Roles, h.Role):
		return otherRole
	case !fits(*h, o.Having, c.Now):
		return lacksHaving
	case hit(*h, o.NotHaving, c.Now):
		return hasNotHaving
	case h.State == cke.HostRetiring || h.State == cke.HostRetired:
		return retiring
	case h.State != cke.HostHealthy:
		return notHealthy
	case h.For < healthyFor:
		return healthyLately
	case address == "" || declared && !slices.Contains(h.Addresses, c.Spec.Cluster.Nodes[i].Address):
		return noAddress
	case !declared && !cke.ValidHostname(h.ID) || isAddress(h.ID):
		return noName
	case s.repaired[h.ID]:
		return repaired
	case s.inBadZone(h):
		return inBadZone
	case declared && !c.spareReady(c.Spec.Cluster.Nodes[i]), !declared && checked && check.Problem != "":
		return failedCheck
	}
	return fit
}

// takenBy names the other cluster that a machine belongs to; empty: none is known.
func (c *chooser) takenBy(h *cke.Host) string {
	for _, address := range h.Addresses {
		if other := c.Taken[address]; other != "" {
			return other
		}
	}
	return c.Taken[h.ID]
}

// inBadZone reports whether too many machines in the zone of one are bad.
func (s *search) inBadZone(h *cke.Host) bool {
	if len(s.bad) == 0 {
		return false
	}
	zone := s.c.zoneOf(h)
	return zone != "" && s.bad[zone] >= badZone
}

func isAddress(s string) bool {
	if !strings.ContainsAny(s, ".:") { // most serials: no error is made for them
		return false
	}
	_, err := netip.ParseAddr(s)
	return err == nil
}

// checkOf returns the check of a machine; false: there is no fresh one at this address.
func (c *chooser) checkOf(h *cke.Host, address string) (Check, bool) {
	k := c.Checks[h.ID]
	age := c.Now.Sub(k.At)
	return k, age <= freshCheck && age >= -freshCheck && k.Address == address
}

// spareReady reports whether a declared node answers, and nothing uses etcd's ports on it.
func (c *chooser) spareReady(n cke.Node) bool {
	return slices.ContainsFunc(c.Status.Nodes, func(o cke.NodeStatus) bool {
		return o.Node.Address == n.Address && o.Answered() && o.ClientPort != cke.PortOpen && o.PeerPort != cke.PortOpen
	})
}

// fitting returns the machines that fit, in no order. It is searched once.
func (c *chooser) fitting(spares bool) []candidate {
	if c.found[spares] != nil {
		return c.found[spares].fit
	}
	s := c.newSearch()
	s.fit = make([]candidate, 0, len(c.Read.Hosts))
	for i := range c.Read.Hosts {
		h := &c.Read.Hosts[i]
		why, checked := s.judge(h, spares)
		s.unfit[why]++
		if why == healthyLately && (s.soonest == nil || cmp.Or(cmp.Compare(h.For, s.soonest.For), strings.Compare(s.soonest.ID, h.ID)) > 0) {
			s.soonest = h
		}
		if _, declared := s.declared[h.ID]; why == failedCheck && !declared && (s.failed == nil || h.ID < s.failed.ID) {
			s.failed = h
		}
		if why != fit {
			continue
		}
		k := candidate{host: h, zone: c.zoneOf(h), spare: -1, retires: c.retires(h)}
		if at, declared := s.declared[h.ID]; declared {
			k.spare, k.zone = at, cmp.Or(c.Spec.Cluster.Nodes[at].Zone, k.zone)
		}
		k.checked = k.spare >= 0 || checked
		s.fit = append(s.fit, k)
	}
	c.found[spares] = s
	return s.fit
}

// candidates returns the machines that fit, with how each would be among other voters; the best is the first one.
func (c *chooser) candidates(others spread, voters int, spares bool) []candidate {
	all := slices.Clone(c.fitting(spares))
	fatal, best := map[string]int{}, 0
	for i := range all {
		zone := all[i].zone
		if _, known := fatal[zone]; !known {
			fatal[zone] = others.with(zone).fatal(voters)
		}
		all[i].fatal, all[i].voters, all[i].together = fatal[zone], others[zone], len(others) == 1 && others[zone] > 0
		if all[i].compare(all[best]) < 0 {
			best = i
		}
	}
	if len(all) > 0 {
		all[0], all[best] = all[best], all[0]
	}
	return all
}

// compare orders candidates, the best first: those with which not all voters are in one zone, then those beside which the loss of
// the fewest zones ends the quorum, then spares, then those in the zones with the fewest voters, those that retire last, those that
// are healthy for longest, by serial.
func (a candidate) compare(b candidate) int {
	return cmp.Or(cke.CompareBools(a.together, b.together), cmp.Compare(a.fatal, b.fatal), cke.CompareBools(b.spare >= 0, a.spare >= 0), cmp.Compare(a.voters, b.voters),
		cmp.Compare(a.retires, b.retires), cmp.Compare(b.host.For, a.host.For), strings.Compare(a.host.ID, b.host.ID))
}

// retires returns a class of how soon a machine is to be replaced anyway.
func (c *chooser) retires(h *cke.Host) int {
	left := h.RetireDate.Sub(c.Now)
	switch {
	case h.RetireDate.IsZero() || left > 365*day:
		return 0
	case left > 90*day:
		return 1
	}
	return 2
}

// pick returns the best candidate, or what is waited for.
func (c *chooser) pick(all []candidate, what string) (candidate, verdict) {
	if len(all) == 0 {
		return candidate{}, unfit("%s: no machine fits: %s", what, c.unfitText(true))
	}
	if !all[0].checked {
		c.check(all)
		return candidate{}, wait(WaitCheck, "%s: %s is to be checked first", what, all[0].host.ID)
	}
	return all[0], verdict{}
}

// check asks for checks of the best candidates.
func (c *chooser) check(all []candidate) {
	slices.SortFunc(all, candidate.compare)
	for _, k := range all[:min(len(all), mostChecks)] {
		if !k.checked {
			c.out.Check = append(c.out.Check, k.host.ID)
		}
	}
}

// unfitText notes, and says, how many machines are unfit for which reason.
func (c *chooser) unfitText(spares bool) string {
	c.out.Unfit = nil
	var all []string
	for why, n := range c.found[spares].unfit {
		if why != fit && n > 0 {
			c.out.Unfit = append(c.out.Unfit, Unfit{unfitWords[why], n})
			all = append(all, fmt.Sprintf("%d %s", n, unfitWords[why]))
		}
	}
	switch {
	case len(c.Read.Hosts) == 0:
		return "the inventory has no machines"
	case all == nil:
		return "the inventory has no others"
	}
	text := fmt.Sprintf("of %s, %s", cke.Count(len(c.Read.Hosts), "machine"), strings.Join(all, "; "))
	if h := c.found[spares].soonest; h != nil {
		text += fmt.Sprintf(" (%s can be taken in %s)", h.ID, short(healthyFor-h.For))
	}
	if h := c.found[spares].failed; h != nil {
		text += fmt.Sprintf("; the check of %s: %s", h.ID, c.Checks[h.ID].Problem)
	}
	return text
}
