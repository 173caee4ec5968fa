package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cke"
)

// Daemon is one cke with a term as leader. Everything that it does goes through its ports.
type Daemon struct {
	world    *World
	number   int
	ctx      context.Context
	cancel   context.CancelCauseFunc
	term     *Term
	look     *Observer
	keeper   keeper
	commands commands
	sight    sight
	// sawUsers are etcd's users as this daemon read them last.
	sawUsers cke.EtcdUsers
	// agentsRead is what it read last for an agent, by actor.
	agentsRead map[string]agentsRead
	// compared are the restores for which the store was compared in this term.
	compared map[string]bool

	dead, frozen bool // guarded by the world's lock
	older        bool // of an earlier version of cke
	// What the daemon did, and what had happened apart from that when it looked; see happened.
	own, observed, decided int
	writes                 int            // to the store
	listed                 map[string]int // by actor
	clock                  time.Time      // the furthest that its host's clock was since it started what it does
	lookEnded              bool
	authRead               int         // what had happened when it read etcd's authentication last
	file, decidedOn        int64       // the generation of the spec that it read last, and when it decided what it does
	stock                  stockOf     // what it knows of the inventory
	read, queues           queuesKnown // what it could know of the queues as it read the store, and when it decided what it does
}

var errDead = errors.New("the daemon is dead")

// NewDaemon starts a daemon, which is elected at once: the term before has ended, and its daemon, if it is awake, knows.
func (w *World) NewDaemon() *Daemon {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store.term++
	d := &Daemon{world: w, number: int(w.store.term), listed: map[string]int{}, compared: map[string]bool{},
		sight: sight{map[wordOn]int{}, map[cke.JoinID]int{}, map[cke.JoinID]int{}, map[string]int{}, 0}}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	d.commands.d = d
	d.term = &Term{d: d, number: w.store.term, since: w.now(), changed: make(chan struct{}, 1)}
	d.look = newObserver(d)
	d.observed, d.decided = d.happened(), d.happened()
	for _, before := range w.daemons {
		if !before.frozen {
			before.cancel(cke.ErrDeposed)
		}
	}
	w.daemons = append(w.daemons, d)
	w.log("daemon %d leads", d.number)
	return d
}

// Now is the time by the clock of the daemon's host.
func (d *Daemon) Now() time.Time {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	return d.host()
}

func (d *Daemon) host() time.Time { return d.world.host((d.number - 1) % Hosts) }

// Number counts daemons from 1.
func (d *Daemon) Number() int { return d.number }

// Context ends with the daemon or its term.
func (d *Daemon) Context() context.Context { return d.ctx }

// Term is the daemon's way to the store.
func (d *Daemon) Term() *Term { return d.term }

// Observer is the daemon's observer of the world.
func (d *Daemon) Observer() *Observer { return d.look }

// Machines is the daemon's way to nodes.
func (d *Daemon) Machines() cke.Machines { return machines{d} }

// Etcd is the daemon's way to members.
func (d *Daemon) Etcd() cke.Etcd { return etcdPort{d} }

// Authority is the daemon's certificate authority.
func (d *Daemon) Authority() cke.Authority { return authority{d} }

func (d *Daemon) end(cause error) { d.cancel(cause) }

// Kill stops the daemon: no further call of it has any effect. Calls in flight are dropped.
func (d *Daemon) Kill() {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	d.kill()
}

func (d *Daemon) kill() {
	if d.dead {
		return
	}
	d.dead, d.frozen = true, false
	d.world.log("daemon %d is killed", d.number)
	d.cancel(errDead)
	if s := d.world.sched; s != nil {
		s.forget(d)
	}
}

// Freeze stops the daemon where it is, with its calls in flight.
func (d *Daemon) Freeze() {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	d.freeze()
}

func (d *Daemon) freeze() {
	if !d.dead && !d.frozen {
		d.frozen = true
		d.world.log("daemon %d is frozen", d.number)
	}
}

// noticed is how long a daemon that was frozen continues before its context ends, if its term has ended meanwhile.
const noticed = 10 * time.Millisecond

// Wake lets a frozen daemon continue. If its term is over its context is canceled soon, and its calls in flight land.
func (d *Daemon) Wake() {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	if !d.frozen {
		return
	}
	d.frozen = false
	d.world.log("daemon %d wakes", d.number)
	if d.world.store.term != d.number64() {
		d.world.after(noticed, func() { d.cancel(cke.ErrDeposed) })
	}
}

func (d *Daemon) number64() int64 { return int64(d.number) }

// Frozen reports whether the daemon is frozen.
func (d *Daemon) Frozen() bool {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	return d.frozen
}

