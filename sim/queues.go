package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cke"
)

// RebootMode is what becomes of a machine that a command is to reboot.
type RebootMode int

// Modes.
const (
	Reboots      RebootMode = iota // it is off for a while, and returns
	StaysUp                        // the command ends well, and nothing happens
	CommandFails                   // the command fails, and nothing happens
	StaysOff                       // it never returns
	Slow                           // the command runs for long, and takes the machine down at its end
	Late                           // it goes down long after the command has ended
	Twice                          // it returns, and reboots once more by itself
	CommandHangs                   // the command does not end, and nothing happens
	RebootModes                    // how many there are
)

// Times of a reboot: until the command has ended, until the machine is off, and for how long it is.
const (
	commandTakes = time.Second
	slowTakes    = 8 * time.Second
	goesDown     = 2 * time.Second
	lateDown     = 12 * time.Second
	isOff        = 30 * time.Second
	isOffAgain   = 5 * time.Second
)

// RebootCommand is the only command of the daemons' configuration.
const RebootCommand = "power-cycle"

// SetRebootMode says what becomes of the machine when a command is to reboot it.
func (n *Node) SetRebootMode(m RebootMode) {
	n.change(fmt.Sprintf("reboot mode %d", m), func() { n.reboots = m })
}

// Boot implements cke.Machine.
func (m machine) Boot(ctx context.Context, image string) (boot cke.Boot, err error) {
	err = m.call(ctx, "Boot", false, func(n *Node, _ bool) error {
		if !n.images[image] {
			return &cke.Error{Code: cke.CodeImage, What: "no image " + image}
		}
		boot = n.boot()
		return nil
	})
	return boot, err
}

// Boots is how often the machine booted.
func (n *Node) Boots() int {
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	return n.boots
}

func (n *Node) boot() cke.Boot { return cke.Boot{Kernel: n.name, Init: fmt.Sprint(n.boots)} }

// commands are what a daemon runs beside its loop, by entry of the queue.
type commands struct {
	d    *Daemon
	runs map[string]*commandRun
}

// commandRun is a command that was started, and what it does to a machine.
type commandRun struct {
	cke.CommandRun
	seen  cke.EntrySeen
	node  *Node
	mode  RebootMode
	boots int // of the machine as it was started
}

var _ cke.Commands = (*commands)(nil)

// Commands runs the daemon's commands.
func (d *Daemon) Commands() cke.Commands { return &d.commands }

// StartCommand implements cke.Commands. It is a call within the daemon's process: it never lands late.
func (c *commands) StartCommand(ctx context.Context, run cke.CommandRun) error {
	return c.d.call(ctx, Call{Port: "commands", Node: run.Node.Name(), Name: "StartCommand", Writes: true}, nil, cke.Node{}, func(bool) error {
		w := c.d.world
		if w.late || c.d.deposed() {
			return cke.ErrDeposed
		}
		if run.Name != RebootCommand {
			return fmt.Errorf("command %q: %w", run.Name, cke.ErrNotFound)
		}
		if r := c.runs[run.Entry]; r != nil {
			switch {
			case r.Attempt == run.Attempt && (r.seen.Running || r.seen.Ended != nil):
				return nil
			case r.seen.Running:
				w.violated("attempt %d of a command for %s starts while attempt %d runs", run.Attempt, run.Node.Name(), r.Attempt)
			}
		}
		r := &commandRun{CommandRun: run, node: w.at(run.Node.Address), mode: CommandFails, seen: cke.EntrySeen{Entry: run.Entry, Attempt: run.Attempt, Running: true}}
		if r.node != nil {
			r.mode, r.boots = r.node.reboots, r.node.boots
		}
		w.wasCommanded(c.d, actorOf(ctx), r)
		if c.runs == nil {
			c.runs = map[string]*commandRun{}
		}
		c.runs[run.Entry] = r
		c.play(r)
		return nil
	})
}

