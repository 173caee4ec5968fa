package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"cke"
	"cke/server/balance"
	"cke/server/strategy"
)

// Bounds of handovers.
const (
	// settleAfter is the default of Daemon.Settle.
	settleAfter = 15 * time.Second
	// handoversAtOnce is how many clusters a daemon hands over at the same time, and handoverEvery when it checks which ones follow.
	handoversAtOnce = 8
	handoverEvery   = time.Second
	// A cluster that came back from a live daemon is not handed to it for backFirst, and twice as long each time, up to backLast,
	// while it comes back again within backLast.
	backFirst = time.Minute
	backLast  = time.Hour
)

// handover is what a term ends with that is handed over to another daemon.
type handover struct {
	to     string // its session
	host   string
	reason balance.Reason
}

func (h *handover) Error() string { return fmt.Sprintf("handed over to %s: %s", h.host, h.reason) }

// charge is one cluster while this daemon leads it: the daemon asks its loop to hand it over, and the loop does so between two
// operations. A nil *charge is never handed over.
type charge struct {
	asked chan struct{}
	// elsewhere is the handover to a daemon that may reach the nodes if this one does not; nil: there is none.
	elsewhere func() *handover

	mu   sync.Mutex
	free bool      // nothing is under way that should not change hands
	to   *handover // what the daemon asks for; nil: nothing
}

func newCharge(elsewhere func() *handover) *charge {
	return &charge{asked: make(chan struct{}, 1), elsewhere: elsewhere}
}

// ask asks to hand over, or no longer to.
func (c *charge) ask(h *handover) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.to = h; h == nil {
		return
	}
	select {
	case c.asked <- struct{}{}:
	default:
	}
}

// settle notes whether the cluster may change hands now.
func (c *charge) settle(free bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = free
}

func (c *charge) isFree() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.free
}

// due is the handover that is asked for, if the cluster may change hands now.
func (c *charge) due() *handover {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.free {
		return nil
	}
	return c.to
}

func (c *charge) wake() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.asked
}

// mayChangeHands reports whether nothing is under way, or about to be, that another leader would have to take up: an operation or
// what is left of one, a bootstrap, a restore, a task, a node's turn in a queue, a full or other long work on backups. A pause before
// an operation is tried or repeated is known to this loop alone.
func (l *Loop) mayChangeHands(in strategy.Input, d strategy.Decision) bool {
	settled := l.isIdle(in, d) && (d.Converged || len(d.Blockers) > 0 || d.Frozen != nil)
	asked := len(in.Requests.Tasks) > 0 || len(in.Requests.Unread) > 0 || in.Deleting
	started := false
	if i := in.Identity.Incarnation; i != nil {
		started = i.State == cke.Forming || i.State == cke.Restoring
	}
	cut := in.Backup != nil && in.Backup.Problem != nil
	repeats := slices.ContainsFunc(d.Blockers, func(p cke.Problem) bool { return p.Code == cke.CodeRepeats })
	for _, c := range l.done {
		repeats = repeats || c.MayRepeat(l.Now())
	}
	return settled && len(l.failures) == 0 && !repeats && !asked && !started && !cut
}

// How long a daemon reaches no node and no member of a cluster before it gives the cluster up: unreachedFirst, or as long as others
// reached none before it, up to unreachedLast. So a cluster whose nodes are all down changes hands ever more rarely.
const (
	unreachedFirst = time.Minute
	unreachedLast  = time.Hour
)

// isIdle reports whether nothing is under way that this daemon could do without reaching a node.
func (l *Loop) isIdle(in strategy.Input, d strategy.Decision) bool {
	saved := l.closed && !l.unread && len(l.unsaved) == 0 && len(l.over) == 0
	queued := slices.ContainsFunc(in.Requests.Queued(), cke.Entry.Active) || l.Commands.busy()
	return d.Operation == nil && l.running == nil && saved && !queued && (in.Backup == nil || !in.Backup.Busy)
}

