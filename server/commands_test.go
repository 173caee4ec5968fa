package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/server"
)

// rack are machines that reboot, and the commands that let them.
type rack struct {
	cke.Machines
	mu    sync.Mutex
	boots map[string]cke.Boot // by address
	// lacks are machines without an image, dead those that do not answer.
	lacks, dead map[string]bool
	// ran are the commands in their order, with their arguments. says is what the check writes; hangs: a command does not end.
	ran   []string
	says  string
	fails error
	hangs bool
	// over: the term is, and its context does not know yet.
	over error
}

type racked struct {
	cke.Machine
	*rack
	node cke.Node
}

func (r *rack) Machine(n cke.Node) cke.Machine { return racked{nil, r, n} }

func (m racked) Boot(_ context.Context, image string) (cke.Boot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.dead[m.node.Address]:
		return cke.Boot{}, &cke.Error{Code: cke.CodeUnreachable, What: "no answer"}
	case m.lacks[m.node.Address]:
		return cke.Boot{}, &cke.Error{Code: cke.CodeImage, What: "no image " + image}
	}
	return m.boots[m.node.Address], nil
}

func (m racked) EnsureImage(context.Context, string, func(string)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.lacks, m.node.Address)
	return nil
}

func (r *rack) Names() []string { return []string{"power-cycle", "ready"} }

func (r *rack) Run(ctx context.Context, run cke.CommandRun, args ...string) (string, error) {
	r.mu.Lock()
	r.ran = append(r.ran, fmt.Sprint(run.Name, args, run.Environment()[1:3]))
	hangs, says, fails := r.hangs, r.says, r.fails
	r.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	if run.Name == "ready" {
		return says, nil
	}
	time.Sleep(time.Second)
	return "asked\n", fails
}

// check is the guard of the term.
func (r *rack) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

func (r *rack) set(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

// rebootedCluster has two nodes, both being rebooted.
func rebootedCluster() (cke.Cluster, cke.Queue) {
	c := cke.Cluster{Name: "one", Nodes: []cke.Node{{Address: "10.0.0.1", Hostname: "n1"}, {Address: "10.0.0.2", Hostname: "n2"}}, Reboot: cke.RebootOptions{Command: "power-cycle", Check: "ready"}}
	c = c.WithDefaults()
	var q cke.Queue
	for _, n := range c.Nodes {
		q.Entries = append(q.Entries, cke.Entry{ID: "r" + n.Hostname, Node: n.Hostname, Address: n.Address, State: cke.EntryRebooting, Attempt: 1, StartedAt: time.Unix(1000, 0), Boot: cke.Boot{Kernel: "k", Init: "1"}})
	}
	return c, q
}

func playReboots(t *testing.T, scene func(r *rack, b *server.Commands, run func(i int) error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &rack{boots: map[string]cke.Boot{"10.0.0.1": {Kernel: "k", Init: "1"}, "10.0.0.2": {Kernel: "k", Init: "1"}}, lacks: map[string]bool{}, dead: map[string]bool{}}
		b := server.NewCommands(ctx, r, r, r.check, time.Now, slog.New(slog.DiscardHandler))
		defer func() {
			cancel()
			b.Wait(time.Minute)
		}()
		c, q := rebootedCluster()
		scene(r, b, func(i int) error {
			return b.StartCommand(ctx, cke.CommandRun{Name: c.Reboot.Command, Entry: q.Entries[i].ID, Attempt: 1, Cluster: c.Name, Node: c.Nodes[i], Limit: time.Minute})
		})
	})
}

