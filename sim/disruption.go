package sim

import (
	"net/url"
	"slices"
	"time"

	"cke"
)

// Disruptions: what a daemon may do to a formed cluster's members. A call is judged by what was so before it and after
// it, against what its daemon could know: where something else has happened since the daemon looked, and where a call
// lands after its caller gave it up or lost its term, nobody could have known better.

// standing is how the formed cluster is at one moment.
type standing struct {
	formed  bool
	quorate bool // some running member reaches a quorum of its voters
	list    []listed
	voters  []uint64
	running []process
	leader  *member
	// serving are the ids of voters that serve linearizable reads, as a daemon sees it; known before calls to etcd only.
	serving []uint64
	led     []uint64 // those that run and have a leader; known before stops only
	alarms  []cke.Alarm
}

func (w *World) standing() (s standing) {
	if w.formed == nil {
		return s
	}
	s.formed = true
	id := w.history()
	s.running = w.running(id)
	var best *member
	for _, p := range s.running {
		if w.electable(p, s.running) && (best == nil || p.newer(best) && p.commit >= best.commit) {
			best = p.member
		}
	}
	if g := w.groups[id]; g != nil && g.leader != nil {
		if s.leader = g.leader; w.holdsOn(g.leader, s.running) {
			best = g.leader
		}
	}
	if best != nil {
		s.quorate, s.list, s.voters, s.alarms = true, best.present(), best.voters(), best.apply().alarms
	}
	return s
}

// answering returns the ids of voters that serve linearizable reads, as a daemon sees it.
func (w *World) answering(s standing) (ids []uint64) {
	for _, l := range s.list {
		if slices.Contains(s.voters, l.id) && s.runs(l.id) && w.endpoint(l.client).Linearizable {
			ids = append(ids, l.id)
		}
	}
	return ids
}

// led are the members that run and have a leader.
func (w *World) led(s standing) (ids []uint64) {
	for _, p := range s.running {
		if _, _, _, ok := w.leads(p.c); ok {
			ids = append(ids, p.id)
		}
	}
	return ids
}

func (s standing) runs(id uint64) bool {
	return slices.ContainsFunc(s.running, func(p process) bool { return p.id == id })
}

// pending counts learners and members that never started, apart from one.
func (s standing) pending(without uint64) int {
	n := 0
	for _, l := range s.list {
		if l.id != without && (l.learner || l.name == "") {
			n++
		}
	}
	return n
}

// unwell counts voters that do not run, apart from one.
func (s standing) unwell(without uint64) int {
	n := 0
	for _, id := range s.voters {
		if id != without && !s.runs(id) {
			n++
		}
	}
	return n
}

// happened counts what happened in the world apart from what this daemon did.
func (d *Daemon) happened() int { return d.world.events - d.own }

// looks takes note of a read from which a daemon knows how things stand.
func (d *Daemon) looks(c Call) {
	if c.Port == "store" && c.Name == "AppendRecord" {
		d.clock = time.Time{}
	}
	if now := d.host(); now.After(d.clock) {
		d.clock = now
	}
	if c.Port == "store" && c.Name == "Spec" {
		d.file, d.read = d.world.store.spec.Generation, d.knowsQueues()
	}
	switch {
	case c.Port == "store" && c.Name == "Spec", c.Port == "look" && c.Name == "Node" && d.lookEnded:
		d.observed, d.lookEnded = d.happened(), false
	case c.Port == "look" && c.Name == "Etcd":
		d.lookEnded = true
	case c.Port == "store" && c.Name == "AppendRecord":
		d.decided, d.decidedOn, d.queues = d.observed, d.file, d.read
		d.queues.agree(d.knowsQueues())
	case c.Port == "etcd" && c.Name == "Members":
		d.listed[c.Actor] = d.happened()
	}
}

// surprised reports whether something has happened since the daemon decided what it does now.
func (d *Daemon) surprised() bool { return d.decided < d.happened() }

// surprisedLately reports whether something has happened since the same step read the member list.
func (d *Daemon) surprisedLately(actor string) bool {
	return max(d.decided, d.listed[actor]) < d.happened()
}

// touches reports whether a call may change which members run or are listed.
func (c Call) touches() bool { return c.Writes && (c.Port == "node" || c.Port == "etcd") }

