package sabakan

import (
	"slices"
	"time"

	"cke"
)

const (
	// missing is the state of a machine that a good read lacks.
	missing cke.HostState = "missing"
	// day is the time in which changes are counted.
	day = 24 * time.Hour
	// flaps is how many changes of state in a day keep a machine from being exchanged.
	flaps = 4
	// lateAcceptance is for how long a machine has to be in a bad state before that counts as accepted: what turns bad within this
	// time counts as one event.
	lateAcceptance = 10 * time.Minute
	// missedReads is how many intervals a read may be late.
	missedReads = 3
	// keptChanges bounds the changes that are remembered.
	keptChanges = 50
)

// Past is what Choose knows of earlier reads and changes. Its zero value is that of an inventory that was never read.
type Past struct {
	// ReadAt is when the last good read was made.
	ReadAt time.Time `json:"readAt,omitzero"`
	// Hosts are the machines of the last good read, and machines of nodes that it lacked, by serial.
	Hosts map[string]HostPast `json:"hosts,omitempty"`
	// Serials are those of the nodes declared last, by address, as long as a machine has the address.
	Serials map[string]string `json:"serials,omitempty"`
	// Changes are those that were applied, oldest first.
	Changes []Applied `json:"changes,omitempty"`
	// Template is the hash of the template that the cluster file followed last, see Choice.Template.
	Template string `json:"template,omitempty"`
}

// HostPast is what earlier reads said of a machine.
type HostPast struct {
	State cke.HostState `json:"state"`
	// Address is the first one.
	Address string `json:"address,omitempty"`
	// Reads is how many good reads in a row had this state and address, Watched the time that they span without gaps.
	Reads   int          `json:"reads"`
	Watched cke.Duration `json:"watched,omitempty"`
	// Accepted is the state with which the next read is compared for many machines that turn bad at once.
	Accepted cke.HostState `json:"accepted,omitempty"`
	// Turned are the times of the last changes of state, oldest first.
	Turned []time.Time `json:"turned,omitempty"`
}

// Applied is a change that was stored as a revision of the cluster file.
type Applied struct {
	Generation int64     `json:"generation"`
	At         time.Time `json:"at"`
	Cause      Cause     `json:"cause"`
	// Old is the serial of the machine that had to go, New that of the one in its place; empty: none.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// ConvergedAt is when the cluster was observed to be as that revision declares; zero: not yet.
	ConvergedAt time.Time `json:"convergedAt,omitzero"`
	// RolledBackAt is when the operator returned to an earlier revision; zero: never.
	RolledBackAt time.Time `json:"rolledBackAt,omitzero"`
}

// Acceptance says whether later reads are compared with a read.
type Acceptance string

// Acceptances. Overridden: the operator confirmed a change in spite of many machines that turned bad at once.
const (
	Refused    Acceptance = "refused"
	Accepted   Acceptance = "accepted"
	Overridden Acceptance = "overridden"
)

// bad reports whether a machine in this state is about to be lost, or is.
func bad(s cke.HostState) bool {
	return s == cke.HostUnhealthy || s == cke.HostUnreachable || s == cke.HostRetiring || s == cke.HostRetired || s == missing
}

// Next returns the past after one more good read, from which Choose returned this acceptance. It is called once for each read.
func (p Past) Next(read cke.HostList, spec cke.Spec, status cke.Status, interval time.Duration, a Acceptance) Past {
	next := Past{ReadAt: read.ReadAt, Hosts: make(map[string]HostPast, len(read.Hosts)), Serials: map[string]string{}, Template: p.Template}
	passed := read.ReadAt.Sub(p.ReadAt)
	if passed < 0 || passed > missedReads*interval {
		passed = 0
	}
	held := map[string]bool{} // addresses that a machine has
	for _, h := range read.Hosts {
		next.Hosts[h.ID] = p.Hosts[h.ID].next(h.State, addressOf(h), read.ReadAt, passed, a)
		for _, address := range h.Addresses {
			held[address] = true
		}
	}
	declared := map[string]bool{}
	for _, n := range spec.Cluster.Nodes {
		if serial := serialOf(n, func(serial string) bool { return next.Hosts[serial].State != "" || p.Hosts[serial].State != "" }); serial != "" {
			declared[serial], next.Serials[n.Address] = true, serial
		}
	}
	for serial, was := range p.Hosts {
		if _, listed := next.Hosts[serial]; !listed && (declared[serial] || a == Refused) {
			next.Hosts[serial] = was.next(missing, was.Address, read.ReadAt, passed, a)
		}
	}
	for serial := range declared {
		if _, known := next.Hosts[serial]; !known {
			next.Hosts[serial] = HostPast{}.next(missing, "", read.ReadAt, passed, a)
		}
	}
	for address, serial := range p.Serials {
		if _, again := next.Serials[address]; !again && held[address] {
			next.Serials[address] = serial
		}
	}
	next.Changes = slices.Clone(p.Changes[max(0, len(p.Changes)-keptChanges):])
	for i := range next.Changes {
		if c := &next.Changes[i]; c.ConvergedAt.IsZero() && status.ObservedGeneration >= c.Generation {
			c.ConvergedAt = status.ObservedAt
		}
	}
	return next
}

// next returns what is known of a machine after one more read.
func (p HostPast) next(s cke.HostState, address string, at time.Time, passed time.Duration, a Acceptance) HostPast {
	n := HostPast{State: s, Address: address, Reads: p.Reads + 1, Watched: p.Watched + cke.Duration(passed), Accepted: p.Accepted, Turned: p.Turned}
	if address != p.Address {
		n.Reads = 1
	}
	if s != p.State {
		n.Reads, n.Watched = 1, 0
		if p.State != "" {
			n.Turned = append(slices.Clone(p.Turned[max(0, len(p.Turned)-flaps+1):]), at)
		}
	}
	if a == Overridden || a == Accepted && (!bad(s) || time.Duration(n.Watched) >= lateAcceptance) {
		n.Accepted = s
	}
	return n
}

// turnedBad reports whether the machine was in no bad state when a read was last accepted, and is in one now.
func (p HostPast) turnedBad(now cke.HostState) bool { return bad(now) && !bad(p.Accepted) }

// flapping reports whether the machine changed its state too often in the last day.
func (p HostPast) flapping(now time.Time) bool {
	recent := 0
	for _, t := range p.Turned {
		if within(t, now, day) {
			recent++
		}
	}
	return recent >= flaps
}

// within reports whether t is less than d before now. Times after now are of a clock that was ahead, and count.
func within(t, now time.Time, d time.Duration) bool { return !t.IsZero() && now.Sub(t) < d }

// serialOf returns the serial of a node's machine: by its annotation, or by its name if that is known as a serial; empty: the node
// was not declared from an inventory.
func serialOf(n cke.Node, known func(serial string) bool) string {
	if serial := n.Annotations[cke.AnnotationSerial]; serial != "" || !known(n.Hostname) {
		return serial
	}
	return n.Hostname
}