// Commands run beside each other, each once for an attempt, and with its own node.
func TestReboots_EachCommandRunsOnceWithItsOwnNode(t *testing.T) {
	playReboots(t, func(r *rack, b *server.Commands, run func(int) error) {
		_, q := rebootedCluster()
		r.fails = errors.New("exit status 3")
		for range 3 {
			for i := range 2 {
				if err := run(i); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait()
		if s := b.Seen(); !s.Of(q.Entries[0]).Running || !s.Of(q.Entries[1]).Running || !slices.Equal(s.Commands, r.Names()) {
			t.Errorf("%+v", s)
		}
		<-b.Changed()
		synctest.Wait()
		for _, e := range q.Entries {
			if s := b.Seen().Of(e); s.Running || s.Ended == nil || s.Ended.Error != "power-cycle: exit status 3" || s.Ended.Output != "asked\n" {
				t.Errorf("%+v", s)
			}
		}
		if err := run(0); err != nil {
			t.Error(err)
		}
		slices.Sort(r.ran)
		if want := []string{"power-cycle[10.0.0.1] [CKE_NODE=n1 CKE_ADDRESS=10.0.0.1]", "power-cycle[10.0.0.2] [CKE_NODE=n2 CKE_ADDRESS=10.0.0.2]"}; !slices.Equal(r.ran, want) {
			t.Errorf("%q", r.ran)
		}
		if err := b.StartCommand(t.Context(), cke.CommandRun{Name: "shutdown"}); !errors.Is(err, cke.ErrNotFound) {
			t.Error(err)
		}
	})
}

// A command is killed with the term, and nobody takes its end for known.
func TestReboots_ACommandEndsWithTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &rack{hangs: true}
		b := server.NewCommands(ctx, r, r, r.check, time.Now, slog.New(slog.DiscardHandler))
		c, q := rebootedCluster()
		run := cke.CommandRun{Name: "power-cycle", Entry: q.Entries[0].ID, Attempt: 1, Node: c.Nodes[0]}
		if err := b.StartCommand(ctx, run); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		b.Wait(time.Minute)
		if s := b.Seen().Of(q.Entries[0]); s.Ended != nil {
			t.Errorf("%+v", s)
		}
		if err := b.StartCommand(ctx, run); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A machine that reboots is looked at until it shows another boot, and then checked.
func TestReboots_LooksWhichBootRuns(t *testing.T) {
	playReboots(t, func(r *rack, b *server.Commands, _ func(int) error) {
		c, q := rebootedCluster()
		r.says = "no\n"
		b.Update(c, cke.Identity{}, cke.Requests{Reboots: q})
		synctest.Wait()
		if s := b.Seen().Of(q.Entries[0]); s.Boot != q.Entries[0].Boot || s.Checked || len(r.ran) > 0 {
			t.Errorf("%+v, %q", s, r.ran)
		}
		r.set(func() { r.dead["10.0.0.1"] = true })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s := b.Seen().Of(q.Entries[0]); s.BootError != "no answer" {
			t.Errorf("%+v", s)
		}
		r.set(func() { // it is back, wiped
			r.dead["10.0.0.1"], r.lacks["10.0.0.1"], r.boots["10.0.0.1"] = false, true, cke.Boot{Kernel: "k", Init: "2"}
		})
		<-b.Changed()
		time.Sleep(time.Second)
		synctest.Wait()
		if s := b.Seen().Of(q.Entries[0]); s.Boot.Init != "2" || s.Checked || s.CheckError != `it wrote "no", want true` || s.BootError != "" {
			t.Errorf("%+v", s)
		}
		if want := "ready[10.0.0.1 1000] [CKE_NODE=n1 CKE_ADDRESS=10.0.0.1]"; len(r.ran) == 0 || r.ran[0] != want {
			t.Errorf("%q", r.ran)
		}
		r.set(func() { r.says = "true\n" })
		<-b.Changed()
		if s := b.Seen().Of(q.Entries[0]); !s.Checked {
			t.Errorf("%+v", s)
		}
		b.Update(c, cke.Identity{}, cke.Requests{})
		if s := b.Seen(); len(s.Seen) > 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A daemon that was frozen while another one was elected starts nothing as it wakes: neither a command nor a check.
func TestReboots_TheFenceKeepsCommandsFromStarting(t *testing.T) {
	playReboots(t, func(r *rack, b *server.Commands, run func(int) error) {
		c, q := rebootedCluster()
		r.says = "true\n"
		r.set(func() { r.over = cke.ErrDeposed })
		if err := run(0); !errors.Is(err, cke.ErrDeposed) {
			t.Error(err)
		}
		r.set(func() { r.over, r.boots["10.0.0.2"] = nil, cke.Boot{Kernel: "k", Init: "2"} })
		if err := run(0); err != nil {
			t.Error(err)
		}
		r.set(func() { r.over = cke.ErrDeposed }) // it was frozen right after the start was allowed
		b.Update(c, cke.Identity{}, cke.Requests{Reboots: q})
		synctest.Wait()
		if s := b.Seen().Of(q.Entries[0]); len(r.ran) > 0 || s.Ended != nil || b.Seen().Of(q.Entries[1]).Checked {
			t.Errorf("%q, %+v", r.ran, s)
		}
	})
}

// A command is killed once nothing asks for its attempt any more, and an entry that is only not seen yet keeps it.
func TestReboots_ACommandEndsWithItsAttempt(t *testing.T) {
	for name, over := range map[string]func(c *cke.Cluster, e *cke.Entry, q *cke.Queue){
		"its entry left":            func(_ *cke.Cluster, _ *cke.Entry, q *cke.Queue) { q.Entries = q.Entries[1:] },
		"its entry waits again":     func(_ *cke.Cluster, e *cke.Entry, _ *cke.Queue) { e.State = cke.EntryQueued },
		"its entry is returning":    func(_ *cke.Cluster, e *cke.Entry, _ *cke.Queue) { e.State = cke.EntryReturning },
		"the next attempt is made":  func(_ *cke.Cluster, e *cke.Entry, _ *cke.Queue) { e.Attempt = 2 },
		"its node left":             func(c *cke.Cluster, _ *cke.Entry, _ *cke.Queue) { c.Nodes = c.Nodes[1:] },
		"the file names no command": func(c *cke.Cluster, _ *cke.Entry, _ *cke.Queue) { c.Reboot = cke.RebootOptions{} },
	} {
		t.Run(name, func(t *testing.T) {
			playReboots(t, func(r *rack, b *server.Commands, run func(int) error) {
				c, q := rebootedCluster()
				r.hangs = true
				of := q.Entries[0]
				if err := run(0); err != nil {
					t.Fatal(err)
				}
				stale := cke.Queue{Entries: slices.Clone(q.Entries)}
				stale.Entries[0].State, stale.Entries[0].Attempt = cke.EntryLeased, 0
				for _, asked := range []cke.Queue{stale, q} {
					b.Update(c, cke.Identity{}, cke.Requests{Reboots: asked})
					synctest.Wait()
					if !b.Seen().Of(of).Running {
						t.Fatalf("%+v", b.Seen().Of(of))
					}
				}
				over(&c, &q.Entries[0], &q)
				b.Update(c, cke.Identity{}, cke.Requests{Reboots: q})
				synctest.Wait()
				if s := b.Seen().Of(of); s.Running || s.Ended == nil || s.Ended.Error == "" {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// While a command runs no other attempt of its entry starts one.
func TestReboots_OneCommandAtATime(t *testing.T) {
	playReboots(t, func(r *rack, b *server.Commands, run func(int) error) {
		c, q := rebootedCluster()
		r.hangs = true
		if err := run(0); err != nil {
			t.Fatal(err)
		}
		err := b.StartCommand(t.Context(), cke.CommandRun{Name: "power-cycle", Entry: q.Entries[0].ID, Attempt: 2, Node: c.Nodes[0]})
		if !errors.Is(err, cke.ErrConflict) {
			t.Error(err)
		}
	})
}

// An entry fails and is retried before the daemon has seen that it failed: its command is run, whatever is known of the attempt before.
func TestReboots_ARetryRunsTheCommandAgain(t *testing.T) {
	playReboots(t, func(r *rack, b *server.Commands, run func(int) error) {
		c, q := rebootedCluster()
		b.Update(c, cke.Identity{}, cke.Requests{Reboots: q})
		r.set(func() { r.fails = errors.New("no power") })
		if err := run(0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		q.Entries[0].To(cke.EntryFailed, time.Now())
		q, err := q.Retry([]string{"n1"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		b.Update(c, cke.Identity{}, cke.Requests{Reboots: q})
		again := q.Entries[0].Attempt + 1
		if err := b.StartCommand(t.Context(), cke.CommandRun{Name: "power-cycle", Entry: q.Entries[0].ID, Attempt: again, Cluster: c.Name, Node: c.Nodes[0], Limit: time.Minute}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		r.set(func() {
			if len(r.ran) != 2 {
				t.Error(r.ran)
			}
		})
	})
}

// What the check said is of one boot: a machine that reboots once more is checked again.
func TestReboots_TheCheckIsOfOneBoot(t *testing.T) {
	playReboots(t, func(r *rack, b *server.Commands, _ func(int) error) {
		c, q := rebootedCluster()
		r.says = "true\n"
		r.set(func() { r.boots["10.0.0.1"] = cke.Boot{Kernel: "k", Init: "2"} })
		b.Update(c, cke.Identity{}, cke.Requests{Reboots: q})
		synctest.Wait()
		if s := b.Seen().Of(q.Entries[0]); !s.Checked {
			t.Errorf("%+v", s)
		}
		r.set(func() { r.says, r.boots["10.0.0.1"] = "no\n", cke.Boot{Kernel: "k", Init: "3"} })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s := b.Seen().Of(q.Entries[0]); s.Checked || s.Boot.Init != "3" {
			t.Errorf("%+v", s)
		}
	})
}