// giveUp is the handover to a daemon that may reach the nodes, once this one has reached none for long; nil: there is none.
func (l *Loop) giveUp() *handover {
	since, now := l.status.UnreachedSince, l.Now()
	if !l.idle || since.IsZero() || l.charge == nil || l.charge.elsewhere == nil {
		return nil
	}
	began := since
	if l.leads.After(since) {
		began = l.leads
	}
	if now.Sub(began) < min(max(unreachedFirst, l.leads.Sub(since)), unreachedLast) {
		return nil
	}
	return l.charge.elsewhere()
}

// busy reports whether a command runs or a machine is observed.
func (r *Commands) busy() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.running) > 0 || len(r.watched) > 0
}

// prefer shows other daemons which management hosts the cluster file prefers.
func (l *Loop) prefer(ctx context.Context, hosts []string) {
	if slices.Equal(hosts, l.preferred) {
		return
	}
	if err := l.Term.Prefer(ctx, hosts); err != nil {
		l.Log.Warn("other daemons do not know yet which hosts are preferred", "error", err)
		return
	}
	l.preferred = slices.Clone(hosts)
}

// duty is what a daemon leads, and what it knows of all daemons.
type duty struct {
	mu    sync.Mutex
	led   map[string]*charge
	fleet cke.Fleet
	last  map[string]string // which other daemon led each cluster last
	back  map[string]back
}

// back is a cluster that came back from another daemon: it failed there, or that daemon was asked to resign.
type back struct {
	from  string // its session
	pause time.Duration
	until time.Time
}

// cameBack notes that a cluster is led again, and by whom it was led before.
func (u *duty) cameBack(cluster string, now time.Time) {
	from := u.last[cluster]
	delete(u.last, cluster)
	if _, alive := u.fleet.Daemon(from); !alive {
		return
	}
	was, pause := u.back[cluster], backFirst
	if was.from == from && now.Sub(was.until) < backLast {
		pause = min(2*was.pause, backLast)
	}
	if u.back == nil {
		u.back = map[string]back{}
	}
	u.back[cluster] = back{from, pause, now.Add(pause)}
}

// ledBy notes that another daemon leads a cluster.
func (u *duty) ledBy(cluster, daemon string) {
	if u.last == nil {
		u.last = map[string]string{}
	}
	u.last[cluster] = daemon
}

// takes notes that a cluster is led; the returned function notes that it no longer is.
func (u *duty) takes(cluster string, c *charge, now time.Time) (leaves func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.led == nil {
		u.led = map[string]*charge{}
	}
	u.led[cluster] = c
	u.cameBack(cluster, now)
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.led, cluster)
	}
}

// observes takes in what is known of all daemons.
func (u *duty) observes(f cke.Fleet) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fleet = f
	for _, l := range f.Clusters {
		if l.By != "" && l.By != f.Self && u.led[l.Cluster] == nil {
			u.ledBy(l.Cluster, l.By)
		}
	}
	maps.DeleteFunc(u.back, func(_ string, b back) bool { _, alive := f.Daemon(b.from); return !alive })
}

// heir is who gets a cluster of a daemon that stops, and observes no other daemon any more; nil: the next candidate.
func (u *duty) heir(cluster string) *handover {
	u.mu.Lock()
	defer u.mu.Unlock()
	return handovers(u.fleet, balance.Leave(u.fleet, u.fleet.Self))[cluster]
}

// elsewhere is who gets a cluster of which this daemon reaches no node; nil: none waits that it could try now.
func (u *duty) elsewhere(cluster string, now time.Time) *handover {
	u.mu.Lock()
	defer u.mu.Unlock()
	o := balance.Options{Shuns: func(cluster, daemon string) bool { return u.shuns(cluster, daemon, now) }}
	if m, ok := balance.Elsewhere(u.fleet, cluster, o); ok {
		return handovers(u.fleet, []balance.Move{m})[cluster]
	}
	return nil
}

