package sabakan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cke"
)

// Input is all that Choose knows.
type Input struct {
	// Template has its defaults filled in; without a name there is none.
	Template cke.Template
	// Read is the last good read of the inventory. Problem is why a later one failed; empty: none did.
	Read    cke.HostList
	Problem string
	// Spec is the stored cluster file; its zero value: there is no cluster yet.
	Spec   cke.Spec
	Status cke.Status
	// Past is that before Read.
	Past Past
	Now  time.Time
	// Unregistered are serials that the inventory did not know when it was asked for each of them.
	Unregistered []string
	// Checks are of machines that Choice.Check named before, by serial.
	Checks map[string]Check
	// Taken names the other cluster that a machine belongs to, by each address, and by the serial.
	Taken map[string]string
	// TakenProblem is why Taken is not known as it is now; empty: it is.
	TakenProblem string
	// Override: the operator asked for a change in spite of a stop that can be overridden.
	Override bool
	// Simulate returns how it would end if this were the cluster file.
	Simulate func(cke.Cluster) (Simulated, error)
}

// Check is whether a machine that carries no member can carry one: SSH, engine, ports and what is left on it.
type Check struct {
	At time.Time
	// Address is where the machine was checked: at another one, it is unknown.
	Address string
	// Problem is what is in the way; empty: nothing is.
	Problem string
}

// Unchecked lets machines pass that cannot be checked: for each that was read, as if its check had just found nothing.
func (in *Input) Unchecked() {
	in.Checks = make(map[string]Check, len(in.Read.Hosts))
	for _, h := range in.Read.Hosts {
		in.Checks[h.ID] = Check{At: in.Now, Address: addressOf(h)}
	}
}

// Simulated is how the work on a cluster file would end.
type Simulated struct {
	// Least is the smallest tolerance meanwhile, -1: the cluster would not serve; Tolerance is that at the end.
	Least     int `json:"least"`
	Tolerance int `json:"tolerance"`
	// Zones are how many zones can be lost before, meanwhile and at the end, as "3/3 → 1/3 → 3/3"; empty: the cluster file has none.
	Zones string `json:"zones,omitempty"`
	// Blocked is what the work would wait for without end; empty: it would complete.
	Blocked string `json:"blocked,omitempty"`
}

// Choice is what follows from an inventory: one change of the cluster file, or none.
type Choice struct {
	// Change is nil where there is none now.
	Change *Change `json:"change,omitempty"`
	// Reason is why there is this change, or none; never empty.
	Reason string   `json:"reason"`
	Code   cke.Code `json:"code,omitempty"`
	// Stop is what forbids a change; empty: nothing does. Overridable: the operator may confirm one in spite of it.
	Stop        Stop `json:"stop,omitempty"`
	Overridable bool `json:"overridable,omitempty"`
	// Waits names what a change waits for that is neither a problem nor a stop; empty: it does not.
	Waits Wait `json:"waits,omitempty"`
	// Notes are what is waited for, what contradicts itself, and advice.
	Notes []Note `json:"notes,omitempty"`
	// Unfit counts the machines that no member may be put on, by reason, if one was searched.
	Unfit []Unfit `json:"unfit,omitempty"`
	// Check are serials of machines to check before one of them can be chosen, Ask those to ask the inventory for by serial.
	Check []string `json:"check,omitempty"`
	Ask   []string `json:"ask,omitempty"`
	// Acceptance is for Past.Next. Empty: the read is not good.
	Acceptance Acceptance `json:"acceptance,omitempty"`
	// Template is the hash to store as Past.Template, once the cluster file follows the template; empty: it does not.
	Template string `json:"template,omitempty"`
}

// Wait names what a change waits for.
type Wait string

// Waits.
const (
	WaitCheck      Wait = "check"
	WaitUndeclared Wait = "undeclared"
)

// OutcomeNone is the outcome that there is nothing to change.
const OutcomeNone = "none"

// Outcome returns the name of the outcome, which stays the same while its texts do not: the cause of a change, a stop, a code, what is
// waited for, or OutcomeNone.
func (c Choice) Outcome() string {
	if c.Change != nil {
		return string(c.Change.Cause)
	}
	return cmp.Or(string(c.Stop), string(c.Code), string(c.Waits), OutcomeNone)
}

// Note is one line beside the outcome.
type Note = cke.InventoryNote

