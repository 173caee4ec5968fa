// Package gameday breaks a running cluster of a lab again and again while a checked load runs, prints what it breaks
// and what cke does about it, and gives a verdict.
package gameday

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"cke"
	"cke/mtest/rig"
)

// Options say what a game day is about.
type Options struct {
	// Rig is the management host of the cluster.
	Rig *rig.Rig
	// Daemon is the only cke of the cluster.
	Daemon *rig.Process
	// For is how long faults are started.
	For time.Duration
	// Seed determines the list of faults, together with Faults, BeyondQuorum and the names of the nodes.
	Seed uint64
	// Faults are those that may happen; none: all of Faults().
	Faults []string
	// BeyondQuorum allows faults of so many nodes that the others have no quorum. Each of them leaves all data.
	BeyondQuorum bool
	// Out gets one line for each event, Color makes it colored.
	Out   io.Writer
	Color bool
}

// Limits of waits.
const (
	// readyLimit bounds the wait for a cluster that is READY before the first fault.
	readyLimit = time.Minute
	// wholeLimit bounds the wait for a cluster that is READY after a fault has passed.
	wholeLimit = 3 * time.Minute
	// strikeLimit bounds what is done to a node.
	strikeLimit = 2 * time.Minute
	// verdictLimit bounds reading everything back.
	verdictLimit = 5 * time.Minute
	// firstWrites are acknowledged before the first fault, and again before the verdict.
	firstWrites = 50
	// probeInterval is that of cke: whatever was observed later than this after a fault started after it.
	probeInterval = 5 * time.Second
	// retryEvery is the pause before a command is given again.
	retryEvery = time.Second
)

// Happened is one fault that happened.
type Happened struct {
	Fault string
	Nodes []string // none: the daemon
	// At is when it was started, Over when it was reverted (zero: it was not, or has no end), Whole when the cluster
	// was READY again (zero: it was not).
	At, Over, Whole time.Time
	// Silence is the longest time without an acknowledged write from At to Whole.
	Silence time.Duration
	// Records are what cke started after this fault and before the next one.
	Records []cke.Record
}

// game is a game day while it runs.
type game struct {
	Options
	*printer

	nodes  []string // of the members, sorted
	load   *rig.Load
	newest int64 // the last record from before

	daemons sync.WaitGroup // faults of the daemon, which run beside those of nodes

	mu       sync.Mutex
	status   cke.Status
	news     chan struct{} // closed with the next status
	happened []*Happened
	failed   error // the first fault that could not be started or reverted
}

// Run starts faults until the time is over or ctx ends, reverts what is broken, and checks everything. The verdict is
// valid unless an error says that the game did not start.
func Run(ctx context.Context, o Options) (Verdict, error) {
	if err := CheckFaults(o.Faults); err != nil {
		return Verdict{}, err
	}
	g := &game{Options: o, printer: newPrinter(o.Out, o.Color), news: make(chan struct{})}
	// What was broken is reverted, whatever ends the game.
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	records, err := o.Rig.Records(ctx, 1)
	if err != nil {
		return Verdict{}, err
	}
	if len(records) > 0 {
		g.newest = records[0].ID
	}
	watching.Go(func() { g.watchStatus(base) })
	watching.Go(func() { g.watchRecords(base) })
	before, err := g.start(ctx)
	if err != nil {
		return Verdict{}, err
	}
	defer g.load.Stop()
	g.play(ctx, base, newDealer(o))
	return g.judge(base, before), nil
}

// start waits for a cluster that is READY, and starts the load.
func (g *game) start(ctx context.Context) (cke.Status, error) {
	ready, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	before, err := g.await(ready, whole)
	if err != nil {
		return before, fmt.Errorf("a game day starts with a cluster that is READY: %s is %s, %s: %w", g.Rig.Cluster, before.Health, before.Summary, err)
	}
	if before.Tolerance < 1 && !g.BeyondQuorum {
		return before, fmt.Errorf("%s can lose no member: want three or more", g.Rig.Cluster)
	}
	var urls []string
	for _, m := range before.Members {
		g.nodes, urls = append(g.nodes, m.Name), append(urls, m.ClientURL)
		if _, err := g.Rig.Lab.Node(m.Name); err != nil {
			return before, err
		}
	}
	slices.Sort(g.nodes)
	config, err := g.Rig.ClientTLS(ready)
	if err == nil {
		g.load, err = rig.StartLoad(urls, config)
	}
	if err != nil {
		return before, err
	}
	if err := g.load.Await(ready, firstWrites); err != nil {
		g.load.Stop()
		return before, err
	}
	return before, nil
}

