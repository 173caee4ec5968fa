package sim

import (
	"fmt"
	"slices"

	"cke"
)

// checker watches what must never happen. Source: invariants of etcd's own robustness tests and of docs/strategy.md.
type checker struct {
	// goesBack: the store is being brought back from a copy.
	goesBack bool
	world    *World
	cluster  string
	// born holds every member id that ever had a log, with the container that made it.
	born map[uint64]string
	// outdated are volumes on which a removed member started anew, see wasBorn. What is in them was never acknowledged.
	outdated map[string]bool
	// committed is what each cluster id ever committed; no two members may differ in it.
	committed    map[uint64][]entry
	acknowledged []string
	holds        held
	formed       *cke.Incarnation
	// declared: the store gave up a cluster that it was only declared to restore, and that continues as it was.
	declared bool
	// byHand: an operator starts what is started now.
	byHand bool
	// gone are the incarnations that were deleted.
	gone []string
	// replaced is the incarnation that a restore under way is about to replace, lost what was acknowledged in it.
	replaced   *cke.Incarnation
	lost       []string
	violations []string
	// recovery is the operation that was stopping members for a recovery last, meanwhile what was acknowledged since it started to.
	// begun is how much had been acknowledged when the last recovery was put on record.
	recovery  int64
	meanwhile []string
	begun     int
	// stopped are the voters that a daemon stopped and that do not run again yet, had what members had when they ended last.
	stopped map[uint64]bool
	had     map[uint64]int
	repeats map[string]repetition
	ordered map[string]bool // restores that operators asked for, by task
	purges  map[string]bool // volumes that operators asked to remove
	// earlier: an earlier version of cke formed the cluster.
	earlier bool
	taken   taken
}

// Violations returns the invariants that were broken, in order.
func (w *World) Violations() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.violations)
}

// Violate notes an invariant that was broken where only the caller sees it.
func (w *World) Violate(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violated("%s", text)
}

func (c *checker) violated(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(c.violations, text) {
		c.violations = append(c.violations, text)
		c.world.log("VIOLATED: %s", text)
	}
}

// OnlyDeclared reports whether what was deleted is a declaration of a cluster that was to be restored.
func (c *checker) OnlyDeclared() bool { return c.declared }

// check observes who serves now.
func (c *checker) check() {
	c.couldSee()
	all := c.leaders()
	leaders := slices.DeleteFunc(slices.Clone(all), c.onWord)
	if len(leaders) == 1 && len(all) > 1 {
		c.world.mark(ReturnServes)
	}
	c.checkFence()
	c.checkTrust()
	c.checkArguments()
	if len(leaders) > 1 {
		c.violated("two clusters serve under one name")
	}
	for _, l := range leaders {
		if c.world.store.deleted && !c.declared {
			c.violated("a deleted cluster serves")
		}
		if c.formed != nil && hexID(l.cluster) != c.formed.ClusterID {
			c.violated("another cluster serves under the name of the one that was formed")
		}
		c.holdsAll(l)
	}
}

// held is a leader that was seen to have the first so many acknowledged writes in the first so many entries of its log.
type held struct {
	leader          *member
	entries, writes int
}

// holdsAll looks whether a leader has every acknowledged write. A leader's log only grows.
func (c *checker) holdsAll(l *member) {
	if c.holds.leader != l || c.holds.entries > len(l.log) {
		c.holds = held{leader: l}
	}
	acknowledged := c.acknowledged
	switch { // one that a restore replaces serves until the restored members start, and need not have what they will
	case c.formed == nil && c.replaced != nil && hexID(l.cluster) == c.replaced.ClusterID:
		acknowledged = c.lost
	case c.unfinished(l):
		acknowledged = nil
	}
	if c.holds.writes == len(acknowledged) {
		return
	}
	has := map[string]bool{}
	for _, e := range l.log {
		if e.kind == entryPut {
			has[e.value] = true
		}
	}
	for _, value := range acknowledged[c.holds.writes:] {
		if !has[value] {
			c.violated("the acknowledged write %s is lost", value)
		}
	}
	c.holds.entries, c.holds.writes = len(l.log), len(acknowledged)
}

