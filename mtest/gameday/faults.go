package gameday

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/internal/term"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// fault is one way to break a node, or the daemon.
type fault struct {
	name, what string
	// strike breaks the node. revert ends that; nil: cke alone repairs it.
	strike   func(context.Context, *game, string) error
	revert   func(ctx context.Context, g *game, node string, before cke.Status) error
	reverted string
	// daemon: it is no fault of a node.
	daemon bool
	// silent: the member is unreachable, its data stays, and it serves again once this is reverted. So several nodes
	// may have it.
	silent bool
	// fresh: the member is replaced by one with a membership of its own.
	fresh bool
}

// remains reports whether the trouble remains until it is reverted.
func (f fault) remains() bool { return f.revert != nil && !f.fresh }

var faults = []fault{
	{name: "kill", what: "it loses power", strike: node((*lab.Lab).Kill), revert: reverting((*lab.Lab).Start), reverted: "power on", silent: true},
	{name: "cut", what: "its cable is cut", strike: node(cut), revert: reverting((*lab.Lab).Heal), reverted: "cable repaired", silent: true},
	{name: "pause", what: "everything on it freezes", strike: node((*lab.Lab).Pause), revert: reverting((*lab.Lab).Unpause), reverted: "no longer frozen", silent: true},
	{name: "hang", what: "its Docker engine hangs", strike: node((*lab.Lab).HangDocker), revert: reverting((*lab.Lab).ResumeDocker), reverted: "engine resumed"},
	{name: "disk", what: "its disk is full", strike: node((*lab.Lab).FillDisk), revert: reverting((*lab.Lab).FreeDisk), reverted: "disk freed"},
	{name: "etcd", what: "its etcd is killed", strike: node(script(rig.KillEtcd))},
	{name: "container", what: "its container is removed", strike: node(script(rig.RemoveContainer))},
	{name: "data", what: "the data of its member is removed", strike: node(empty), revert: replace, reverted: "ask for a fresh member with ckecli replace", fresh: true},
	{name: "daemon", what: "cke is killed", strike: killDaemon, revert: startDaemon, reverted: "cke started again", daemon: true},
}

// Faults returns the names of all faults.
func Faults() []string {
	var all []string
	for _, f := range faults {
		all = append(all, f.name)
	}
	return all
}

// CheckFaults fails for a name that no fault has.
func CheckFaults(names []string) error {
	for _, name := range names {
		if !slices.Contains(Faults(), name) {
			return fmt.Errorf("no fault %q: there are %s", name, strings.Join(Faults(), ", "))
		}
	}
	return nil
}

func node(do func(*lab.Lab, context.Context, string) error) func(context.Context, *game, string) error {
	return func(ctx context.Context, g *game, node string) error { return do(g.Rig.Lab, ctx, node) }
}

func reverting(do func(*lab.Lab, context.Context, string) error) func(context.Context, *game, string, cke.Status) error {
	return func(ctx context.Context, g *game, node string, _ cke.Status) error { return do(g.Rig.Lab, ctx, node) }
}

func cut(l *lab.Lab, ctx context.Context, node string) error { return l.Cut(ctx, node, lab.Cut{}) }

func empty(l *lab.Lab, ctx context.Context, node string) error { return rig.Empty(ctx, l, node) }

func script(text string) func(*lab.Lab, context.Context, string) error {
	return func(l *lab.Lab, ctx context.Context, node string) error {
		_, err := l.Exec(ctx, node, "sh", "-c", text)
		return err
	}
}

func killDaemon(ctx context.Context, g *game, _ string) error { return g.Daemon.Kill(ctx) }

func startDaemon(_ context.Context, g *game, _ string, _ cke.Status) error { return g.Daemon.Start() }

// replace asks for a fresh member, as an operator does, unless the policy of the cluster file was faster. While cke
// cannot say yet that the data is missing, or does not run, it asks again.
func replace(ctx context.Context, g *game, node string, before cke.Status) error {
	for {
		g.mu.Lock()
		st := g.status
		g.mu.Unlock()
		if joinOf(st, node) != joinOf(before, node) {
			return nil
		}
		res, err := g.Rig.CLI(ctx, "replace", node, "--yes", "--no-wait")
		if err == nil && res.Code == 0 {
			return nil
		}
		if !pass(ctx, retryEvery) {
			return fmt.Errorf("ckecli replace %s: %w: exit code %d: %s", node, ctx.Err(), res.Code, strings.TrimSpace(res.Stderr))
		}
	}
}

// entry is a fault that is to happen.
type entry struct {
	fault       fault
	nodes       []string // none: the daemon
	hold, pause time.Duration
}

// text says what is broken, with the role of the member.
func (e entry) text(st cke.Status) string {
	text := e.fault.name
	for i, n := range e.nodes {
		if i > 0 {
			text += ","
		}
		text += " " + n
		for _, m := range st.Members {
			if m.Name == n && m.Role != "-" {
				text += " (" + m.Role + ")"
			}
		}
	}
	text += ": " + e.fault.what
	if e.fault.remains() {
		text += " for " + term.Took(e.hold)
	}
	return text
}

// on returns " on n1, n2", or nothing.
func on(nodes []string) string {
	if len(nodes) == 0 {
		return ""
	}
	return " on " + strings.Join(nodes, ", ")
}

// dealer deals faults like cards: each of them once before one comes again.
type dealer struct {
	random *rand.Rand
	faults []fault
	beyond bool
	deck   []fault
}

// Bounds of what is dealt.
const (
	leastHold, mostHold   = 4 * time.Second, 12 * time.Second
	leastPause, mostPause = 1 * time.Second, 4 * time.Second
)

func newDealer(o Options) *dealer {
	d := &dealer{random: rand.New(rand.NewPCG(o.Seed, 0)), beyond: o.BeyondQuorum}
	for _, f := range faults {
		if len(o.Faults) == 0 || slices.Contains(o.Faults, f.name) {
			d.faults = append(d.faults, f)
		}
	}
	return d
}

// next deals one fault. The same seed, faults and nodes give the same ones.
func (d *dealer) next(nodes []string) entry {
	if len(d.deck) == 0 {
		d.deck = slices.Clone(d.faults)
		d.random.Shuffle(len(d.deck), func(i, j int) { d.deck[i], d.deck[j] = d.deck[j], d.deck[i] })
	}
	e := entry{fault: d.deck[0], hold: d.between(leastHold, mostHold), pause: d.between(leastPause, mostPause)}
	d.deck = d.deck[1:]
	order, many := d.random.Perm(len(nodes)), d.random.IntN(2) == 1
	count := 1
	switch {
	case e.fault.daemon:
		count = 0
	case d.beyond && e.fault.silent && many:
		count = (len(nodes) + 1) / 2 // the others are no majority
	}
	for _, i := range order[:count] {
		e.nodes = append(e.nodes, nodes[i])
	}
	slices.Sort(e.nodes)
	return e
}

// between draws a time in steps of a tenth of a second.
func (d *dealer) between(least, most time.Duration) time.Duration {
	const step = 100 * time.Millisecond
	return least + step*time.Duration(d.random.IntN(int((most-least)/step)+1))
}