// play starts one fault after the other. Of nodes there is one at a time, and the next one waits until the cluster is
// whole.
func (g *game) play(ctx, base context.Context, d *dealer) {
	playing, cancel := context.WithTimeout(ctx, g.For)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		g.print("stop", "interrupted: revert what is broken, then the verdict; interrupt again to leave everything as it is")
	})()
	until, _ := playing.Deadline()
	for pass(playing, firstPause) && g.err() == nil {
		next := d.next(g.nodes)
		if time.Until(until) < next.hold {
			break
		}
		if len(next.nodes) > 0 {
			g.fault(playing, base, next)
		} else {
			g.daemons.Wait()
			g.daemons.Go(func() { g.fault(playing, base, next) })
		}
		pass(playing, next.pause)
	}
	g.daemons.Wait()
}

// firstPause is before each fault, after the pause that was dealt.
const firstPause = time.Second

// pass lets time pass, and reports false when ctx ends.
func pass(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// fault starts a fault, reverts it after a time or when ctx ends, and waits until the cluster is whole.
func (g *game) fault(ctx, base context.Context, e entry) {
	g.mu.Lock()
	st := g.status
	h := &Happened{Fault: e.fault.name, Nodes: e.nodes, At: time.Now()}
	g.happened = append(g.happened, h)
	g.mu.Unlock()
	g.printBreak(e.text(st))
	err := g.each(base, e.nodes, e.fault.strike)
	if e.fault.revert != nil {
		if err == nil {
			pass(ctx, e.hold)
		}
		g.print("revert", e.fault.name+on(e.nodes)+": "+e.fault.reverted)
		err = errors.Join(err, g.each(base, e.nodes, func(ctx context.Context, g *game, node string) error {
			return e.fault.revert(ctx, g, node, st)
		}))
	}
	over := time.Now()
	if err != nil {
		g.fail(fmt.Errorf("%s%s: %w", h.Fault, on(e.nodes), err))
	}
	limited, cancel := context.WithTimeout(base, wholeLimit)
	defer cancel()
	missing := g.recovers(limited, e, st, h.At, over)
	g.mu.Lock()
	if e.fault.remains() {
		h.Over = over
	}
	now := time.Now()
	if missing == nil {
		h.Whole = now
	}
	h.Silence = g.load.Silence(h.At, now)
	g.mu.Unlock()
	if missing != nil {
		g.fail(fmt.Errorf("%s is not READY %s after %s%s", g.Rig.Cluster, wholeLimit, h.Fault, on(e.nodes)))
		return
	}
	g.printWhole(*h)
}

// recovers waits until the cluster is whole after a fault. A member whose data an engine before 23.0 has removed
// together with the container is replaced, as an operator would: decision 65 has the reason.
func (g *game) recovers(ctx context.Context, e entry, before cke.Status, at, over time.Time) error {
	whole, emptied := e.wholeAfter(before, at, over), e.emptiedAfter(over)
	st, err := g.await(ctx, func(st cke.Status) bool { return whole(st) || emptied(st) })
	if err != nil || !emptied(st) {
		return err
	}
	g.print("revert", e.fault.name+on(e.nodes)+": the engine removed the data with it: ask for a fresh member with ckecli replace")
	if err := replace(ctx, g, e.nodes[0], before); err != nil {
		return err
	}
	e.fault.fresh = true
	_, err = g.await(ctx, e.wholeAfter(before, at, over))
	return err
}

// each does something to all nodes side by side, or once to no node.
func (g *game) each(ctx context.Context, nodes []string, do func(context.Context, *game, string) error) error {
	ctx, cancel := context.WithTimeout(ctx, strikeLimit)
	defer cancel()
	if len(nodes) == 0 {
		nodes = []string{""}
	}
	var all sync.WaitGroup
	errs := make([]error, len(nodes))
	for i, n := range nodes {
		all.Go(func() { errs[i] = do(ctx, g, n) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (g *game) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.print("error", err.Error())
	g.failed = errors.Join(g.failed, err)
}

func (g *game) err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed
}

// whole reports whether all declared members serve as declared.
func whole(st cke.Status) bool {
	return rig.Ready(st) && st.Declared > 0 && st.Ready == st.Declared && len(st.Members) == st.Declared
}
