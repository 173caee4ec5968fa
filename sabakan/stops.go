package sabakan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
)

// staleStatus is the age from which a status says nothing of the present: leaders store one at least every 10 s.
const staleStatus = time.Minute

// Stop names what forbids a change.
type Stop string

// Stops.
const (
	StopOff       Stop = "off"
	StopRead      Stop = "read"
	StopState     Stop = "state"
	StopStatus    Stop = "status"
	StopQuorum    Stop = "quorum"
	StopInFlight  Stop = "in-flight"
	StopOthers    Stop = "others"
	StopMany      Stop = "many"
	StopSettle    Stop = "settle"
	StopPerDay    Stop = "per-day"
	StopNode      Stop = "node"
	StopSimulated Stop = "simulated"
)

// stop is one reason for which nothing is changed, whatever the rules would say. It has a code where it is a problem, or comes with one.
type stop struct {
	name Stop
	code cke.Code
	// overridable: the operator may confirm a change in spite of it.
	overridable bool
	// why returns what is in the way; empty: nothing is.
	why func(*chooser) string
}

// Nothing follows from a read that is unusable; of another one, the stops are asked in this order.
var (
	unusable = []stop{
		{StopOff, "", false, (*chooser).off},
		{StopRead, cke.CodeInventory, false, (*chooser).unread},
	}
	stops = []stop{
		{StopState, "", false, (*chooser).unchangeable},
		{StopStatus, cke.CodeNoLeader, false, (*chooser).unobserved},
		{StopQuorum, cke.CodeNoQuorum, false, (*chooser).quorumless},
		{StopInFlight, "", false, (*chooser).inFlight},
		{StopOthers, "", false, (*chooser).othersUnknown},
		{StopMany, cke.CodeManyHosts, true, func(c *chooser) string { return c.many }},
		{StopSettle, "", true, (*chooser).settling},
	}
)

// stopped puts the first of some stops that applies into the choice.
func (c *chooser) stopped(by []stop) bool {
	for _, s := range by {
		if s.overridable && c.Override {
			continue
		}
		if why := s.why(c); why != "" {
			c.apply(verdict{reason: why, code: s.code, stop: s.name, overridable: s.overridable})
			return true
		}
	}
	return false
}

// overridden notes in a draft the stops that apply and that the operator overrides.
func (c *chooser) overridden(d *draft) {
	for _, s := range stops {
		if s.overridable {
			if why := s.why(c); why != "" {
				d.override(s.name, why)
			}
		}
	}
}

func (c *chooser) off() string {
	switch t := c.Template; {
	case t.Name == "":
		return "no template is set"
	case c.o.Mode == cke.InventoryOff:
		return "the template has mode: off"
	case c.Spec.Generation > 0 && t.Name != c.Spec.Cluster.Name:
		return fmt.Sprintf("the template is of cluster %s, and this is %s", t.Name, c.Spec.Cluster.Name)
	}
	return ""
}

func (c *chooser) unread() string {
	limit := missedReads * time.Duration(c.o.Interval)
	age := c.Now.Sub(c.Read.ReadAt)
	switch {
	case c.Read.ReadAt.IsZero() && c.Problem == "":
		return "the inventory was not read yet"
	case c.Read.ReadAt.IsZero():
		return "the inventory was never read: " + c.Problem
	case c.Problem != "":
		return fmt.Sprintf("the inventory cannot be read, the last good read is %s old: %s", short(age), c.Problem)
	case age > limit:
		return fmt.Sprintf("the last read of the inventory is %s old, and %s is the limit", short(age), short(limit))
	case age < -limit:
		return fmt.Sprintf("the last read of the inventory is from %s in the future: a clock was set", short(-age))
	}
	return ""
}

// formed reports whether there is a cluster already.
func (c *chooser) formed() bool { return c.Spec.Generation > 0 }

func (c *chooser) unchangeable() string {
	paused, _ := c.Status.Condition(cke.CondPaused)
	switch {
	case !c.formed():
	case c.Spec.Deleting():
		return "the cluster is being deleted"
	case paused.Status == cke.True:
		return "changes are paused: " + paused.Message
	case c.Status.Hibernation != nil:
		return "the cluster is hibernated"
	case slices.Contains([]cke.Health{cke.HealthFrozen, cke.HealthRestoring, cke.HealthDeleting, cke.HealthForming, cke.HealthHibernated}, c.Status.Health):
		return fmt.Sprintf("the cluster is %s: %s", c.Status.Health, c.Status.Summary)
	}
	return ""
}

func (c *chooser) unobserved() string {
	age := c.Now.Sub(c.Status.ObservedAt)
	switch {
	case !c.formed():
	case c.Status.ObservedAt.IsZero():
		return "no leader daemon has observed the cluster yet"
	case age > staleStatus:
		return fmt.Sprintf("the status is %s old", short(age))
	case age < -staleStatus:
		return fmt.Sprintf("the status is from %s in the future: a clock was set", short(-age))
	}
	return ClockDoubt(c.Status)
}

// ClockDoubt returns why the times that the leader daemon writes cannot be relied on; empty: they can. That a node's clock is off is
// no reason: those of most others and of the daemon agree.
func ClockDoubt(s cke.Status) string {
	agree, known := s.Condition(cke.CondClocksAgree)
	if !known || agree.Status == cke.True || agree.Reason == cke.ReasonNodeOff {
		return ""
	}
	return agree.Message
}

