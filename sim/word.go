package sim

import (
	"slices"

	"cke"
)

// What an order calls destroyed. An operator who is wrong about a machine loses by that what nobody could know: members that are back and serve
// beside what took their place. No daemon may take that word against what it has seen since, or does not even ask for.

// word is an order that calls machines destroyed, and may still be carried out.
type word struct {
	id    string // of the order
	nodes []string
}

// wordOn is a membership on such a machine.
type wordOn struct {
	order string
	join  cke.JoinID
}

// taken is what was believed of such orders.
type taken struct {
	// excused are memberships that may serve beside what took their place.
	excused map[cke.JoinID]bool
	// visible are those that a daemon could see without a pause, with the number of calls when that started.
	visible map[cke.JoinID]int
	calls   int
	// by is who acknowledged a write while a restore was under way.
	by map[string]voting
}

// voting are the voters of a leader that run, and how many of them it needs.
type voting struct {
	joins []cke.JoinID
	needs int
}

// sight is what a daemon saw, and asked for, of members on machines that orders call destroyed: each by the number of calls.
type sight struct {
	saw      map[wordOn]int     // the first time since the order
	last     map[cke.JoinID]int // the last time
	asked    map[cke.JoinID]int // the last time
	began    map[string]int     // a step of the operation, by actor
	operates int                // the operation
}

// words are the orders that call machines destroyed: those that wait, that of a restore under way, and a deletion.
func (s *Store) words() (all []word) {
	for _, t := range s.requests.Tasks {
		if t.Kind == cke.TaskRestore && t.Restore != nil && t.Restore.Destroyed != nil {
			all = append(all, word{t.ID, t.Restore.Destroyed})
		}
	}
	if inc := s.identity.Incarnation; inc != nil && inc.State == cke.Restoring && inc.Restore != nil {
		all = append(all, word{inc.Restore.ID, inc.Restore.Order.Destroyed})
	}
	if s.spec.Deleting() && s.spec.Destroyed != nil {
		all = append(all, s.wordOfDeletion())
	}
	return all
}

func (s *Store) wordOfDeletion() word {
	return word{s.spec.DeletionID(), s.spec.Destroyed}
}

// calls counts the calls of daemons, and when each step of an operation made its first one.
func (d *Daemon) calls(c Call) {
	d.world.taken.calls++
	if _, began := d.sight.began[c.Actor]; !began {
		d.sight.began[c.Actor] = d.world.taken.calls
	}
	if c.Port == "store" && c.Name == "AppendRecord" {
		d.sight.operates, d.sight.began = d.world.taken.calls, map[string]int{}
	}
}

// sees takes note of a member that a daemon was shown. The world's lock is held.
func (d *Daemon) sees(c *container) {
	if c == nil || c.member() == nil {
		return
	}
	for _, o := range d.world.store.words() {
		on := wordOn{o.id, c.Join}
		if !slices.Contains(o.nodes, c.node.name) {
			continue
		}
		d.sight.last[c.Join] = d.world.taken.calls
		if _, seen := d.sight.saw[on]; !seen {
			d.sight.saw[on] = d.world.taken.calls
			d.world.mark(ReturnSeen)
		}
	}
}

// saw is sees after a call.
func (d *Daemon) saw(all ...*container) {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	for _, c := range all {
		d.sees(c)
	}
}

// asks takes note that a daemon is about to ask for a member, whether it gets an answer or not.
func (d *Daemon) asks(is func(cke.Join) bool) {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	for _, j := range d.world.store.identity.MayRun() {
		if is(j) {
			d.sight.asked[j.ID] = d.world.taken.calls + 1
		}
	}
}

// couldSee notes which members on machines that are called destroyed a daemon could see now.
func (c *checker) couldSee() {
	words := c.world.store.words()
	if words == nil {
		c.taken.visible = nil
		return
	}
	now := map[cke.JoinID]int{}
	for _, j := range c.world.store.identity.MayRun() {
		named := slices.ContainsFunc(words, func(o word) bool { return slices.Contains(o.nodes, j.Node.Name()) })
		if named && c.world.shows(j) {
			now[j.ID] = c.taken.calls
			if since, before := c.taken.visible[j.ID]; before {
				now[j.ID] = since
			}
		}
	}
	c.taken.visible = now
}