// wasDone judges a call that has just had its effect.
func (c *checker) wasDone(t *turn, before standing) {
	if !before.formed || !before.quorate {
		return
	}
	after := c.world.standing()
	if t.stale() || c.asked() || c.unheard(before, after) {
		return
	}
	gone := slices.DeleteFunc(slices.Clone(before.voters), func(id uint64) bool {
		return !before.runs(id) || after.runs(id)
	})
	if !after.quorate && !t.daemon.surprisedLately(t.call.Actor) && (len(before.voters) > 2 || gone == nil) {
		c.violated("%s takes the quorum away", t.call)
	}
	if after.quorate && t.call.Port == "etcd" {
		c.wasListed(t, before, after)
	}
	if t.daemon.surprised() {
		return
	}
	for _, id := range gone {
		if t.call.Port == "node" || slices.Contains(before.serving, id) { // one that is removed ends, though nobody may see it run
			c.wasStopped(t, before, id)
			c.wasNeeded(t, before, id)
		}
	}
	switch t.call.Name {
	case "Disarm":
		c.wasDisarmed(t, before, after)
	case "Defragment":
		c.wasHeldUp(t, before)
	}
}

// unheard reports whether what ends is a member that has not heard of where it stands, while no leader serves: to a daemon whose store is
// older, too, it is one that nobody reaches.
func (c *checker) unheard(before, after standing) bool {
	if l := before.leader; l != nil && l.commit > 0 && l.log[l.commit-1].term == l.term {
		return false
	}
	return slices.ContainsFunc(before.running, func(p process) bool {
		j, lasts := c.world.store.identity.Join(p.c.Join)
		heard := slices.ContainsFunc(p.members(), func(l listed) bool { return l.id == p.id && l.peer == p.c.spec.Join.PeerURL() })
		return !after.runs(p.id) && lasts && !p.c.StandsAt(j) && !heard
	})
}

// outOfSpace reports whether NOSPACE is active.
func (s standing) outOfSpace() bool {
	return slices.ContainsFunc(s.alarms, func(a cke.Alarm) bool { return a.Kind == noSpace })
}

// wasDisarmed judges that an alarm is cleared: CORRUPT only for an operator, NOSPACE also where no database is full.
func (c *checker) wasDisarmed(t *turn, before, after standing) {
	asked := slices.ContainsFunc(c.world.store.requests.Tasks, func(t cke.Task) bool { return t.Kind == cke.TaskDisarm })
	if asked || len(after.alarms) >= len(before.alarms) {
		return
	}
	found := func(alarms []cke.Alarm) (n int) { // etcd's, not a stop of writes
		for _, a := range alarms {
			if a.Kind == corrupt && !a.StopsWrites() {
				n++
			}
		}
		return n
	}
	if found(after.alarms) < found(before.alarms) {
		c.violated("%s clears the alarm CORRUPT, which was not requested", t.call)
	}
	for _, p := range before.running {
		if slices.Contains(before.voters, p.id) && p.apply().file >= p.quota() {
			c.violated("%s clears NOSPACE while the database of %s is full", t.call, p.c.node.name)
		}
	}
}

// wasHeldUp judges that a voter answers nobody while it is defragmented.
func (c *checker) wasHeldUp(t *turn, before standing) {
	for _, p := range before.running {
		if len(before.voters) > 2 && p.c.node.name == t.call.Node && slices.Contains(before.voters, p.id) {
			c.mayTake(t, before, p.id)
			c.leadsOn(t, before, p.id)
		}
	}
}

// wasNeeded judges that a member is stopped to run with other options. A file that was stored after the daemon had read the
// one that it goes by is not held against it.
func (c *checker) wasNeeded(t *turn, before standing, id uint64) {
	s := c.world.store
	if s.spec.Generation != t.daemon.decidedOn || len(s.records) == 0 || s.records[len(s.records)-1].Operation != "restart-member" {
		return
	}
	for _, p := range before.running {
		i := slices.IndexFunc(s.identity.Joins, func(j cke.Join) bool { return j.ID == p.c.Join })
		if p.id != id || i < 0 || s.identity.Joins[i].Bundle != s.identity.Authorities.Bundle() {
			continue
		}
		if cke.BundleOf(p.c.peerCAs, p.c.clientCAs) != s.identity.Authorities.Bundle() && s.identity.Authorities.Bundle() != "" || p.c.unsure || p.c.spec.Mode == StartNew {
			continue // no record reports what a call that landed late put beside the data
		}
		now, recorded := p.c.runsWith(), s.identity.Joins[i].Etcd // an operator may have given it manually what the file asks for
		made := p.c.spec.Join.Etcd                                // its label says so, also where an operator has given it other limits since
		if declared := s.spec.Wanted().Options.Etcd.PlacedAs(now); now.Equal(declared) && recorded.Equal(declared) && made.Equal(declared) {
			c.violated("%s stops a member that runs as declared", t.call)
		}
	}
}