// shuns reports whether a cluster came back from a daemon a short time ago.
func (u *duty) shuns(cluster, daemon string, now time.Time) bool {
	b := u.back[cluster]
	return b.from == daemon && now.Before(b.until)
}

// handovers are those of this daemon in a plan, by cluster.
func handovers(f cke.Fleet, plan []balance.Move) map[string]*handover {
	mine := map[string]*handover{}
	for _, m := range plan {
		if m.From == f.Self {
			to, _ := f.Daemon(m.To)
			mine[m.Cluster] = &handover{to: m.To, host: to.Host, reason: m.Reason}
		}
	}
	return mine
}

// assign asks loops to hand clusters over, as the plan says. It reports whether some are left to do so, and whether some may be later.
func (u *duty) assign(now time.Time, settled func(string) bool) (more, later bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.fleet
	o := balance.Options{Settled: settled, Eager: f.Asked != nil}
	o.Shuns = func(cluster, daemon string) bool {
		shuns := u.shuns(cluster, daemon, now)
		later = later || shuns
		return shuns
	}
	if o.Eager {
		o.Settled = nil
	}
	more = len(handovers(f, balance.Steps(f, f.Self, o))) > 0
	var mine map[string]*handover
	if more {
		o.Pinned = func(cluster string) bool { c := u.led[cluster]; return c != nil && !c.isFree() }
		mine = handovers(f, balance.Steps(f, f.Self, o))
	}
	asked := 0
	for cluster, c := range u.led {
		if h := mine[cluster]; h != nil && asked < handoversAtOnce {
			c.ask(h)
			asked++
		} else {
			c.ask(nil)
		}
	}
	return more, later
}

// handedOver notes that a cluster was handed to another daemon.
func (u *duty) handedOver(cluster, to string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ledBy(cluster, to)
}

// share hands clusters over until ctx is canceled, so that each live daemon leads its share.
func (d *Daemon) share(ctx context.Context) {
	fleets, settle := d.Fleet(ctx), cmp.Or(d.Settle, settleAfter)
	seen := map[string]time.Time{} // since when each daemon is known
	var again <-chan time.Time
	for {
		select {
		case f, ok := <-fleets:
			if !ok {
				return
			}
			d.duty.observes(f)
			known := seen
			seen = map[string]time.Time{}
			for _, other := range f.Daemons {
				if seen[other.ID] = known[other.ID]; known[other.ID].IsZero() {
					seen[other.ID] = d.Now()
				}
			}
		case <-again:
		}
		again = nil
		more, later := d.duty.assign(d.Now(), func(id string) bool { return d.Now().Sub(seen[id]) >= settle })
		wait := handoverEvery
		if !more {
			wait, more = settle, later
			for _, since := range seen {
				if left := settle - d.Now().Sub(since); left > 0 {
					wait = min(wait, left)
					more = true
				}
			}
		}
		if more {
			again = time.After(wait)
		}
	}
}

// leave ends a term that has not ended by itself, so that the next candidate need not wait for the session to expire: that of a
// handover if err is one, or of a daemon that stops if ctx is canceled.
func (d *Daemon) leave(ctx context.Context, t Term, cluster string, err error, log *slog.Logger) {
	if t.Context().Err() != nil {
		return
	}
	var h *handover
	if !errors.As(err, &h) && ctx.Err() != nil {
		h = d.duty.heir(cluster)
	}
	limited, cancel := context.WithTimeout(context.Background(), resignLimit)
	defer cancel()
	if h == nil {
		err = t.Resign(limited)
	} else if err = t.HandOver(limited, h.to); err == nil {
		d.Metrics.handedOver(h.reason)
		d.duty.handedOver(cluster, h.to)
	}
	if err != nil {
		log.Warn("not resigned; the session will expire", "error", err)
	}
}