// shows reports whether the member of a membership runs, and its node or itself would answer a daemon soon.
func (w *World) shows(j cke.Join) bool {
	n := w.at(j.Node.Address)
	if n == nil || !n.awake() || n.slow > 0 {
		return false
	}
	for _, of := range n.sorted() {
		if of.Join != j.ID || of.member() == nil {
			continue
		}
		answers, problem := w.serving(Management, j.ClientURL())
		return n.trouble(j.Node) == nil && !n.hung || problem == "" && answers == of
	}
	return false
}

// believes judges, as a daemon is about to replace memberships, which of them an order excuses: those on machines that it calls destroyed, unless
// that is on record to be wrong, or the daemon had seen a member there when it decided, or one was there to be seen and it did not ask.
func (c *checker) believes(by *Daemon, actor string, o word, joins []cke.Join, returned []string) {
	if c.taken.excused == nil {
		c.taken.excused = map[cke.JoinID]bool{}
	}
	if returned != nil {
		c.world.mark(ReturnRecorded)
	}
	for _, j := range joins {
		first, saw := by.sight.saw[wordOn{o.id, j.ID}]
		since, shows := c.taken.visible[j.ID]
		ignored := shows && since < by.sight.began[actor] && (by.sight.asked[j.ID] < since || by.sight.last[j.ID] > by.sight.began[actor])
		known := !c.world.late && !c.world.stale && (saw && first < by.sight.operates || ignored)
		c.taken.excused[j.ID] = slices.Contains(o.nodes, j.Node.Name()) && !slices.Contains(returned, j.Node.Name()) && !known
	}
	for _, name := range o.nodes {
		c.taken.excused[foreignOn(name)] = !slices.Contains(returned, name)
	}
}

// foreignOn stands for the membership of a member on a machine that is not one of cke. Of these only what is on record to be seen counts.
func foreignOn(machine string) cke.JoinID { return cke.JoinID("foreign member on " + machine) }

// startsRestored judges that a restored member is started, or may be from now on, while too few of them run to serve.
func (c *checker) startsRestored(by *Daemon, actor string, id cke.Identity) {
	inc := id.Incarnation
	if inc == nil || inc.State != cke.Restoring || inc.Restore == nil {
		return
	}
	runs := 0
	c.world.eachProcess(func(p process) {
		if p.c.Incarnation == inc.ID {
			runs++
		}
	})
	if runs < majority(len(id.Joins)) {
		c.believes(by, actor, word{inc.Restore.ID, inc.Restore.Order.Destroyed}, id.Superseded(), inc.Restore.Returned)
	}
}

// votingOf are the voters of a leader that run.
func (c *checker) votingOf(l *member) (v voting) {
	voters := l.voters()
	for _, p := range c.world.running(l.history()) {
		if slices.Contains(voters, p.id) {
			j := p.c.Join
			if p.c.Cluster == "" { // it is not one of cke
				j = foreignOn(p.c.node.name)
			}
			v.joins = append(v.joins, j)
		}
	}
	v.needs = majority(len(voters))
	return v
}

// acknowledges takes note of who acknowledges a write.
func (t *taken) acknowledges(value string, by voting) {
	if t.by == nil {
		t.by = map[string]voting{}
	}
	t.by[value] = by
}

// excuses reports whether these voters are no quorum without those that an order excuses.
func (t taken) excuses(v voting) bool {
	n := 0
	for _, j := range v.joins {
		if !t.excused[j] {
			n++
		}
	}
	return v.needs > 0 && n < v.needs
}

// onWord reports whether a leader serves beside what took the place of its cluster, and only since an operator was wrong about its machines.
func (c *checker) onWord(l *member) bool {
	s := c.world.store
	if len(c.taken.excused) == 0 || s.identity.Incarnation != nil && s.identity.Incarnation.State == cke.Restoring && !s.identity.Started() {
		return false // nothing took its place yet
	}
	return c.taken.excuses(c.votingOf(l))
}
