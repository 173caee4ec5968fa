package sim

import (
	"fmt"
	"slices"
	"time"

	"cke"
)

// What an inventory may lead to. A revision is judged by what its daemon was told, and by what was so when it began the round whose
// status it chose by, when it reported that status, and when the revision is stored: it must have known of that.

// saying is what a daemon was told of one machine.
type saying struct {
	state cke.HostState
	times int       // answers in a row
	bad   time.Time // since when answers call it bad, all in a row; zero: the last one does not
	good  time.Time // the last answer that did not; zero: none
}

// telling is what a daemon was told by the inventory.
type telling struct {
	readAt  time.Time // of the last good answer, as the daemon dates it
	answers int       // good ones
	failed  int       // of those since
	says    map[string]saying
}

// known is what a daemon knew as it reported a status.
type known struct {
	observed time.Time // by the daemon's clock
	at       time.Time
	against  []string // what speaks against a change
	off      []string // machines of voters that have no power
}

// chosen is what a daemon chose a change by.
type chosen struct {
	by     *known
	now    time.Time // by the daemon's clock
	failed int
	asTold bool // the last good answer is the one that it was chosen by
	says   map[string]saying
	first  bool // it is the only one
	daemon int
}

// stockOf is what a daemon knows of the inventory.
type stockOf struct {
	told         telling
	against, off []string // as it began to look at everything
	known        []known
	chosen       chosen
}

// exchanged is a revision that an inventory led to.
type exchanged struct {
	at    time.Time // by the clock of its daemon
	cause cke.InventoryCause
	old   string
	// orderedAt is when an operator ordered it in spite of what was reported then, by the world's clock; zero: none did.
	orderedAt time.Time
}

// isBad reports whether a machine in this state is about to be lost.
func isBad(s cke.HostState) bool {
	return slices.Contains([]cke.HostState{cke.HostUnhealthy, cke.HostUnreachable, cke.HostRetiring, cke.HostRetired, cke.HostMissing}, s)
}

// wasTold takes note of an answer.
func (d *Daemon) wasTold(l cke.HostList, err error) {
	t := &d.stock.told
	if err != nil {
		t.failed++
		return
	}
	t.readAt, t.failed = l.ReadAt, 0
	t.answers++
	states, next := map[string]cke.HostState{}, map[string]saying{}
	for _, serial := range d.world.serials() {
		states[serial] = cke.HostMissing
	}
	for _, h := range l.Hosts {
		states[h.ID] = h.State
	}
	now := d.world.now()
	for serial, state := range states {
		s := t.says[serial]
		if s.times++; s.state != state {
			s.times = 1
		}
		if s.state = state; !isBad(state) {
			s.bad, s.good = time.Time{}, now
		} else if s.bad.IsZero() {
			s.bad = now
		}
		next[serial] = s
		if d.world.stock.told[serial] == nil {
			d.world.stock.told[serial] = map[cke.HostState]int{}
		}
	}
	t.says = next
}

// retold adds what this daemon was told to what any was: the next one may go on from there.
func (d *Daemon) retold() {
	for serial, s := range d.stock.told.says {
		if told := d.world.stock.told[serial]; told[s.state] == 0 {
			told[s.state] = d.number
		}
	}
}

// Rounds takes note that the daemon starts to observe everything.
func (d *Daemon) Rounds() {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	if d.world.stock.options != nil {
		d.stock.against, d.stock.off = d.world.speaksAgainst(d), d.world.powerless()
	}
}

// Knows takes note of a status that the daemon chooses by from now on.
func (d *Daemon) Knows(s cke.Status) {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	k := known{observed: s.ObservedAt, at: d.world.now(), against: both(d.stock.against, d.world.speaksAgainst(d)), off: both(d.stock.off, d.world.powerless())}
	d.stock.known = append(d.stock.known[max(0, len(d.stock.known)-30):], k)
}