// unfinished reports whether a leader is of a bootstrap that was not on record as completed when a restore began.
func (c *checker) unfinished(l *member) bool {
	inc := c.world.store.identity.Incarnation
	if c.formed != nil || c.replaced != nil || inc == nil || inc.State != cke.Restoring {
		return false
	}
	return slices.ContainsFunc(c.world.running(l.history()), func(p process) bool { return p.member == l && p.c.Incarnation != inc.ID })
}

// serves is who leads the formed cluster, and how much had happened in the world by then.
type serves struct {
	leader  *member
	events  int
	refuses bool // etcd's authentication refuses cke
}

var noLeader = serves{}

// whoServes is noLeader also where others vote than the daemon can know of, on its record or on nodes that it reaches, and where a leader has lost its quorum since anything
// happened: certificates end as time passes.
func (d *Daemon) whoServes() serves {
	w := d.world
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.leaders() {
		if w.formed == nil || hexID(l.cluster) != w.formed.ClusterID || l.commit == 0 || l.log[l.commit-1].term != l.term {
			continue // it serves once it has committed in its term
		}
		running := w.running(l.history())
		if !w.holdsOn(l, running) {
			continue
		}
		if slices.ContainsFunc(running, func(p process) bool {
			return !p.c.bare && !d.look.identity.Has(p.c.Join) && slices.Contains(l.voters(), p.id) && !w.connected(Management, p.c.node.name)
		}) {
			return noLeader
		}
		for _, j := range d.look.identity.Joins {
			votes := slices.ContainsFunc(l.voters(), func(id uint64) bool { return hexID(id) == j.MemberID })
			if j.MemberID != "" && !j.StartedAt.IsZero() && !votes {
				return noLeader
			}
		}
		return serves{l, w.events, w.denied() != nil}
	}
	return noLeader
}

// Reported checks what a daemon reports of the cluster without storing it.
func (d *Daemon) Reported(s cke.Status) {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	d.world.wasReported(d, s)
}

// wasReported checks that a status calls no cluster lost that served while it was observed.
func (c *checker) wasReported(d *Daemon, s cke.Status) {
	if d.look.served && s.Health == cke.HealthLost {
		c.violated("daemon %d reports a lost quorum while the cluster serves: %s", d.number, s.Summary)
	}
	if d.look.refused && s.Health == cke.HealthReady {
		c.violated("daemon %d reports a ready cluster in which etcd refuses all that it does", d.number)
	}
	c.wasSpread(d, s)
	c.wasBlank(d, s)
	c.mustFreeze(d, s)
}

// wasBlank checks that a status which says that no node holds any data shows no volume of a member.
func (c *checker) wasBlank(d *Daemon, s cke.Status) {
	if !slices.ContainsFunc(s.Problems, func(p cke.Problem) bool { return p.Code == cke.CodeBlankNodes }) {
		return
	}
	for _, n := range s.Nodes {
		for _, j := range d.look.identity.Joins {
			if _, there := n.VolumeOf(j); there && n.Answered() {
				c.violated("daemon %d reports blank nodes, and %s has the volume of the member of %s", d.number, n.Node.Name(), j.Node.Name())
			}
		}
	}
}

// leaders are the members that lead now, of whatever cluster, but for a history aside.
func (c *checker) leaders() []*member {
	var leaders []*member
	for _, g := range c.world.groups {
		if g.leader != nil && c.world.counts(g.leader) {
			leaders = append(leaders, g.leader)
		}
	}
	return leaders
}