// play lets a command run to its end, and what it does to its machine happen.
func (c *commands) play(r *commandRun) {
	w, takes, down := c.d.world, commandTakes, goesDown
	switch r.mode {
	case Slow:
		takes, down = slowTakes, slowTakes
	case Late:
		down = lateDown
	case CommandHangs:
		takes = r.Limit
	}
	w.after(min(takes, r.Limit), func() {
		switch {
		case !r.seen.Running:
		case takes >= r.Limit:
			c.ends(r, "it did not end, and was killed")
		case r.mode == CommandFails:
			c.ends(r, "exit status 1")
		default:
			if r.mode == Slow && !c.d.dead && !c.d.deposed() {
				c.powersOff(r)
			}
			c.ends(r, "")
		}
	})
	if r.mode == Reboots || r.mode == StaysOff || r.mode == Late || r.mode == Twice {
		w.after(down, func() { c.powersOff(r) })
	}
}

func (c *commands) ends(r *commandRun, trouble string) {
	r.seen.Running, r.seen.Ended = false, &cke.CommandEnd{At: c.d.host(), Error: trouble}
	if n := r.node; n != nil && (r.mode == StaysUp || r.mode == CommandFails || r.mode == CommandHangs || r.mode == Slow && n.on) {
		n.commanded = false // nothing follows
	}
}

// powersOff lets a command take its machine down. Its entry must not be where others rely on the machine.
func (c *commands) powersOff(r *commandRun) {
	w, n := c.d.world, r.node
	e, there := w.store.requests.Entry(r.Entry)
	acting := there && e.Acting() && e.Attempt == r.Attempt
	switch left := there && e.State == cke.EntryReturning && e.Attempt == r.Attempt && n.boots == r.boots; {
	case r.mode == Slow && !acting:
		w.violated("the command of %s acts after its entry moved (attempt %d)", n.name, r.Attempt)
	case left:
		w.violated("%s goes down by its command, and counts as back", n.name)
	}
	w.log("%s: power off, by a command", n.name)
	n.powerOff()
	n.commanded = true
	if r.mode == StaysOff {
		return
	}
	n.returns(r.mode == Twice, "a command")
}

// QueuesSeen is what the daemon knows of reboots beside what is on record. Commands are killed whose attempt is over.
func (d *Daemon) QueuesSeen() cke.QueuesSeen {
	w := d.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick()
	for _, r := range d.commands.runs {
		e, there := w.store.requests.Entry(r.Entry)
		declared, _ := w.store.spec.Cluster.Node(r.Node.Address)
		if _, known := w.store.spec.Wanted().Turn(e, declared); r.seen.Running && !(there && known && declared.Address != "" && e.Acting() && e.Attempt == r.Attempt) {
			d.commands.ends(r, "it was killed")
		}
	}
	s := cke.QueuesSeen{Commands: []string{RebootCommand}}
	for _, r := range w.store.requests.Queued() {
		if !r.Acting() && (r.State != cke.EntryQueued || !r.Tried()) {
			continue
		}
		seen := cke.EntrySeen{Entry: r.ID, Attempt: r.Attempt}
		if run := d.commands.runs[r.ID]; run != nil && run.Attempt == r.Attempt {
			seen = run.seen
		}
		if n := w.at(r.Address); n != nil && !n.hung && n.trouble(cke.Node{}) == nil {
			seen.Boot, seen.BootAt = n.boot(), d.host()
		}
		s.Seen = append(s.Seen, seen)
	}
	return s
}

// EditQueue implements cke.Ledger.
func (t *Term) EditQueue(ctx context.Context, kind cke.QueueKind, edit func(cke.Queue) (cke.Queue, error)) error {
	return t.write(ctx, "EditQueue", func(s *Store) error {
		q := s.requests.Queue(kind)
		next, err := edit(*q)
		if err == nil {
			before := *q
			*q = next
			t.d.world.wasMoved(t.d, actorOf(ctx), before, next)
		}
		return err
	})
}

