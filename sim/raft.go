package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"cke"
)

// electionTime is how long members that could have a leader are without one.
const electionTime = 50 * time.Millisecond

// group is the raft group of one cluster id.
type group struct {
	leader *member
	since  time.Time // a quorum could elect since then; zero: it cannot
	// match is what the leader knows of each follower's log; it starts again with each leader.
	match map[uint64]int
}

// process is a running member.
type process struct {
	*member
	c *container
}

// eachProcess visits the running members, by node; members of frozen nodes are not among them.
func (w *World) eachProcess(visit func(process)) {
	for _, n := range w.nodes {
		if !n.awake() {
			continue
		}
		for _, c := range n.sorted() {
			if m := c.member(); m != nil {
				visit(process{m, c})
			}
		}
	}
}

// processes returns the running members of every history.
func (w *World) processes() map[uint64][]process {
	all := map[uint64][]process{}
	w.eachProcess(func(p process) { all[p.history()] = append(all[p.history()], p) })
	return all
}

// running returns the running members of one history.
func (w *World) running(history uint64) (all []process) {
	w.eachProcess(func(p process) {
		if p.history() == history {
			all = append(all, p)
		}
	})
	return all
}

// settleGroups lets every raft group do what follows at once from who runs and who reaches whom.
func (w *World) settleGroups() {
	all := w.processes()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if w.groups[id] == nil {
			w.groups[id] = &group{}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.groups)) {
		w.groups[id].settle(w, all[id])
	}
}

func (g *group) settle(w *World, running []process) {
	if g.leader != nil && !w.holdsOn(g.leader, running) {
		g.leader = nil
	}
	if g.leader == nil {
		if g.elect(w, running); g.leader == nil {
			if w.formed != nil {
				w.mark(NoQuorum)
			}
			return
		}
		w.mark(Elected)
	}
	l := running[slices.IndexFunc(running, func(p process) bool { return p.member == g.leader })]
	g.replicate(w, l, running)
	for _, p := range running { // a member reports its name once it finds the leader
		if (!p.announced() || p.runs.minor == 5 && !p.runs.told) && slices.ContainsFunc(l.members(), func(m listed) bool { return m.id == p.id && !m.gone }) && w.reach(l, p) {
			p.runs.told = true // 3.5 reports it at every start
			g.propose(w, l, running, entry{kind: entryPublish, id: p.id, value: p.name, client: p.c.spec.Join.ClientURL(), legacy: p.runs.minor == 5})
		}
	}
	if minor, told := w.oldest(l, running); told && minor > l.minor() {
		g.propose(w, l, running, entry{kind: entryVersion, minor: minor, legacy: l.runs.minor == 5})
	}
	for _, p := range running {
		g.own(w, l, p, running)
	}
}

// oldest is the lowest minor version that a member runs; false: not all of them tell the leader.
func (w *World) oldest(l process, running []process) (minor int, told bool) {
	for _, m := range l.present() {
		i := slices.IndexFunc(running, func(p process) bool { return p.id == m.id && w.reach(l, p) })
		if i < 0 {
			return 0, false
		}
		if v := running[i].c.minor(); minor == 0 || v < minor {
			minor = v
		}
	}
	return minor, true
}

func (w *World) reach(a, b process) bool {
	return a.c.node == b.c.node || w.connected(a.c.node.name, b.c.node.name) && a.c.trusted() && b.c.trusted() && a.c.knows(b.c)
}

// hasQuorum reports whether p reaches a quorum of its voters.
func (w *World) hasQuorum(p process, running []process) bool {
	return w.quorumOf(p, running, func(process) bool { return true })
}

// electable reports whether a quorum of its voters that p reaches would vote for it: none whose log goes further does.
func (w *World) electable(p process, running []process) bool {
	return w.quorumOf(p, running, func(v process) bool { return p.newer(v.member) })
}

// quorumOf reports whether p votes, and reaches a quorum of voters that count.
func (w *World) quorumOf(p process, running []process, counts func(process) bool) bool {
	voters, n := p.voters(), 0
	for _, v := range running {
		if slices.Contains(voters, v.id) && w.reach(p, v) && counts(v) {
			n++
		}
	}
	return slices.Contains(voters, p.id) && n >= majority(len(voters))
}