// call takes one call through a port. n is the node that it needs, or nil. do is its effect, run with the world's lock held.
func (d *Daemon) call(ctx context.Context, c Call, n *Node, declared cke.Node, do func(half bool) error) error {
	w := d.world
	c.Daemon, c.Actor = d.number, actorOf(ctx)
	w.mu.Lock()
	switch {
	case d.dead:
		w.mu.Unlock()
		return errDead
	case ctx.Err() != nil:
		w.mu.Unlock()
		return context.Cause(ctx)
	case d.fenced(c):
		w.mu.Unlock()
		return cke.ErrDeposed
	case c.touches() && d.deposed():
		w.violated("daemon %d starts %s on %s after its term", d.number, c.Name, c.Node)
	}
	d.calls(c)
	t := &turn{call: c, daemon: d, node: n, declared: declared, do: do, done: make(chan struct{})}
	if w.sched == nil {
		t.land(w, false)
		if w.tell != nil {
			w.log("%s%s", t.call, outcome(t))
		}
		w.mu.Unlock()
	} else {
		w.sched.enter(t)
		w.mu.Unlock()
		<-t.done
	}
	return t.answer(ctx)
}

// deposed reports whether the daemon's term is over, whether it has noticed or not.
func (d *Daemon) deposed() bool { return d.ctx.Err() != nil || d.world.store.term != d.number64() }

// fenced reports whether the guard of the term keeps a request from being made: it reads clocks, and so is true in a daemon
// that was frozen before anything has reported it.
func (d *Daemon) fenced(c Call) bool {
	if !d.deposed() {
		return false
	}
	if c.touches() && !c.begins {
		d.world.mark(DeposedWithin)
		return !d.world.store.guardsOnce
	}
	return c.touches() || c.begins
}

// turn is one call on its way.
type turn struct {
	call     Call
	daemon   *Daemon
	node     *Node
	declared cke.Node
	do       func(half bool) error
	done     chan struct{}

	err   error
	hangs bool
	delay time.Duration
	late  bool // its caller has given it up
}

// stale reports whether the call lands when nobody waits for it any more, or for another term than that it was made in.
func (t *turn) stale() bool { return t.late || t.daemon.world.store.term != t.daemon.number64() }

// land lets the call have its effect.
func (t *turn) land(w *World, half bool) {
	w.tick()
	if n := t.node; n != nil {
		if trouble := n.trouble(t.declared); trouble != nil {
			t.err = trouble
			return
		}
		if n.hung {
			t.hangs = true
			if t.call.Writes {
				n.backlog = append(n.backlog, func() { t.late = true; t.effect(w, half) })
			}
			return
		}
		t.delay = n.slow
	}
	t.err = t.effect(w, half)
	if t.call.Writes {
		w.settle()
		w.poke()
	}
}

// effect does what the call is about, under the eyes of the checker.
func (t *turn) effect(w *World, half bool) error {
	t.daemon.looks(t.call)
	if !t.call.Writes {
		return t.do(half)
	}
	w.late = t.late
	if t.call.Port == AgentPort { // what agents ask for excuses no daemon
		return t.do(half)
	}
	w.events++
	if !t.stale() {
		t.daemon.own++
	}
	if !t.call.touches() {
		return t.do(half)
	}
	if b := t.call.of; b != nil && !b.holds() {
		return fmt.Errorf("container %s on %s: %w", b.id.Name, b.node.name, cke.ErrNotFound)
	}
	before := w.standing()
	if t.call.Name == "StopContainer" {
		before.led = w.led(before)
	}
	if t.call.Port == "etcd" {
		before.serving = w.answering(before)
	}
	w.stale = t.stale()
	err := t.do(half)
	w.wasDone(t, before)
	return err
}

// answer is what the caller gets, and when.
func (t *turn) answer(ctx context.Context) error {
	err, wait := t.err, t.delay
	if t.hangs {
		err, wait = &cke.Error{Code: cke.CodeEngine, What: "the Docker engine does not answer", Err: context.DeadlineExceeded}, hangPatience
	}
	if wait == 0 {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hangPatience is how long a call waits for an engine that does not answer a ping meanwhile.
const hangPatience = 3 * time.Second

// actorKey is the key of the name of who makes calls with a context, so that a Scheduler can distinguish parallel callers.
type actorKey struct{}

// WithActor names who makes calls with this context.
func WithActor(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, actorKey{}, name)
}

func actorOf(ctx context.Context) string {
	name, _ := ctx.Value(actorKey{}).(string)
	return name
}

// Dead reports whether the daemon was killed.
func (d *Daemon) Dead() bool {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	return d.dead
}

// HandOver ends the term.
func (t *Term) HandOver(ctx context.Context, _ string) error { return t.Resign(ctx) }

// Prefer does nothing: no other daemon waits to lead.
func (t *Term) Prefer(context.Context, []string) error { return nil }
