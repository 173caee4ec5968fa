package sim

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"time"

	"cke"
)

// AgentPort is the port of the calls with which a daemon answers agents of machines.
const AgentPort = "agents"

// Front is the store of a daemon that answers agents of machines over FleetLock, whether it leads or not.
type Front struct{ d *Daemon }

// Front returns that of the daemon.
func (d *Daemon) Front() Front { return Front{d} }

// agentsRead is what a daemon had read when it answered an agent.
type agentsRead struct {
	queue  cke.Queue
	drains []cke.Drain
}

func (f Front) read(ctx context.Context, name string, do func(s *Store) error) error {
	return f.d.call(ctx, Call{Port: AgentPort, Name: name}, nil, cke.Node{}, func(bool) error {
		s := f.d.world.store
		if s.down {
			return errStoreDown
		}
		return do(s)
	})
}

// Clusters returns the names of the clusters that the store has.
func (f Front) Clusters(ctx context.Context) (names []string, err error) {
	err = f.read(ctx, "Clusters", func(s *Store) error {
		if !s.deleted {
			names = []string{s.cluster}
		}
		return nil
	})
	return names, err
}

// Spec returns the stored revision of the cluster file, or ErrNotFound once the cluster is gone.
func (f Front) Spec(ctx context.Context, _ string) (spec cke.Spec, err error) {
	err = f.read(ctx, "Spec", func(s *Store) error {
		if spec = s.spec; s.deleted {
			return cke.ErrNotFound
		}
		return nil
	})
	return spec, err
}

// Identity returns the identity of the cluster.
func (f Front) Identity(ctx context.Context, _ string) (id cke.Identity, err error) {
	err = f.read(ctx, "Identity", func(s *Store) error { id = cloneIdentity(s.identity); return nil })
	return id, err
}

// Leader returns the daemon that leads. ErrNotFound: none does.
func (f Front) Leader(ctx context.Context, _ string) (leader cke.Leader, err error) {
	err = f.read(ctx, "Leader", func(s *Store) error {
		all := s.world.daemons
		if last := all[len(all)-1]; !last.dead {
			leader = last.term.Leader()
			return nil
		}
		return cke.ErrNotFound
	})
	return leader, err
}

// RequestsOf returns what operators and agents requested.
func (f Front) RequestsOf(ctx context.Context, _ string) (asked cke.Requests, err error) {
	err = f.read(ctx, "RequestsOf", func(s *Store) error {
		asked = s.asked()
		if f.d.agentsRead == nil {
			f.d.agentsRead = map[string]agentsRead{}
		}
		f.d.agentsRead[actorOf(ctx)] = agentsRead{asked.Reboots, asked.Drains}
		return nil
	})
	return asked, err
}

// EditQueue changes a queue, if nothing else has since it was read; else it is read again. So what lands late changes
// nothing that is newer.
func (f Front) EditQueue(ctx context.Context, _ string, kind cke.QueueKind, _ string, edit func(cke.Queue) (cke.Queue, error)) error {
	for {
		var read cke.Queue
		if err := f.read(ctx, "Queue", func(s *Store) error {
			if read = *s.requests.Queue(kind); s.deleted {
				return cke.ErrNotFound
			}
			return nil
		}); err != nil {
			return err
		}
		next, err := edit(read)
		if err != nil {
			return err
		}
		err = f.d.call(ctx, Call{Port: AgentPort, Name: "EditQueue", Writes: true}, nil, cke.Node{}, func(bool) error {
			s := f.d.world.store
			switch q := s.requests.Queue(kind); {
			case s.down:
				return errStoreDown
			case s.deleted:
				return cke.ErrNotFound
			case !reflect.DeepEqual(*q, read):
				return cke.ErrConflict
			default:
				*q = next
				return nil
			}
		})
		if !errors.Is(err, cke.ErrConflict) {
			return err
		}
	}
}

// heardWithin is how soon a daemon hears of changes of the queues.
const heardWithin = time.Second

// Changed receives after the reboot queue or a lease has changed, until ctx ends, which closes it.
func (f Front) Changed(ctx context.Context, _ string) <-chan struct{} {
	now := func() agentsRead {
		f.d.world.mu.Lock()
		defer f.d.world.mu.Unlock()
		asked := f.d.world.store.asked()
		return agentsRead{asked.Reboots, asked.Drains}
	}
	changed, was := make(chan struct{}), now()
	go func() {
		defer close(changed)
		t := time.NewTicker(heardWithin)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			is := now()
			if reflect.DeepEqual(was, is) {
				continue
			}
			was = is
			select {
			case changed <- struct{}{}:
			case <-ctx.Done():
			}
		}
	}()
	return changed
}

// Reaches reports whether the machine runs and reaches the management hosts, and so may send a request or get its
// answer.
func (n *Node) Reaches() bool {
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	n.world.tick()
	return n.world.connected(Management, n.name)
}

// Answered judges the answer of a daemon to the agent of a machine that asked whether it may reboot, and lets the
// machine do what its mode is where it may. actor is who made the calls of the answer. It returns the mode.
func (f Front) Answered(n *Node, actor string, code int, kind string) RebootMode {
	w := f.d.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick()
	w.log("daemon %d answers the agent of %s: %d %s", f.d.number, n.name, code, kind)
	switch {
	case code == http.StatusOK:
		w.mark(AgentGranted)
		w.wasGranted(n, f.d.agentsRead[actor])
		if !n.granted {
			n.granted = true
			n.reboots.begin(n)
		}
	case kind == "wait":
		w.mark(AgentWaits)
	case code == http.StatusConflict:
		w.mark(AgentRefused)
	}
	return n.reboots
}