// holdsOn reports whether a leader still runs and reaches a quorum.
func (w *World) holdsOn(leader *member, running []process) bool {
	i := slices.IndexFunc(running, func(p process) bool { return p.member == leader })
	return i >= 0 && w.hasQuorum(running[i], running)
}

// elect makes the candidate with the furthest log leader, after the time that an election takes.
func (g *group) elect(w *World, running []process) {
	candidates := slices.Clone(running)
	slices.SortStableFunc(candidates, func(a, b process) int {
		return cmp.Or(cmp.Compare(b.lastTerm(), a.lastTerm()), cmp.Compare(len(b.log), len(a.log)))
	})
	for _, c := range candidates {
		if !w.electable(c, running) {
			continue
		}
		voters, term := c.voters(), c.term
		for _, v := range running {
			if slices.Contains(voters, v.id) && w.reach(c, v) {
				term = max(term, v.term)
			}
		}
		now := w.now()
		if g.since.IsZero() {
			g.since = now
			w.after(electionTime, nil)
		}
		if now.Sub(g.since) < electionTime {
			return
		}
		g.begin(w, c, term, running)
		w.log("%s is elected leader of term %d", c.c.node.name, c.term)
		return
	}
	g.since = time.Time{}
}

// begin lets a member lead the term after the one that those who vote for it know of. All whom it reaches learn of the new
// term with its call for votes, and have that on their disks before they answer: no term has two leaders.
// Source: raft, Step, and etcd, raftNode.start.
func (g *group) begin(w *World, l process, term uint64, running []process) {
	g.leader, g.since, g.match = l.member, time.Time{}, map[uint64]int{}
	l.term = max(l.term, term) + 1
	for _, p := range running {
		if w.reach(l, p) {
			p.term = max(p.term, l.term)
		}
	}
	l.log = append(l.log, entry{term: l.term})
}

// replicate brings every member that the leader reaches to the leader's log, then commits what a quorum has.
func (g *group) replicate(w *World, l process, running []process) {
	voters, have := l.voters(), []int{}
	for _, p := range running {
		known := slices.ContainsFunc(l.members(), func(m listed) bool { return m.id == p.id })
		if !known || !w.reach(l, p) || p.c.node.trickles && p.member != l.member && len(p.log) > 0 {
			continue
		}
		if p.member != l.member {
			p.runs.follows = l.id
			if words := g.send(l.member, p.member); words != "" {
				p.c.crash(2, words)
				continue
			}
		}
		if slices.Contains(voters, p.id) {
			have = append(have, len(p.log))
		}
	}
	if len(have) < majority(len(voters)) {
		return
	}
	slices.Sort(have)
	if n := have[len(have)-majority(len(voters))]; n > l.commit && l.log[n-1].term == l.term {
		l.commit = n
	}
	w.wereCommitted(l.member)
	for _, p := range running {
		if p.member == l.member || !w.reach(l, p) || len(p.log) != len(l.log) {
			continue
		}
		p.commit = max(p.commit, min(l.commit, len(p.log)))
		if slices.ContainsFunc(p.members(), func(m listed) bool { return m.id == p.id && m.gone }) {
			p.removed = true
			if w.events%4 == 0 { // it was just asked for its status
				p.c.crash(2, cke.WordsOfMissing)
			} else {
				p.c.crash(0, "server error: "+cke.WordsOfRemoved)
			}
		}
	}
}

// send makes a follower's log the leader's. Like Raft it takes entries of one index and term for the same: where they
// are not, because a member forgot what it had agreed to, nobody notices but the checker. It returns the last words of a follower that cannot bear it.
func (g *group) send(l, f *member) string {
	if matched := g.match[f.id]; matched > len(f.log) {
		return "panic: tocommit is out of range: was the raft log corrupted, truncated, or lost?"
	}
	same := 0
	for same < len(l.log) && same < len(f.log) && l.log[same].term == f.log[same].term {
		same++
	}
	if same < f.commit && same < len(l.log) {
		return "panic: entry conflicts with a committed entry"
	}
	if len(f.log) == 0 && l.snapshot > 0 { // the leader no longer has the first entries: its database is sent
		f.snapshot, f.database.file = l.commit, l.apply().file
	}
	f.proved = min(f.proved, same)
	if same < len(l.log) || len(f.log) > len(l.log) {
		f.log = append(slices.Clone(f.log[:same]), l.log[same:]...)
	}
	f.term = max(f.term, l.term)
	g.match[f.id] = len(f.log)
	return ""
}