// Chooses takes note of what the daemon chooses a change by: a status, and an answer of the inventory.
func (d *Daemon) Chooses(s cke.Status, readAt, now time.Time) {
	w := d.world
	w.mu.Lock()
	defer w.mu.Unlock()
	d.stock.chosen = chosen{now: now, failed: d.stock.told.failed, asTold: d.stock.told.readAt.Equal(readAt), says: d.stock.told.says, first: d.stock.told.answers == 1, daemon: d.number}
	for i := range d.stock.known {
		if d.stock.known[i].observed.Equal(s.ObservedAt) {
			k := d.stock.known[i]
			d.stock.chosen.by = &k
		}
	}
	d.retold()
}

func both(a, b []string) (all []string) {
	for _, s := range a {
		if slices.Contains(b, s) {
			all = append(all, s)
		}
	}
	return all
}

// speaksAgainst returns what speaks against a change of the cluster file now.
func (w *World) speaksAgainst(d *Daemon) (all []string) {
	s := w.store
	if h := s.requests.Hold; h != nil && h.Until.After(d.host()) {
		all = append(all, "changes are paused")
	}
	if s.requests.Hibernation != nil {
		all = append(all, "the cluster is hibernated")
	}
	if s.identity.Freeze.Active() {
		all = append(all, "the cluster is frozen")
	}
	if inc := s.identity.Incarnation; inc != nil && inc.State == cke.Restoring {
		all = append(all, "the cluster is restored")
	}
	now := w.standing()
	if !now.formed {
		return all
	}
	if !now.quorate {
		all = append(all, "there is no quorum")
	}
	for _, l := range now.list {
		if !l.learner {
			continue
		}
		for _, n := range w.nodes {
			if state := d.stock.told.says[w.serialOn(n)].state; n.hosts(l.peer) && !isBad(state) && state != cke.HostMaintenance { // else it may have to go itself
				all = append(all, n.name+" has a learner")
			}
		}
	}
	return all
}

// powerless returns the machines of voters that are off.
func (w *World) powerless() (all []string) {
	now := w.standing()
	for _, l := range now.list {
		for _, n := range w.nodes {
			if !l.learner && n.hosts(l.peer) && !n.on {
				all = append(all, n.name)
			}
		}
	}
	return all
}

// exchanges are the causes for which a machine has to go.
var exchanges = []cke.InventoryCause{cke.CauseRetired, cke.CauseMissing, cke.CauseSuccessor, cke.CauseRetiring, cke.CauseUnreachable, cke.CauseUnhealthy, cke.CauseMaintenance}

// wasExchanged judges a revision that an inventory leads to.
func (w *World) wasExchanged(d *Daemon, e cke.InventoryEdit, by chosen) {
	i, old := &w.stock, e.Change.Old
	what := fmt.Sprintf("revision %d, for %s %s", e.Generation+1, e.Cause, old)
	goes, comes := carries(w.store.spec.Cluster, e.Cluster), carries(e.Cluster, w.store.spec.Cluster)
	if len(goes) > 1 || len(comes) > 1 {
		w.violated("%s moves members from %v to %v", what, goes, comes)
	}
	for _, n := range e.Cluster.Nodes {
		w.takesSuccessor(n, e, what)
		if other := i.taken[n.Address]; other != "" {
			w.violated("%s takes %s, a node of cluster %s", what, n.Name(), other)
		}
	}
	for _, k := range both(by.against(), w.speaksAgainst(d)) {
		w.violated("%s, while %s", what, k)
	}
	if by.failed > 1 {
		w.violated("%s, though the inventory could not be read %d times", what, by.failed)
	}
	if by.by == nil {
		w.violated("%s, by a status that another daemon reported", what)
	} else if w.now().Sub(by.by.at) > 2*time.Minute && !w.late {
		w.violated("%s, by a status that is old: %v", what, w.now().Sub(by.by.at))
	}
	if e.Order == nil {
		w.wasUnordered(e, by, what)
	}
	if slices.Contains(exchanges, e.Cause) {
		w.wasBadTwice(by, old, what)
		w.doesGood(by, e, what)
	}
	moved := exchanged{at: d.host(), cause: e.Cause, old: old}
	if e.Order != nil {
		moved.orderedAt = w.now()
	}
	i.moved = append(i.moved, moved)
}

