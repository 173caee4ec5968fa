package op_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/op"
	"cke/sim"
)

// world is a simulated world with a daemon whose operations are run by hand.
type world struct {
	*sim.World
	t      *testing.T
	daemon *sim.Daemon
	trace  []string
	// unheard is the URL of a member that takes no order to move its leadership; empty: all take it.
	unheard string
}

// stubborn is an etcd with a member that takes no order to move its leadership.
type stubborn struct {
	cke.Etcd
	w *world
}

// MoveLeader implements cke.Etcd.
func (s stubborn) MoveLeader(ctx context.Context, url, member string) error {
	if url == s.w.unheard {
		return errors.New("tls: bad certificate")
	}
	return s.Etcd.MoveLeader(ctx, url, member)
}

// inWorld runs a test in virtual time, in a world of n declared nodes.
func inWorld(t *testing.T, n int, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: sim.New("demo", time.Now), t: t}
		w.OnTrace(func(format string, args ...any) { w.trace = append(w.trace, fmt.Sprintf(format, args...)) })
		for i := 1; i <= n; i++ {
			w.AddNode(fmt.Sprintf("n%d", i), fmt.Sprintf("10.0.0.%d", i))
		}
		w.Store().SetSpec(w.cluster())
		w.daemon = w.NewDaemon()
		f(w)
	})
}

func (w *world) cluster() cke.Cluster {
	c := cke.Cluster{Name: "demo", Reboot: cke.RebootOptions{Command: sim.RebootCommand}}
	for _, n := range w.Nodes() {
		c.Nodes = append(c.Nodes, n.Declared())
	}
	return c.WithDefaults()
}

func (w *world) bootstrap(resume bool) op.Bootstrap {
	c := w.cluster()
	return op.Bootstrap{Spec: c, Founders: c.ControlPlane(), Resume: resume}
}

// run runs an operation in the daemon's name.
func (w *world) run(o op.Operation) (cke.Record, error) {
	return w.runIn(func(e op.Env) op.Env { return e }, o)
}

// runIn runs an operation with what it works with changed.
func (w *world) runIn(change func(op.Env) op.Env, o op.Operation) (cke.Record, error) {
	e := op.Env{
		Cluster: "demo", Machines: w.daemon.Machines(), Etcd: stubborn{w.daemon.Etcd(), w}, Authority: w.daemon.Authority(), Ledger: w.daemon.Term(),
		Commands: w.daemon.Commands(), Now: time.Now, Pause: pause, Log: slog.New(slog.DiscardHandler),
	}
	return op.Run(w.daemon.Context(), change(e), w.daemon.Term(), cke.Record{Reason: "a test"}, o)
}

func (w *world) mustRun(o op.Operation) cke.Record {
	w.t.Helper()
	r, err := w.run(o)
	if err != nil {
		w.t.Fatalf("%s: %v", o.Name(), err)
	}
	return r
}

// runUntil runs an operation and kills the daemon once a step of this name has begun; then a new daemon leads.
func (w *world) runUntil(o op.Operation, step string) {
	w.t.Helper()
	if _, err := w.run(cut{o, step, func() { w.daemon.Kill() }}); err == nil {
		w.t.Fatalf("%s has no step %s", o.Name(), step)
	}
	w.daemon = w.NewDaemon()
}

// cut is an operation that is cut off when a step of this name begins.
type cut struct {
	op.Operation
	step string
	do   func()
}

// Stages implements op.Operation.
func (c cut) Stages() []op.Stage {
	return op.Around(c.Operation.Stages(), func(_ int, s op.Step) op.Step {
		run := s.Run
		s.Run = func(ctx context.Context, e op.Env) error {
			if s.Name == c.step {
				c.do()
			}
			return run(ctx, e)
		}
		return s
	})
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// joins returns the stored joins by node.
func (w *world) joins() []cke.Join { return w.Store().Identity().Joins }

// states returns the state of every container, by node.
func (w *world) states() string {
	var all []string
	for _, n := range w.Nodes() {
		containers, volumes := n.Look()
		for _, c := range containers {
			all = append(all, fmt.Sprintf("%s %s", n.Name(), c.State))
		}
		if len(containers) == 0 && len(volumes) > 0 {
			all = append(all, n.Name()+" volume")
		}
	}
	return strings.Join(all, ", ")
}

// happened returns the index of the first thing that happened in the world with this text in it.
func (w *world) happened(text string) int {
	i := slices.IndexFunc(w.trace, func(s string) bool { return strings.Contains(s, text) })
	if i < 0 {
		w.t.Fatalf("%q did not happen:\n%s", text, strings.Join(w.trace, "\n"))
	}
	return i
}

// calls is how often something with this text in it happened.
func (w *world) calls(text string) (n int) {
	for _, s := range w.trace {
		if strings.Contains(s, text) {
			n++
		}
	}
	return n
}

func (w *world) last(text string) int {
	last := -1
	for i, s := range w.trace {
		if strings.Contains(s, text) {
			last = i
		}
	}
	return last
}

func steps(r cke.Record) string {
	var all []string
	for _, s := range r.Steps {
		all = append(all, strings.TrimSpace(s.Name+" "+s.Node))
	}
	return strings.Join(all, ", ")
}