// propose appends an entry to the leader's log and reports whether it was committed.
func (g *group) propose(w *World, l process, running []process, e entry) bool {
	e.term = l.term
	l.log = append(l.log, e)
	n := len(l.log)
	g.replicate(w, l, running)
	return l.commit >= n
}

// reconfigure proposes a change of the member list. While another one is not applied yet the leader appends nothing but an
// empty entry, and whoever asked waits in vain. Source: raft, stepLeader, pendingConfIndex.
func (g *group) reconfigure(w *World, l process, running []process, e entry) bool {
	if slices.ContainsFunc(l.log[l.commit:], entry.reconfigures) {
		g.propose(w, l, running, entry{})
		return false
	}
	return g.propose(w, l, running, e)
}

// reconfigures reports whether an entry is a change of the member list that raft knows of.
func (e entry) reconfigures() bool {
	return e.kind == entryAdd || e.kind == entryRemove || e.kind == entryPromote || e.kind == entryUpdate
}

// remains are all logs of the formed cluster that are left, on disks or open in what runs.
func (w *World) remains() []*member { return slices.Concat(w.onDisks(), w.openOnly()) }

// onDisks are the logs of the formed cluster in volumes.
func (w *World) onDisks() (all []*member) {
	if w.formed == nil {
		return nil
	}
	id := number(w.formed.ClusterID)
	for _, n := range w.nodes {
		for _, v := range n.volumes {
			if m := v.wal; m != nil && m.cluster == id && w.counts(m) {
				all = append(all, m)
			}
		}
	}
	return all
}

// openOnly are those that processes have open although they were removed.
func (w *World) openOnly() (all []*member) {
	if w.formed == nil {
		return nil
	}
	id := number(w.formed.ClusterID)
	for _, n := range w.nodes {
		for _, c := range n.sorted() {
			if c.open != nil && c.open.cluster == id && w.counts(c.open) {
				all = append(all, c.open)
			}
		}
	}
	return all
}

// furthest is the member whose log goes furthest; nil: there is none.
func furthest(all []*member) (best *member) {
	for _, m := range all {
		if best == nil || m.newer(best) && m.commit >= best.commit {
			best = m
		}
	}
	return best
}

// membersOf are the ids of the members of a membership: that on record, and those whose logs its volume holds. An older store may have another one.
func (w *World) membersOf(j cke.Join) []uint64 {
	ids := []uint64{number(j.MemberID)}
	for _, n := range w.nodes {
		if v := n.volumes[j.Volume]; v != nil && v.wal != nil {
			ids = append(ids, v.wal.id)
		}
	}
	return ids
}

// Minor is the minor version of the formed cluster, below which none of its members starts; 0: there is none.
func (w *World) Minor() (minor int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.remains() {
		minor = max(minor, m.minor())
	}
	return minor
}

// Peers are the peer URLs of the formed cluster's members by their id in hex, in the furthest log.
func (w *World) Peers() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]string{}
	if m := furthest(w.remains()); m != nil {
		for _, l := range m.present() {
			all[hexID(l.id)] = l.peer
		}
	}
	return all
}

// Recoverable reports whether the data that is left suffices for a quorum of the formed cluster, by the member list of
// the furthest log.
func (w *World) Recoverable() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return recoverable(w.remains())
}

// RecoverableFromDisks is Recoverable without what only processes have that have lost their files.
func (w *World) RecoverableFromDisks() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return recoverable(w.onDisks())
}

func recoverable(remains []*member) bool {
	left := slices.DeleteFunc(remains, func(m *member) bool { return m.removed })
	best := furthest(left)
	if best == nil {
		return false
	}
	voters, n := best.voters(), 0
	for _, m := range left {
		if slices.Contains(voters, m.id) {
			n++
		}
	}
	return n >= majority(len(voters))
}