// begin lets the agent of a machine reboot it. One that freezes meanwhile is not rebooted.
func (m RebootMode) begin(n *Node) {
	w, boots, down := n.world, n.boots, goesDown
	switch m {
	case StaysUp, CommandFails, CommandHangs:
		n.granted = false
		return
	case Slow:
		down = slowTakes
	case Late:
		down = lateDown
	}
	n.commanded = true
	w.after(down, func() {
		switch {
		case !n.on || n.boots != boots || !n.granted: // its power failed before, or its agent gave the lease back
			return
		case n.frozen:
			n.granted, n.commanded = false, false
			return
		}
		w.log("%s: power off, by its agent", n.name)
		n.powerOff()
		n.commanded = true
		if m != StaysOff || n.reboots != StaysOff { // operators have put that right
			n.returns(m == Twice, "its agent")
		}
	})
}

// Stays lets the agent of a machine that has not gone down not reboot it any more, before it gives the lease back.
func (n *Node) Stays() {
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	if n.granted && n.on {
		n.granted, n.commanded = false, false
	}
}

// returns lets a machine that was taken down start again, and perhaps reboot once more by itself.
func (n *Node) returns(twice bool, by string) {
	w := n.world
	on := func() {
		if !n.on {
			w.log("%s: power on, by %s", n.name, by)
			n.powerOn()
		}
	}
	w.after(isOff, on)
	if twice {
		w.after(isOff+2*isOffAgain, func() { w.log("%s: power off, by itself", n.name); n.powerOff() })
		w.after(isOff+3*isOffAgain, on)
	}
}

// mayReboot judges that the agent of a machine gets the lease, as an entry of the queue that a daemon puts on record.
// It is a reboot like one by a command.
func (w *World) mayReboot(d *Daemon, actor string, e cke.Entry) {
	n := w.at(e.Address)
	if n == nil || w.late || w.excused(d, actor) {
		return
	}
	w.sparesNeighbors(n, e.ID, "the agent of "+n.name+" may reboot it")
	w.takesDown(n, "the agent of "+n.name+" may reboot it", e.Attempt)
}

// wasGranted judges the answer that a machine may reboot by what the daemon had read for it, and that no other machine
// of a voter is down through cke. That members failed since the lease was given is not held against it: the member of
// the machine is stopped anyway.
func (w *World) wasGranted(n *Node, read agentsRead) {
	e := read.queue.Of(n.address)
	if e == nil || e.Agent == "" || !e.Acting() || !e.CommandEndedAt.IsZero() || e.Canceled {
		w.violated("the agent of %s is granted its reboot without a lease", n.name)
		return
	}
	carries := slices.ContainsFunc(w.store.identity.Joins, func(j cke.Join) bool { return j.Node.Address == e.Address })
	if carries && !slices.ContainsFunc(read.drains, func(l cke.Drain) bool { return l.Entry == e.ID }) {
		w.violated("the agent of %s is granted its reboot after its lease", n.name)
	}
	if before := w.standing(); before.formed && before.quorate && !w.asked() {
		w.besideAnother(n, before, "the agent of "+n.name+" is granted its reboot")
	}
}

// wasMoved judges and counts what a daemon puts on record of a queue.
func (w *World) wasMoved(d *Daemon, actor string, before, after cke.Queue) {
	for _, e := range after.Entries {
		was, there := before.Entry(e.ID)
		if !there || was.State == e.State {
			continue
		}
		if was.Acting() && (e.State == cke.EntryQueued || e.State == cke.EntryFailed) {
			w.givesUp(d, was)
		}
		switch {
		case e.State == cke.EntryLeased:
			w.limitsLeases(d, after, e)
			w.hasTurn(d, e)
		case e.Agent == "":
		case e.Acting():
			w.grantedBy = d.number
			if slices.ContainsFunc(after.Entries, func(o cke.Entry) bool { return o.Agent == "" }) {
				w.mark(AgentBeside)
			}
			w.mayReboot(d, actor, e)
		case was.Acting() && e.State == cke.EntryReturning:
			w.mark(AgentBack)
			if w.grantedBy != d.number {
				w.mark(AgentOutlives)
			}
		case was.Acting() && e.State == cke.EntryFailed && was.CommandEndedAt.IsZero():
			if n := w.at(e.Address); n != nil && !n.on {
				w.mark(AgentLost)
			} else {
				w.mark(AgentSilent)
			}
		}
	}
}

// limitsLeases judges that no more nodes of a queue are under way than the cluster file allows.
func (w *World) limitsLeases(d *Daemon, q cke.Queue, leased cke.Entry) {
	if w.late || w.store.spec.Generation != d.decidedOn {
		return
	}
	most, active := w.store.spec.Wanted().Reboot.MaxConcurrent, 0
	if leased.Kind() == cke.RepairQueue {
		most = w.store.spec.Wanted().Repair.MaxConcurrent
	}
	for _, e := range q.Entries {
		if e.Active() {
			active++
		}
	}
	if active > max(1, most) {
		w.violated("%d nodes of the %s queue are under way, %d may be", active, leased.Kind(), max(1, most))
	}
}