// chooser is a choice in the making.
type chooser struct {
	Input
	o     cke.InventoryOptions
	hosts map[string]*cke.Host // by serial
	at    map[string]*cke.Host // by address
	nodes []standing           // that come from the inventory, in the order of the file
	dues  []*standing          // whose machines have to be exchanged, the most urgent first
	found map[bool]*search     // machines that fit, by whether spares count
	racks map[int]string       // names of zones, by rack
	many  string               // why the read is not one that later ones are compared with; empty: it is
	out   Choice
}

// Choose returns the one change of the cluster file that follows from an inventory, or none with the reason. It is pure: the order
// of the machines does not matter, and the same input gives the same choice.
func Choose(in Input) Choice {
	c := newChooser(in)
	if !c.stopped(unusable) {
		c.gather()
		c.out.Acceptance = c.acceptance()
		if !c.stopped(stops) {
			c.apply(c.decide())
		}
	}
	slices.SortStableFunc(c.out.Notes, func(a, b Note) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Text, b.Text)) })
	return c.out
}

func newChooser(in Input) *chooser {
	return &chooser{Input: in, o: in.Template.Inventory, found: map[bool]*search{}, racks: map[int]string{}}
}

// gather finds the machines of the declared nodes, and which of them have to be exchanged.
func (c *chooser) gather() {
	c.hosts, c.at = make(map[string]*cke.Host, len(c.Read.Hosts)), make(map[string]*cke.Host, len(c.Read.Hosts))
	for i := range c.Read.Hosts {
		h := &c.Read.Hosts[i]
		c.hosts[h.ID] = h
		for _, address := range h.Addresses {
			c.at[address] = h
		}
	}
	for _, n := range c.Spec.Cluster.Nodes {
		if s, ok := c.standing(n); ok {
			c.nodes = append(c.nodes, s)
		} else if n.ControlPlane && c.at[n.Address] == nil {
			c.note(Note{Node: n.Name(), Text: "not from the inventory, and never exchanged"})
		}
	}
	for i := range c.nodes {
		c.judge(&c.nodes[i])
	}
	c.many = c.turnedBad()
	for _, e := range exchanges {
		for i := range c.nodes {
			if s := &c.nodes[i]; s.ControlPlane && s.cause == e.cause && (s.held == "" || c.Override) {
				c.dues = append(c.dues, s)
			}
		}
	}
}

// acceptance decides whether the read is one that later ones are compared with.
func (c *chooser) acceptance() Acceptance {
	switch {
	case c.many == "":
		return Accepted
	case c.Override:
		return Overridden
	}
	return Refused
}

// decide asks the rules in their order. What is wanted and cannot be done now does not keep later rules from what they can do.
func (c *chooser) decide() verdict {
	if !c.formed() {
		return c.bootstrap()
	}
	var first verdict
	for _, rule := range rules {
		switch v := rule(c); {
		case v.decided() && !v.passes():
			return v
		case !first.decided():
			first = v
		}
	}
	if first.decided() {
		return first
	}
	for _, s := range c.nodes {
		if s.held != "" {
			return verdict{reason: s.Name() + ": " + s.held, stop: StopNode, overridable: true}
		}
	}
	return verdict{reason: "the cluster has the machines that the template asks for"}
}

// apply puts a verdict into the choice.
func (c *chooser) apply(v verdict) {
	c.out.Change, c.out.Reason, c.out.Code, c.out.Waits, c.out.Stop, c.out.Overridable = v.change, v.reason, v.code, v.waits, v.stop, v.overridable
}

// note adds a line beside the outcome.
func (c *chooser) note(n Note) { c.out.Notes = append(c.out.Notes, n) }

// verdict is the outcome of a rule; its zero value passes to the next one.
type verdict struct {
	change      *Change
	reason      string
	code        cke.Code
	waits       Wait
	stop        Stop
	overridable bool
}

func (v verdict) decided() bool { return v.reason != "" }

// passes reports whether later rules are asked although this one wants a change.
func (v verdict) passes() bool {
	return v.stop == StopSimulated || v.stop == StopPerDay || v.stop == StopNode || v.code == cke.CodeNoHost
}

// unfit is the outcome that no machine fits.
func unfit(format string, args ...any) verdict {
	return verdict{reason: fmt.Sprintf(format, args...), code: cke.CodeNoHost}
}

// wait is the outcome that a change waits for what is no problem.
func wait(what Wait, format string, args ...any) verdict {
	return verdict{reason: fmt.Sprintf(format, args...), waits: what}
}