// asked reports whether an operator wants that members do not serve.
func (c *checker) asked() bool {
	s := c.world.store
	return s.spec.Deleting() || s.requests.Hibernation != nil || slices.ContainsFunc(s.requests.Tasks, func(t cke.Task) bool { return t.Kind == cke.TaskRestore })
}

// wasStopped judges the stop of a voter that ran.
func (c *checker) wasStopped(t *turn, before standing, id uint64) {
	apart := slices.ContainsFunc(c.world.store.identity.Joins, func(j cke.Join) bool { return j.Apart && j.MemberID == hexID(id) })
	if !apart && (len(before.led) == 0 || slices.Contains(before.led, id)) { // one that has no leader while others have one serves nobody
		c.mayTake(t, before, id)
	}
	c.leadsOn(t, before, id)
	if c.stopped == nil {
		c.stopped = map[uint64]bool{}
	}
	c.stopped[id] = true
}

// leadsOn judges that a voter is stopped or held up that may lead.
func (c *checker) leadsOn(t *turn, before standing, id uint64) {
	l := before.leader
	if l == nil || l.id != id || len(before.voters) <= 2 { // of two nobody serves without the other, whoever leads
		return
	}
	for _, p := range before.running {
		if p.member != l && slices.Contains(before.voters, p.id) && len(p.log) == len(l.log) && c.world.hasQuorum(p, before.running) {
			c.violated("%s stops the leader though %s could lead", t.call, p.c.node.name)
			return
		}
	}
}

// mayTake judges that a healthy voter is taken away, whether stopped or removed.
func (c *checker) mayTake(t *turn, before standing, id uint64) {
	for other := range c.stopped {
		if before.runs(other) || !slices.Contains(before.voters, other) {
			delete(c.stopped, other)
		} else if other != id {
			c.violated("%s takes a second voter away while another one is stopped", t.call)
			return
		}
	}
	switch {
	case before.pending(id) > 0 && !c.onlyAstray(before):
		c.violated("%s takes a healthy voter away while a change of the member list is under way", t.call)
	case before.unwell(id) > 0:
		c.violated("%s takes a healthy voter away while another one does not run", t.call)
	case c.interrupts(t, before):
		c.violated("%s interrupts service unasked though more voters are declared", t.call)
	}
}

// interrupts reports whether one of one or two voters is restarted with other options, though more are declared and no
// person accepted that nobody is served meanwhile.
func (c *checker) interrupts(t *turn, before standing) bool {
	s := c.world.store
	if len(before.voters) > 2 || s.spec.Generation != t.daemon.decidedOn || s.requests.Interrupt >= s.spec.Generation || len(s.records) == 0 {
		return false
	}
	if slices.ContainsFunc(before.alarms, func(a cke.Alarm) bool { return a.Kind == corrupt }) { // etcd takes no writes: nothing is interrupted
		return false
	}
	last := s.records[len(s.records)-1].Operation
	return (last == "restart-member" || last == "change-address") && len(s.spec.Cluster.ControlPlane()) > len(before.voters)
}

// wasListed judges a change of the member list.
func (c *checker) wasListed(t *turn, before, after standing) {
	for _, l := range before.list {
		if !slices.ContainsFunc(after.list, func(o listed) bool { return o.id == l.id }) && !t.daemon.surprised() {
			c.wasTakenOut(t, before, l)
		}
	}
	for _, l := range after.list {
		was := slices.ContainsFunc(before.list, func(o listed) bool { return o.id == l.id && o.learner })
		for _, p := range after.running {
			if was && !l.learner && p.id == l.id && p.c.node.trickles && !t.daemon.surprised() {
				c.violated("%s lets a learner vote that is far behind", t.call)
			}
		}
		if was && !l.learner && after.unlinked(l.id) && !t.daemon.surprised() {
			c.violated("%s lets a learner vote whose data was removed", t.call)
		}
	}
	added := slices.ContainsFunc(after.list, func(l listed) bool {
		return !slices.ContainsFunc(before.list, func(o listed) bool { return o.id == l.id })
	})
	if added && before.pending(0) > 0 && !t.daemon.surprised() {
		c.violated("%s adds a member while a change of the member list is under way", t.call)
	}
}