func (c chosen) against() []string {
	if c.by == nil {
		return nil
	}
	return c.by.against
}

// carries are the nodes that carry members by the first file and not by the second one.
func carries(a, b cke.Cluster) (all []string) {
	for _, n := range a.ControlPlane() {
		if !slices.ContainsFunc(b.ControlPlane(), func(o cke.Node) bool { return o.Name() == n.Name() || o.Address == n.Address }) {
			all = append(all, n.Name())
		}
	}
	return all
}

// wasUnordered judges what no operator ordered in spite of it.
func (w *World) wasUnordered(e cke.InventoryEdit, by chosen, what string) {
	i := &w.stock
	if i.options.Mode != cke.InventoryAuto {
		w.violated("%s, without an order in mode %s", what, i.options.Mode)
	}
	if n := len(i.moved); n > 0 {
		if ago := by.now.Sub(i.moved[n-1].at); ago >= 0 && ago < time.Duration(i.options.Limits.Settle) {
			w.violated("%s, too soon after the last change: after %v", what, ago)
		}
	}
	if was, is := i.fatalZones(w.store.spec.Cluster), i.fatalZones(e.Cluster); w.formed != nil && is > was {
		w.violated("%s, makes zones worse: %d cannot be lost then, %d now", what, is, was)
	}
	moves := 0
	for _, m := range i.moved {
		lately := by.now.Sub(m.at) >= 0 && by.now.Sub(m.at) < 24*time.Hour
		if m.cause.Moves() && lately {
			moves++
		}
		if lately && m.old == e.Change.Old && slices.Contains(exchanges, m.cause) && slices.Contains(exchanges, e.Cause) {
			w.violated("%s, though it was exchanged less than a day ago", what)
		}
	}
	if e.Cause.Moves() && moves >= i.options.Limits.ChangesPerDay {
		w.violated("%s, though %d changes moved members in a day", what, moves)
	}
	if !by.asTold {
		return
	}
	var turned []string
	for _, n := range w.store.spec.Cluster.ControlPlane() {
		answered := slices.ContainsFunc(i.moved, func(m exchanged) bool { return m.orderedAt.After(by.says[n.Name()].bad) })
		if s := by.says[n.Name()]; !answered && !s.bad.IsZero() && !s.good.IsZero() && by.by != nil && by.by.at.Sub(s.bad) < 9*time.Minute {
			turned = append(turned, n.Name())
		}
	}
	if len(turned) > 1 {
		w.violated("%s, though many machines turned bad: %v", what, turned)
	}
}

// wasBadTwice judges that two answers in a row called the machine so that leaves. An earlier leader may have been told the first one.
func (w *World) wasBadTwice(by chosen, old, what string) {
	s := by.says[old]
	before := w.stock.told[old][s.state]
	if by.asTold && s.times < 2 && !(by.first && before > 0 && before < by.daemon) {
		w.violated("%s, because of one answer: %s", what, s.state)
	}
}

// doesGood judges that no machine whose member serves is exchanged while that of another voter is off. With an even number of voters one
// more member can be worth it.
func (w *World) doesGood(by chosen, e cke.InventoryEdit, what string) {
	now := w.standing()
	if e.Change.New == "" || by.by == nil || !now.quorate || len(now.voters)%2 == 0 {
		return
	}
	goes := w.Node(e.Change.Old)
	serves := goes != nil && slices.ContainsFunc(now.list, func(l listed) bool { return goes.hosts(l.peer) && now.runs(l.id) })
	for _, name := range both(by.by.off, w.powerless()) {
		if serves && name != goes.name {
			w.violated("%s, which serves, while %s is off", what, name)
		}
	}
}
