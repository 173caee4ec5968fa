package sim

import (
	"slices"

	"cke"
)

// twin is a second history under the id of the formed cluster: a member continues alone, and the others without it.
// Members of both serve. Operators choose the one that counts; the other one is aside, whichever members are in it.
type twin struct {
	histories    [2]uint64 // that of the others, and that of the member
	aside        uint64    // the one that does not count; 0: there are no two
	acknowledged []string  // in the one aside
	decided      bool      // by an operator
}

// history names what a member takes part in: members of one cluster id that continue apart do not hear of each other.
func (m *member) history() uint64 { return m.cluster ^ m.apart }

// counts reports whether a member is of the history that operators chose, or have not judged yet, of its cluster id.
func (w *World) counts(m *member) bool { return w.twin.aside == 0 || m.history() != w.twin.aside }

// history is the one that counts of the formed cluster.
func (w *World) history() uint64 {
	id := number(w.formed.ClusterID)
	if id == w.twin.aside {
		return w.twin.histories[1]
	}
	return id
}

// ContinueAlone is `etcd --force-new-cluster` on a node whose member the others can do without: it keeps the cluster id, what it has
// committed, and itself as the only member. It reports whether that was possible; a cluster has at most one such member.
func (n *Node) ContinueAlone() (alone bool) {
	n.change("an operator lets its member continue alone", func() {
		w := n.world
		s := w.standing()
		for _, p := range s.running {
			if w.twin.aside != 0 || w.certificates != 0 || w.removes() || p.c.node != n || p.c.bare || p.c.open != nil || s.leader == nil || !slices.Contains(s.voters, p.id) || !w.without(p, s) {
				continue
			}
			p.splits()
			w.twin = twin{histories: [2]uint64{p.cluster, p.history()}, aside: p.history(), acknowledged: p.puts()}
			w.committed[p.history()], p.proved = slices.Clone(p.log), p.commit
			w.mark(TwoHistories)
			alone = true
		}
	})
	return alone
}

// removes reports whether a voter may be about to leave the list, without which the others have no quorum then.
func (w *World) removes() bool {
	records := w.store.records
	if len(records) == 0 {
		return false
	}
	last := records[len(records)-1]
	return last.State == cke.RecordRunning && (last.Operation == "remove-member" || last.Operation == "adopt-member")
}

// without reports whether the others that run are a quorum without a process.
func (w *World) without(p process, s standing) bool {
	others := slices.DeleteFunc(slices.Clone(s.running), func(o process) bool { return o.id == p.id })
	return slices.ContainsFunc(others, func(o process) bool { return w.electable(o, others) })
}

// splits makes a member the only one in its log. Source: etcd, bootstrapRaftFromWAL and createConfigChangeEnts.
func (m *member) splits() {
	log := slices.Clone(m.log[:m.commit])
	for _, l := range m.present() {
		if l.id != m.id {
			log = append(log, entry{term: m.term, kind: entryRemove, id: l.id})
		}
	}
	m.log, m.commit, m.apart = log, len(log), m.id
}

// undecided reports whether the formed cluster has two histories that no operator has judged.
func (w *World) undecided() bool {
	return w.twin.aside != 0 && !w.twin.decided && w.formed != nil && number(w.formed.ClusterID) == w.twin.histories[0]
}

// Twins reports whether a member continued alone and no operator has judged which history is right.
func (w *World) Twins() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.undecided()
}

// Led returns whether the others, and the member that continues alone, have a leader.
func (w *World) Led() (others, alone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	led := func(history uint64) bool { return w.groups[history] != nil && w.groups[history].leader != nil }
	return led(w.twin.histories[0]), led(w.twin.histories[1])
}

// Choose is an operator's judgment which history is right: that of the member that continued alone, or that of the others.
func (w *World) Choose(alone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &w.twin
	if right := map[bool]uint64{false: t.histories[0], true: t.histories[1]}[alone]; right == t.aside {
		t.aside = t.histories[0] ^ t.histories[1] ^ right
		w.acknowledged, t.acknowledged, w.holds = t.acknowledged, w.acknowledged, held{}
	}
	t.decided = true
	w.log("an operator judges that the member that continued alone is right: %v", alone)
}

// Wrong returns the nodes with members of the history aside.
func (w *World) Wrong() (wrong []*Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		if slices.ContainsFunc(n.sorted(), func(c *container) bool { m := c.log(); return m != nil && !w.counts(m) }) {
			wrong = append(wrong, n)
		}
	}
	return wrong
}

// log is what a container runs from, or would run from: files that it has open, though they were removed, or those in its volume. nil: there are none.
func (c *container) log() *member {
	if c.open != nil {
		return c.open
	}
	if v := c.volume(); v != nil {
		return v.wal
	}
	return nil
}

// bothServe reports whether members of two histories that no operator has judged show that to the management host.
func (w *World) bothServe() bool {
	if inc := w.store.identity.Incarnation; !w.undecided() || inc == nil || inc.State != cke.Formed {
		return false
	}
	var seen []uint64
	for _, j := range w.store.identity.Joins {
		if c, problem := w.serving(Management, j.ClientURL()); problem == "" && w.endpoint(j.ClientURL()).Serves(w.formed.ClusterID) {
			seen = append(seen, c.member().history())
		}
	}
	return slices.Contains(seen, w.twin.histories[0]) && slices.Contains(seen, w.twin.histories[1])
}

// mustFreeze judges a status after observations in a row of which each saw that two histories serve, unless an operator requested what comes
// before a freeze.
func (c *checker) mustFreeze(d *Daemon, s cke.Status) {
	st := c.world.store
	asked := st.spec.Deleting() || s.Health == cke.HealthDeleting || st.requests.Hibernation != nil || slices.ContainsFunc(st.requests.Tasks, func(t cke.Task) bool {
		return t.Kind == cke.TaskRestore || t.Kind == cke.TaskCancelRestore
	})
	if d.look.twins > 1 && s.Health != cke.HealthFrozen && !st.identity.Freeze.Active() && !asked {
		c.violated("daemon %d reports %s while two histories serve under one cluster id: %s", d.number, s.Health, s.Summary)
	}
}

// keepsTwins judges the removal of a volume while a finding of two clusters is active.
func (c *checker) keepsTwins(n *Node) {
	if f := c.world.store.identity.Freeze; f.Active() && f.Kind.TwoClusters() && !c.world.stale {
		c.violated("a volume on %s is removed while the cluster is frozen for two clusters", n.name)
	}
}

// seesTwins is bothServe for a daemon.
func (d *Daemon) seesTwins() bool {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	return d.world.bothServe()
}
