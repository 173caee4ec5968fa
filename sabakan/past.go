package sabakan

import (
	"maps"
	"slices"
	"time"

	"cke"
)

const (
	missing = cke.HostMissing
	// day is the time in which changes are counted.
	day = 24 * time.Hour
	// flaps is how many changes of state in a day keep a machine from being exchanged.
	flaps = 4
	// lateAcceptance is for how long a machine has to be in a bad state before that counts as accepted: what turns bad within this
	// time counts as one event.
	lateAcceptance = 10 * time.Minute
	// missedReads is how many intervals a read may be late.
	missedReads = 3
	// keptAddresses is of how many addresses it is remembered which machine was declared there last.
	keptAddresses = 200
)

// Past is what Choose knows of earlier reads and changes.
type Past cke.InventoryPast

// HostPast is what earlier reads said of a machine.
type HostPast = cke.HostPast

// Applied is a change that was stored as a revision of the cluster file.
type Applied = cke.InventoryChange

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
	next := Past{ReadAt: read.ReadAt, Hosts: make(map[string]HostPast, len(read.Hosts)), Serials: map[string]string{}, InventoryLog: p.InventoryLog.Bounded(read.ReadAt)}
	passed := read.ReadAt.Sub(p.ReadAt)
	if passed < 0 || passed > missedReads*interval {
		passed = 0
	}
	for _, h := range read.Hosts {
		next.Hosts[h.ID] = nextOf(p.Hosts[h.ID], h.State, addressOf(h), read.ReadAt, passed, a)
	}
	declared, silent := map[string]bool{}, map[string]cke.Duration{}
	for _, n := range spec.Cluster.Nodes {
		if serial := serialOf(n, func(serial string) bool { return next.Hosts[serial].State != "" || p.Hosts[serial].State != "" }); serial != "" {
			declared[serial], next.Serials[n.Address] = true, serial
			if p.Serials[n.Address] == serial && passed > 0 && silentSince(p.ReadAt, read.ReadAt, n.Address, status) {
				silent[serial] = p.Hosts[serial].Silent + cke.Duration(passed)
			}
		}
	}
	for serial, was := range p.Hosts {
		if _, listed := next.Hosts[serial]; !listed && (declared[serial] || a == Refused) {
			next.Hosts[serial] = nextOf(was, missing, was.Address, read.ReadAt, passed, a)
		}
	}
	for serial := range declared {
		if _, known := next.Hosts[serial]; !known {
			next.Hosts[serial] = nextOf(HostPast{}, missing, "", read.ReadAt, passed, a)
		}
	}
	for serial, d := range silent {
		h := next.Hosts[serial]
		h.Silent = d
		next.Hosts[serial] = h
	}
	for _, address := range slices.Sorted(maps.Keys(p.Serials)) { // a successor may come at any time
		if _, again := next.Serials[address]; !again && len(next.Serials) < keptAddresses {
			next.Serials[address] = p.Serials[address]
		}
	}
	for i := range next.Changes {
		if c := &next.Changes[i]; c.ConvergedAt.IsZero() && status.ObservedGeneration >= c.Generation && ClockDoubt(status) == "" {
			c.ConvergedAt = status.ObservedAt
		}
	}
	return Past(cke.InventoryPast(next).Bounded(max(cke.KeptHosts, len(read.Hosts))))
}

// Until returns the past as of a later good read. A leader stores at once what changes, and some minutes later for how long all else
// is as it was: since then, no machine has changed.
func (p Past) Until(readAt time.Time, spec cke.Spec, status cke.Status, a Acceptance) Past {
	read := cke.HostList{ReadAt: readAt}
	for id, h := range p.Hosts {
		if h.State != missing {
			read.Hosts = append(read.Hosts, cke.Host{ID: id, State: h.State, Addresses: []string{h.Address}})
		}
	}
	return p.Next(read, spec, status, readAt.Sub(p.ReadAt), a)
}

// silentSince reports whether a status that is of the second read shows that a node did not answer since the first one.
func silentSince(before, read time.Time, address string, status cke.Status) bool {
	i := slices.IndexFunc(status.Nodes, func(o cke.NodeStatus) bool { return o.Node.Address == address })
	return i >= 0 && !status.Nodes[i].Answered() && !status.Nodes[i].SeenAt.After(before) && within(status.ObservedAt, read, staleStatus)
}

// nextOf returns what is known of a machine after one more read.
func nextOf(p HostPast, s cke.HostState, address string, at time.Time, passed time.Duration, a Acceptance) HostPast {
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

// turnedBad reports whether a machine was in no bad state when a read was last accepted, and is in one now.
func turnedBad(p HostPast, now cke.HostState) bool { return bad(now) && !bad(p.Accepted) }

// flapping reports whether a machine changed its state too often in the last day.
func flapping(p HostPast, now time.Time) bool {
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