// wasBorn notes that a member made a log where there was none. A learner that an operator starts may: it never voted, and gets all
// again. So may a member that was removed, where a voter that does not know of that yet says to a learner that it is that one: they
// are too few to elect anyone, which the leaders are checked for.
func (c *checker) wasBorn(by *container, m *member) {
	learns := c.byHand && !c.world.everVoted(m)
	earlier, before := c.born[m.id]
	outdated := before && earlier != by.Name && by.spec.Mode == cke.StartJoin && c.world.everRemoved(m)
	if before && !learns && !outdated {
		c.violated("a member of %s starts empty under the id that it had before", by.node.name)
	}
	if c.formed != nil && by.spec.Mode == StartNew && by.Incarnation == c.formed.ID {
		c.violated("a bootstrap member on %s starts as a new one though the cluster is formed", by.node.name)
	}
	c.born[m.id] = by.Name
	if outdated {
		c.outdated[by.Name] = true
	}
}

// FormedEarlier notes that an earlier version of cke forms the cluster: its containers count as no violation.
func (w *World) FormedEarlier() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.earlier = true
}

// checkArguments: once the cluster is formed no container exists that could start a member on an emptied volume, whoever starts
// it. One of a learner could, while its member does not vote.
func (c *checker) checkArguments() {
	if c.formed == nil || c.earlier {
		return
	}
	for _, n := range c.world.nodes {
		for _, of := range n.sorted() {
			if of.Incarnation != c.formed.ID || of.foreign {
				continue
			}
			if of.spec.Mode == StartNew || of.spec.Mode == cke.StartJoin && of.member() != nil && slices.Contains(of.member().voters(), of.member().id) {
				c.violated("a container on %s could start its member without its data", n.name)
			}
		}
	}
}

// wasAcknowledged notes a write; while a restore is being prepared it is one of the incarnation that will be replaced.
func (c *checker) wasAcknowledged(by *member, value string) {
	if !c.world.counts(by) {
		c.world.twin.acknowledged = append(c.world.twin.acknowledged, value)
		return
	}
	c.wasMeanwhile(by, value)
	if c.formed == nil {
		c.taken.acknowledges(value, c.votingOf(by))
		if id := c.world.store.identity; id.Started() && id.Incarnation.State == cke.Restoring && !c.onWord(by) {
			c.violated("%s is acknowledged by what a restore replaces, though the start of its members is on record", value)
		}
		c.lost = append(c.lost, value)
		return
	}
	c.acknowledged = append(c.acknowledged, value)
}

// wereCommitted compares what a leader committed with all that its cluster ever committed.
func (c *checker) wereCommitted(l *member) {
	if l.proved == l.commit {
		return
	}
	known := c.committed[l.history()]
	for i := l.proved; i < l.commit; i++ {
		if i == len(known) {
			known = append(known, l.log[i])
		}
		if known[i] != l.log[i] {
			c.violated("two members committed different entries at index %d", i+1)
		}
	}
	c.committed[l.history()], l.proved = known, l.commit
}

// wasStored observes a change of the cluster's identity in the store.
func (c *checker) wasStored(before, after *cke.Incarnation) {
	switch {
	case after == nil && before != nil && before.State == cke.Awaiting: // what was deleted is a declaration
		c.declared = true
	case after == nil: // deleted
		c.formed, c.acknowledged, c.holds = nil, nil, held{}
		if before != nil {
			c.gone = append(c.gone, slices.Concat(before.Lives(), before.Previous)...)
		}
	case after.State == cke.Restoring && (before == nil || before.ID != after.ID):
		if !c.goesBack {
			c.endsBeside("a restore", after.Restore.Order)
		}
		c.beginsRestore(after)
	case before != nil && before.State == cke.Restoring && before.ID != after.ID:
		c.cancelsRestore(after)
	case c.goesBack: // the store is brought back from a copy
	case before != nil && before.ID == after.ID && before.State == after.State && before.ClusterID == after.ClusterID: // as it was
	case c.formed != nil && (after.ID != c.formed.ID || after.State != cke.Formed || after.ClusterID != c.formed.ClusterID):
		c.violated("the formed incarnation is replaced")
	case after.State == cke.Formed && c.formed == nil:
		inc := *after
		c.formed = &inc
		c.restores(after)
	case before != nil && before.ID != after.ID && before.State != cke.Abandoned:
		c.violated("a bootstrap is replaced that was not abandoned")
	}
}

