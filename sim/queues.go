package sim

import (
	"context"
	"fmt"
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
	RebootModes                    // how many there are
)

// Times of a reboot: until the command has ended, until the machine is off, and until it is on again.
const (
	commandTakes = time.Second
	goesDown     = 2 * time.Second
	comesBack    = 32 * time.Second
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
	seen map[string]cke.EntrySeen
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
		if s := c.seen[run.Entry]; s.Attempt == run.Attempt && (s.Running || s.Ended != nil) {
			return nil
		}
		n := w.at(run.Node.Address)
		w.wasCommanded(c.d, actorOf(ctx), n, run)
		if c.seen == nil {
			c.seen = map[string]cke.EntrySeen{}
		}
		c.seen[run.Entry] = cke.EntrySeen{Entry: run.Entry, Attempt: run.Attempt, Running: true}
		w.after(commandTakes, func() {
			end := cke.CommandEnd{At: c.d.host()}
			if n == nil || n.reboots == CommandFails {
				end.Error = "exit status 1"
			}
			c.seen[run.Entry] = cke.EntrySeen{Entry: run.Entry, Attempt: run.Attempt, Ended: &end}
		})
		if n == nil {
			return nil
		}
		w.after(goesDown, func() {
			if n.reboots == Reboots || n.reboots == StaysOff {
				w.log("%s: power off, by a command", n.name)
				n.powerOff()
			}
		})
		w.after(comesBack, func() {
			if n.reboots == Reboots && !n.on {
				w.log("%s: power on, by a command", n.name)
				n.powerOn()
			}
		})
		return nil
	})
}

// QueuesSeen is what the daemon knows of reboots beside what is on record.
func (d *Daemon) QueuesSeen() cke.QueuesSeen {
	w := d.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick()
	s := cke.QueuesSeen{Commands: []string{RebootCommand}}
	for _, r := range w.store.requests.Queued() {
		if !r.Acting() && (r.State != cke.EntryQueued || r.Attempt == 0) {
			continue
		}
		seen := d.commands.seen[r.ID]
		if seen.Attempt != r.Attempt {
			seen = cke.EntrySeen{Entry: r.ID, Attempt: r.Attempt}
		}
		if n := w.at(r.Address); n != nil && !n.hung && n.trouble(cke.Node{}) == nil {
			seen.Boot, seen.BootAt = n.boot(), d.host()
		}
		s.Seen = append(s.Seen, seen)
	}
	return s
}

// wasCommanded judges that a machine is about to be rebooted: no second machine of a voter is down through cke, and the others are a
// quorum.
func (w *World) wasCommanded(d *Daemon, actor string, n *Node, run cke.CommandRun) {
	before := w.standing()
	if n == nil || !before.formed || !before.quorate || d.surprisedLately(actor) || w.asked() {
		return
	}
	votes := func(n *Node) bool {
		for _, l := range before.list {
			if !l.learner && n.hosts(l.peer) {
				return true
			}
		}
		return false
	}
	w.limitsRepairs(d, run)
	if !votes(n) {
		return
	}
	for _, other := range w.nodes {
		if other != n && other.commanded && !other.on && votes(other) {
			w.violated("a command is to reboot %s while %s is down through another one", n.name, other.name)
		}
	}
	n.commanded = true
	left := 0
	for _, l := range before.list {
		if !l.learner && before.runs(l.id) && !n.hosts(l.peer) {
			left++
		}
	}
	if left < majority(len(before.voters)) {
		w.violated("a command is to reboot %s, and takes the quorum away: attempt %d", n.name, run.Attempt)
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
