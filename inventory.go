package cke

import (
	"slices"
	"time"
)

// InventoryCause is why an inventory changes a cluster file.
type InventoryCause string

// Causes.
const (
	CauseBootstrap   InventoryCause = "bootstrap"
	CauseTemplate    InventoryCause = "template"
	CauseRetired     InventoryCause = "retired"
	CauseMissing     InventoryCause = "missing"
	CauseSuccessor   InventoryCause = "successor"
	CauseRetiring    InventoryCause = "retiring"
	CauseUnreachable InventoryCause = "unreachable"
	CauseUnhealthy   InventoryCause = "unhealthy"
	CauseMaintenance InventoryCause = "maintenance"
	CauseMore        InventoryCause = "more"
	CauseFewer       InventoryCause = "fewer"
	CauseMoved       InventoryCause = "moved"
	CauseDescribed   InventoryCause = "described"
	CauseSpare       InventoryCause = "spare"
)

// InventoryCauses are all of them.
func InventoryCauses() []InventoryCause {
	return []InventoryCause{CauseBootstrap, CauseTemplate, CauseRetired, CauseMissing, CauseSuccessor, CauseRetiring, CauseUnreachable,
		CauseUnhealthy, CauseMaintenance, CauseMore, CauseFewer, CauseMoved, CauseDescribed, CauseSpare}
}

// Moves reports whether a change for this cause moves a member.
func (c InventoryCause) Moves() bool {
	return !slices.Contains([]InventoryCause{CauseBootstrap, CauseTemplate, CauseDescribed, CauseSpare}, c)
}

// HostMissing is the state of a machine that a good read lacks. No inventory says it.
const HostMissing HostState = "missing"

// InventorySettings is what operators say about the inventory of one cluster; stored as one document, also before there is such a
// cluster.
type InventorySettings struct {
	// Template and Variables are texts as they were given; empty: none is set. Variables take the place of the template's filters.
	Template  string `json:"template,omitempty"`
	Variables string `json:"variables,omitempty"`
	// URL is where the inventory is: of a sabakan server, or of a file, which may also be a path on the management host.
	URL     string    `json:"url,omitempty"`
	Enabled bool      `json:"enabled,omitempty"`
	SetAt   time.Time `json:"setAt,omitzero"`
	SetBy   string    `json:"setBy,omitempty"` // user@host
}

// InventoryOrder is the request to apply the change with this hash.
type InventoryOrder struct {
	ID   string    `json:"id"`
	Hash string    `json:"hash"`
	By   string    `json:"by,omitempty"`
	At   time.Time `json:"at"`
}

// NewInventoryOrder makes an order of an operator, with an id of its own.
func NewInventoryOrder(hash, by string, now time.Time) InventoryOrder {
	return InventoryOrder{ID: randomID(), Hash: hash, By: by, At: now.UTC()}
}

// InventoryPast is what is known of earlier reads and changes. Its zero value is that of an inventory that was never read.
type InventoryPast struct {
	// ReadAt is when the last good read was made.
	ReadAt time.Time `json:"readAt,omitzero"`
	// Hosts are the machines of the last good read, and machines of nodes that it lacked, by serial.
	Hosts map[string]HostPast `json:"hosts,omitempty"`
	// Serials are those of the nodes declared last, by address: a machine with another serial there has another host key.
	Serials map[string]string `json:"serials,omitempty"`
	// InventoryLog is stored apart: with each change.
	InventoryLog `json:"-"`
}

// KeptHosts is how many machines of an inventory are remembered.
const KeptHosts = 5000

// Bounded returns the past with so many machines at most: of more, those of nodes and then the lowest serials.
func (p InventoryPast) Bounded(most int) InventoryPast {
	if len(p.Hosts) <= most {
		return p
	}
	kept, serials := map[string]HostPast{}, []string{}
	for _, serial := range p.Serials {
		if h, known := p.Hosts[serial]; known {
			kept[serial] = h
		}
	}
	for serial := range p.Hosts {
		if _, is := kept[serial]; !is {
			serials = append(serials, serial)
		}
	}
	slices.Sort(serials)
	for _, serial := range serials[:min(len(serials), max(0, most-len(kept)))] {
		kept[serial] = p.Hosts[serial]
	}
	p.Hosts = kept
	return p
}

// HostPast is what earlier reads said of a machine.
type HostPast struct {
	State HostState `json:"state"`
	// Address is the first one.
	Address string `json:"address,omitempty"`
	// Reads is how many good reads in a row had this state and address, Watched the time that they span without gaps.
	Reads   int      `json:"reads"`
	Watched Duration `json:"watched,omitempty"`
	// Silent is for how long reads without gaps found that its node did not answer.
	Silent Duration `json:"silent,omitempty"`
	// Accepted is the state with which the next read is compared for many machines that turn bad at once.
	Accepted HostState `json:"accepted,omitempty"`
	// Turned are the times of the last changes of state, oldest first.
	Turned []time.Time `json:"turned,omitempty"`
}

// InventoryLog is what an inventory changed.
type InventoryLog struct {
	// Changes are those that were applied, oldest first.
	Changes []InventoryChange `json:"changes,omitempty"`
	// Template is the hash of the template that the cluster file followed last.
	Template string `json:"template,omitempty"`
	// Answer is what became of the last order; nil: there was none.
	Answer *InventoryAnswer `json:"answer,omitempty"`
}

const (
	// keptInventoryChanges is how many changes of an inventory are kept, unless more of them count still.
	keptInventoryChanges = 50
	// keptBefore is of how many changes, the newest, it is kept what they replaced.
	keptBefore = 10
)