// wereJoined observes a change of memberships in the store: archived data is given up only once its time is over, by the
// clock of the daemon's host as it was while the daemon was about it, or for an operator.
func (c *checker) wereJoined(by *Daemon, actor string, before, after cke.Identity) {
	c.wereChanged(by, before, after)
	if !before.Started() && after.Started() {
		c.startsRestored(by, actor, after)
	}
	c.copyStarts(before, after)
	c.wereCarried(by, before, after)
	for _, j := range after.Ended {
		i := slices.IndexFunc(before.Ended, func(o cke.Join) bool { return o.ID == j.ID })
		if j.PurgedAt.IsZero() || i >= 0 && !before.Ended[i].PurgedAt.IsZero() {
			continue
		}
		if j.Copied() {
			best := furthest(c.world.remains())
			if !c.purges[j.Volume] && !c.outdated[j.Volume] && !by.surprised() && best != nil && slices.ContainsFunc(c.world.membersOf(j), best.voted) {
				c.violated("the volume of a voter of %s is given up as that of a learner", j.Node.Name())
			}
			continue
		}
		keep := j.KeepUntil
		if i >= 0 {
			keep = before.Ended[i].KeepUntil
		}
		asked := c.purges[j.Volume] || slices.ContainsFunc(c.world.store.requests.Tasks, func(t cke.Task) bool { return t.Kind == cke.TaskPurge && t.Subject == j.Volume })
		if !asked && (keep.IsZero() || by.clock.Before(keep)) {
			c.violated("the volume of %s is given up before its time", j.Node.Name())
		}
	}
}

// wereChanged observes how members are to run from now on: while etcd is out of space none that runs is made to run
// another version.
func (c *checker) wereChanged(by *Daemon, before, after cke.Identity) {
	records := c.world.store.records
	if by.surprised() || len(records) == 0 || records[len(records)-1].Operation != "restart-member" {
		return
	}
	for _, j := range after.Joins {
		was, lasts := before.Join(j.ID)
		if lasts && was.Etcd.Version != j.Etcd.Version && c.world.standing().outOfSpace() {
			c.violated("daemon %d lets the member on %s run %s while etcd is out of space", by.number, j.Node.Name(), j.Etcd.Version)
		}
	}
}

// isRemoved observes a volume before it goes.
func (c *checker) isRemoved(n *Node, v *volume) {
	if v == nil {
		return
	}
	c.keepsTwins(n)
	id := c.world.store.identity
	i := slices.IndexFunc(id.Ended, func(j cke.Join) bool { return j.ID == v.join })
	switch {
	case v.cluster == "":
		c.violated("a volume on %s is removed that cke did not make", n.name)
	case id.Incarnation.WasAbandoned(v.incarnation):
	case i >= 0 && id.Ended[i].PurgedAt.IsZero():
		c.violated("a volume on %s is removed before that is on record", n.name)
	case i < 0 && slices.ContainsFunc(c.world.store.requests.Tasks, func(t cke.Task) bool { return t.Kind == cke.TaskPurge && t.Subject == v.name }):
	case i < 0 && v.cluster == c.cluster:
		c.violated("a volume on %s is removed whose incarnation was not abandoned", n.name)
	}
}

// onlyAstray reports whether the only voter serves where it is not on record: nothing can be changed in the member list until it is moved.
func (c *checker) onlyAstray(before standing) bool {
	return len(before.voters) == 1 && slices.ContainsFunc(before.running, func(p process) bool {
		j, lasts := c.world.store.identity.Join(p.c.Join)
		return p.id == before.voters[0] && lasts && !p.c.StandsAt(j)
	})
}