// wasTakenOut judges the removal of an entry. One that may serve again is removed only when the file or an operator wants it.
func (c *checker) wasTakenOut(t *turn, before standing, l listed) {
	if slices.Contains(before.serving, l.id) {
		c.mayTake(t, before, l.id)
	}
	s := c.world.store
	is := func(j cke.Join) bool { return j.MemberID == hexID(l.id) || j.PeerURL() == l.peer }
	i := slices.IndexFunc(s.identity.Joins, is)
	if i < 0 {
		once := func(j cke.Join) bool {
			return j.MemberID == hexID(l.id) || l.learner && l.name == "" && j.PeerURL() == l.peer
		}
		if s.spec.Wanted().Policies.Foreign == cke.ForeignHold && !c.world.isOld(l.id) && !slices.ContainsFunc(s.identity.Ended, once) && !c.adopted(hexID(l.id), "") {
			c.violated("%s removes a foreign member that is to be held", t.call)
		}
		if !l.learner && slices.Contains(before.serving, l.id) && c.lacks(before, l) && !c.adopted(hexID(l.id), "") {
			c.violated("%s takes a foreign member away that serves, before there are as many members as are declared", t.call)
		}
		return
	}
	j := s.identity.Joins[i]
	asked := slices.ContainsFunc(s.requests.Tasks, func(t cke.Task) bool { return t.Kind == cke.TaskReplace && t.Subject == string(j.ID) })
	if l.learner || asked {
		return
	}
	if slices.Contains(before.serving, l.id) && c.lacks(before, l) && !c.goesFirst(before, l.id) {
		c.violated("%s takes a member away that serves, before there are as many others as are declared", t.call)
	}
	for _, n := range s.declared() {
		at := c.world.at(n.Address)
		if at == nil {
			continue
		}
		if v := at.volumes[j.Volume]; v != nil && v.wal != nil && v.join == j.ID {
			c.violated("%s removes the member of %s, whose data is there", t.call, n.Name())
		}
	}
}

// unlinked reports whether a member runs on files that were removed.
func (s standing) unlinked(id uint64) bool {
	return slices.ContainsFunc(s.running, func(p process) bool {
		v := p.c.volume()
		return p.id == id && (v == nil || v.wal != p.member)
	})
}

// goesFirst reports whether a voter that runs on removed files may be taken away before there are as many others as are declared: whatever
// the others agree to is then on one that is on record and has its data.
func (c *checker) goesFirst(before standing, id uint64) bool {
	others, keep := len(before.voters)-1, 0
	for _, j := range c.world.store.identity.Joins {
		if v := number(j.MemberID); v != id && slices.Contains(before.voters, v) && !before.unlinked(v) {
			keep++
		}
	}
	return before.unlinked(id) && others-keep < majority(others)
}

// lacks reports whether fewer voters on record than declared are left without one while none is on a declared node, and one may be added.
// No foreign member waits for a node with one: that takes none before.
func (c *checker) lacks(before standing, goes listed) bool {
	w := c.world.store
	declared, left, ours := w.declared(), 0, false
	for _, j := range w.identity.Joins {
		if l, votes := before.voter(j); votes {
			left, ours = left+1, ours || l.id == goes.id
		}
	}
	if ours {
		left--
	}
	return left < len(declared) && len(before.voters) < mostVoters && slices.ContainsFunc(declared, func(n cke.Node) bool {
		voter := slices.ContainsFunc(w.identity.Joins, func(j cke.Join) bool { _, votes := before.voter(j); return votes && j.Node.Address == n.Address })
		foreign := slices.ContainsFunc(before.list, func(l listed) bool {
			u, err := url.Parse(l.peer)
			return err == nil && u.Hostname() == n.Address
		})
		return !voter && (ours || !foreign)
	})
}

// voter is the voter in the list that a membership is on record for.
func (s standing) voter(j cke.Join) (listed, bool) {
	i := slices.IndexFunc(s.list, func(l listed) bool {
		return !l.learner && (j.MemberID == hexID(l.id) || j.MemberID == "" && j.PeerURL() == l.peer)
	})
	if i < 0 {
		return listed{}, false
	}
	return s.list[i], true
}

// endsWith notes what a member had when its process ended, beginsWith that it has it when one starts again.
func (c *checker) endsWith(m *member) {
	if c.had == nil {
		c.had = map[uint64]int{}
	}
	c.had[m.id] = m.commit
}

func (c *checker) beginsWith(by *container, m *member) {
	if m.commit < c.had[m.id] {
		c.violated("a member of %s starts on older data than it had", by.node.name)
	}
}