// Bounded returns the log without what it has too many of, the oldest first: changes older than a day, then those that moved no
// member. A move, or what was rolled back, counts for a day, and stays for as long.
func (l InventoryLog) Bounded(now time.Time) InventoryLog {
	const day = 24 * time.Hour
	l.Changes = slices.Clone(l.Changes)
	over := len(l.Changes) - keptInventoryChanges
	for i := range max(0, len(l.Changes)-keptBefore) {
		l.Changes[i].Before = nil
	}
	for _, goes := range []func(InventoryChange) bool{
		func(c InventoryChange) bool { return now.Sub(c.At) >= day },
		func(c InventoryChange) bool { return !c.Cause.Moves() },
	} {
		l.Changes = slices.DeleteFunc(l.Changes, func(c InventoryChange) bool {
			if over <= 0 || now.Sub(c.RolledBackAt) < day || !goes(c) {
				return false
			}
			over--
			return true
		})
	}
	return l
}

// InventoryChange is a change that was stored as a revision of the cluster file.
type InventoryChange struct {
	Generation int64          `json:"generation"`
	At         time.Time      `json:"at"`
	Cause      InventoryCause `json:"cause"`
	// Old is the serial of the machine that had to go, New that of the one in its place; empty: none.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Before is what it replaced of nodes that stay, by name and field; an empty value: there was none. A node without fields was
	// declared by it. It is dropped while later changes are kept.
	Before map[string]map[string]string `json:"before,omitempty"`
	// ConvergedAt is when the cluster was observed to be as that revision declares; zero: not yet.
	ConvergedAt time.Time `json:"convergedAt,omitzero"`
	// RolledBackAt is when the operator was seen to have undone it; zero: never.
	RolledBackAt time.Time `json:"rolledBackAt,omitzero"`
}

// InventoryEdit is a revision of a cluster file that an inventory leads to.
type InventoryEdit struct {
	// Generation is the revision that it starts from: it is stored only in place of that one.
	Generation int64
	Cluster    Cluster
	// Source is its text.
	Source []byte
	By     string
	Cause  InventoryCause
	// Forget are addresses whose pinned host keys go with it.
	Forget []string
	// Order asked for it; nil: none did.
	Order *InventoryOrder
	// Log is what is stored with it, without the change itself.
	Log InventoryLog
	// Change is added to the log, with the revision and the time.
	Change InventoryChange
}

// InventoryAnswer is what became of an order.
type InventoryAnswer struct {
	Order InventoryOrder `json:"order"`
	At    time.Time      `json:"at"`
	// Generation is the revision that was stored; 0: none was, for the reason in Refused.
	Generation int64  `json:"generation,omitempty"`
	Refused    string `json:"refused,omitempty"`
	Code       Code   `json:"code,omitempty"`
}

// InventoryWanted is what the work with an inventory starts from.
type InventoryWanted struct {
	Spec     Spec
	Identity Identity
	Requests Requests
	Status   Status
}

// InventoryStatus is the status of an inventory and of what follows from it.
type InventoryStatus struct {
	// Source is where the inventory is, without passwords.
	Source string        `json:"source,omitempty"`
	Mode   InventoryMode `json:"mode,omitempty"`
	// ReadAt is when the inventory was last read well, also by an earlier leader as far as that is stored; zero: never. Failures is how
	// many reads failed since, in this term.
	ReadAt   time.Time `json:"readAt,omitzero"`
	Failures int       `json:"failures,omitempty"`
	Failure  string    `json:"failure,omitempty"`
	// Hosts counts the machines of the last good read by state, nil: there was none in this term; Candidates those that may get a
	// member.
	Hosts      map[HostState]int `json:"hosts,omitempty"`
	Candidates int               `json:"candidates"`
	// Change is the one that follows; nil: none does. Override is one that the operator may have in spite of Stop.
	Change   *InventoryProposal `json:"change,omitempty"`
	Override *InventoryProposal `json:"override,omitempty"`
	// Reason is why there is this change, or none; never empty. Stop names what forbids one.
	Reason string `json:"reason"`
	Code   Code   `json:"code,omitempty"`
	Stop   string `json:"stop,omitempty"`
	// Notes are what is waited for, what contradicts itself, and advice.
	Notes []InventoryNote `json:"notes,omitempty"`
	// Log are the changes of the last day and the answer to the last order.
	Log InventoryLog `json:"log,omitzero"`
}

// InventoryProposal is a change that an inventory suggests.
type InventoryProposal struct {
	Hash   string         `json:"hash"`
	Cause  InventoryCause `json:"cause"`
	Reason string         `json:"reason"`
	Old    string         `json:"old,omitempty"`
	New    string         `json:"new,omitempty"`
	// Confirm are the reasons for which the operator has to confirm it in every mode.
	Confirm []string `json:"confirm,omitempty"`
	// Forget are addresses whose pinned host keys go with it.
	Forget []string `json:"forget,omitempty"`
	// Auto: the leader daemon applies it by itself.
	Auto bool `json:"auto,omitempty"`
}

// InventoryNote is one line beside the outcome.
type InventoryNote struct {
	// Node is its name, or the serial of a machine; empty: the note is about the cluster.
	Node string `json:"node,omitempty"`
	Text string `json:"text"`
	Code Code   `json:"code,omitempty"`
	// Until is when what is waited for is over; zero: unknown.
	Until time.Time `json:"until,omitzero"`
}