func (c *chooser) quorumless() string {
	if c.formed() && (c.Status.Tolerance < 0 || !c.Status.Etcd.Quorate) {
		return "the cluster has no quorum, as far as is known"
	}
	return ""
}

// inFlight: the last revision is not applied yet, or something is under way. What waits for the machine that has to go would wait
// without end.
func (c *chooser) inFlight() string {
	s := c.Status
	switch {
	case !c.formed():
		return ""
	case s.Generation != c.Spec.Generation:
		return fmt.Sprintf("the leader daemon has not observed revision %d yet", c.Spec.Generation)
	case s.Electing != nil:
		return "members may elect another leader"
	}
	for _, m := range s.Members {
		if m.Role == "learner" && !c.isDue(m.Name) {
			return m.Name + " is catching up"
		}
	}
	if o := s.Operation; o != nil && o.State == cke.RecordRunning && (len(o.Targets) == 0 || slices.ContainsFunc(o.Targets, func(node string) bool { return !c.isDue(node) })) {
		return strings.TrimSuffix(fmt.Sprintf("%s is running on %s", o.Type, strings.Join(o.Targets, ", ")), " on ")
	}
	for _, d := range s.Drains {
		gone := func(s *standing) bool {
			return s.Name() == d.Node && (s.state == cke.HostRetired || s.state == missing)
		}
		if d.Active(c.Now) && !slices.ContainsFunc(c.dues, gone) {
			return d.Text()
		}
	}
	if s.ObservedGeneration < c.Spec.Generation {
		for _, m := range s.Members {
			if !m.Ready && !c.isDue(m.Name) {
				return fmt.Sprintf("revision %d is not applied yet: %s does not serve", c.Spec.Generation, m.Name)
			}
		}
		if c.dues == nil {
			return fmt.Sprintf("revision %d is not applied yet", c.Spec.Generation)
		}
	}
	return ""
}

// othersUnknown: a machine may have become a node of another cluster meanwhile.
func (c *chooser) othersUnknown() string {
	if c.TakenProblem == "" {
		return ""
	}
	return "the nodes of other clusters cannot be read: " + c.TakenProblem
}

// isDue reports whether the machine of the node with this name has to go.
func (c *chooser) isDue(node string) bool {
	return slices.ContainsFunc(c.dues, func(s *standing) bool { return s.Name() == node })
}

// turnedBad: many machines turned bad at once. Then the inventory, or a whole site, is more likely to be wrong than each machine.
func (c *chooser) turnedBad() string {
	var turned []string
	for _, s := range c.nodes {
		if s.ControlPlane && turnedBad(s.past, s.state) {
			turned = append(turned, s.Name())
		}
	}
	if len(turned) >= 2 {
		slices.Sort(turned)
		return fmt.Sprintf("the machines of %s turned bad, or vanished, at about the same time", strings.Join(turned, ", "))
	}
	known, now := 0, 0
	for serial, p := range c.Past.Hosts {
		if p.Accepted == "" {
			continue
		}
		state := missing
		if h := c.hosts[serial]; h != nil {
			state = h.State
		}
		if known++; turnedBad(p, state) {
			now++
		}
	}
	if now >= 2 && now*4 >= known {
		return fmt.Sprintf("%d of %d machines turned bad, or vanished, at about the same time", now, known)
	}
	return ""
}

// settling: the last change was stored, or completed, a short time ago.
func (c *chooser) settling() string {
	if len(c.Past.Changes) == 0 {
		return ""
	}
	settle := time.Duration(c.o.Limits.Settle)
	last := c.Past.Changes[len(c.Past.Changes)-1]
	at := last.At
	if last.ConvergedAt.After(at) {
		at = last.ConvergedAt
	}
	if !within(at, c.Now, settle) {
		return ""
	}
	return fmt.Sprintf("the last change was %s ago, and %s have to pass", short(c.Now.Sub(at)), short(settle))
}

// perDay: enough members were moved today.
func (c *chooser) perDay() string {
	n := 0
	for _, a := range c.Past.Changes {
		if a.Cause.Moves() && within(a.At, c.Now, day) {
			n++
		}
	}
	if n < c.o.Limits.ChangesPerDay {
		return ""
	}
	return fmt.Sprintf("%s in the last 24h, as many as the template allows", cke.Plural(n, "change moved a member", "changes moved members"))
}

// undone: the operator has rolled back a change of this kind, which is of no machine that has to go: heldBack holds those.
func (c *chooser) undone(d draft) string {
	for _, a := range c.Past.Changes {
		if a.Cause == d.Cause && within(a.RolledBackAt, c.Now, day) && !c.isDueSerial(d.Old) {
			return "such a change was rolled back less than 24h ago"
		}
	}
	return ""
}

// isDueSerial reports whether a machine has to go.
func (c *chooser) isDueSerial(serial string) bool {
	return slices.ContainsFunc(c.dues, func(s *standing) bool { return s.serial == serial })
}

// short is a duration to the minute, or to the second if it is of few minutes.
func short(d time.Duration) string {
	unit := time.Minute
	if d < 10*time.Minute {
		unit = time.Second
	}
	return cke.Duration(max(d, 0).Truncate(unit)).Short()
}