// wasCommanded judges that a machine is about to be rebooted by a command.
func (w *World) wasCommanded(d *Daemon, actor string, r *commandRun) {
	n := r.node
	if n == nil || w.excused(d, actor) {
		return
	}
	w.limitsRepairs(d, r.CommandRun)
	w.triesAgain(d, r.CommandRun)
	w.sparesNeighbors(n, r.Entry, "a command is to reboot "+n.name)
	if w.takesDown(n, "a command is to reboot "+n.name, r.Attempt) {
		n.commanded = true
	}
}

// excused reports whether it is not judged that a daemon lets a machine go down: it could not know how things are, or the members are not
// to serve.
func (w *World) excused(d *Daemon, actor string) bool {
	before := w.standing()
	return !before.formed || !before.quorate || d.surprisedLately(actor) || w.asked()
}

// takesDown judges that a machine may go down: by the member list no second machine of a voter is down or goes down through cke, and the
// others are a quorum. It reports whether a voter is on the machine.
func (w *World) takesDown(n *Node, what string, attempt int) (votes bool) {
	before := w.standing()
	away := w.besideAnother(n, before, what)
	if away == nil {
		return false
	}
	left := 0
	for _, l := range before.list {
		if !l.learner && before.runs(l.id) && !slices.ContainsFunc(away, func(o *Node) bool { return o.hosts(l.peer) }) {
			left++
		}
	}
	if left < majority(len(before.voters)) {
		w.violated("%s, and takes the quorum away: attempt %d", what, attempt)
	}
	return true
}

// besideAnother judges that no second machine of a voter is down or goes down through cke. It returns those that do, this one first; nil:
// no voter is on it.
func (w *World) besideAnother(n *Node, before standing, what string) []*Node {
	away, votes := []*Node{n}, false
	for _, l := range before.list {
		if l.learner {
			continue
		}
		votes = votes || n.hosts(l.peer)
		for _, other := range w.nodes {
			if other != n && (other.commanded || w.goesByAgent(other)) && other.hosts(l.peer) && !slices.Contains(away, other) {
				away = append(away, other)
			}
		}
	}
	if !votes {
		return nil
	}
	for _, other := range away[1:] {
		w.violated("%s while %s is down through another one", what, other.name)
	}
	return away
}

// goesByAgent reports whether the agent of a machine has the lease, and has not reported that it is back.
func (w *World) goesByAgent(n *Node) bool {
	return slices.ContainsFunc(w.store.requests.Reboots.Entries, func(e cke.Entry) bool {
		return e.Agent != "" && e.Acting() && e.CommandEndedAt.IsZero() && n.has(e.Address)
	})
}

// sparesNeighbors judges that no member of another cluster, which has run for a minute, runs on a machine that is to go down.
func (w *World) sparesNeighbors(n *Node, entry, what string) {
	if e, there := w.store.requests.Entry(entry); !there || e.Silent {
		return
	}
	for _, c := range n.sorted() {
		if c.Cluster != "" && c.Cluster != w.cluster && c.Running() && w.now().Sub(c.StartedAt) > time.Minute {
			w.violated("%s, where a member of cluster %s runs", what, c.Cluster)
		}
	}
}

// limitsRepairs judges that no more repairs were started in a day than the cluster file allows, by what is on record.
func (w *World) limitsRepairs(d *Daemon, run cke.CommandRun) {
	if run.On == "" || run.Attempt > 1 {
		return
	}
	q, started := w.store.requests.Repairs, 0
	count := func(at time.Time) {
		if ago := d.host().Sub(at); !at.IsZero() && ago >= 0 && ago < 24*time.Hour {
			started++
		}
	}
	for _, e := range q.Entries {
		count(e.StartedAt)
	}
	for _, e := range q.History {
		count(e.StartedAt)
	}
	if most := w.store.spec.Wanted().Repair.PerDay; started > most {
		w.violated("%d repairs were started in a day, %d are allowed", started, most)
	}
}
