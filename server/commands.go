package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"cke"
)

// Commands runs what the queues of one cluster need beside the loop, during one term: commands, which may take minutes, and
// observations of which boot of a machine runs.
type Commands struct {
	machines cke.Machines
	runner   CommandRunner
	guard    func() error
	now      func() time.Time
	log      *slog.Logger
	ctx      context.Context
	changed  chan struct{}
	wg       sync.WaitGroup

	mu      sync.Mutex
	seen    map[attempt]*cke.EntrySeen
	watched map[attempt]watched
	running map[attempt]context.CancelCauseFunc
}

// attempt is one attempt of an entry.
type attempt struct {
	entry  string
	number int
}

// watched is a machine that is looked at.
type watched struct {
	end  context.CancelFunc
	look chan struct{} // takes what asks for a look now
}

// CommandRunner runs the commands of the daemon's configuration.
type CommandRunner interface {
	// Names are those of the commands.
	Names() []string
	// Run runs one to its end. Arguments are added to those of the configuration.
	Run(ctx context.Context, run cke.CommandRun, args ...string) (output string, err error)
}

// Pauses between two looks at a machine that reboots: in the first minute, and later. One that does not answer costs little, and is
// looked at more often: it may be back. The end of a command asks for a look, too.
const (
	bootLookDown  = time.Second
	bootLookEvery = 5 * time.Second
	bootLookLater = 15 * time.Second
	// bootLookLimit bounds one look, wipedLimit the image that a machine gets that was wiped.
	bootLookLimit = 30 * time.Second
	wipedLimit    = 10 * time.Minute
	// commandsEnd bounds the end of all this with a term: commands are killed, and a helper on a node is removed.
	commandsEnd = 3 * time.Second
)

var _ cke.Commands = (*Commands)(nil)

// NewCommands returns what queues need until ctx, which is that of the term, ends. guard returns an error once the term is over, also
// in a process that was frozen and wakes: it is asked right before each program starts.
func NewCommands(ctx context.Context, machines cke.Machines, runner CommandRunner, guard func() error, now func() time.Time, log *slog.Logger) *Commands {
	return &Commands{machines: machines, runner: runner, guard: guard, now: now, log: log, ctx: ctx, changed: make(chan struct{}, 1),
		seen: map[attempt]*cke.EntrySeen{}, watched: map[attempt]watched{}, running: map[attempt]context.CancelCauseFunc{}}
}

// errOver is why a command is killed whose attempt is over.
var errOver = errors.New("its node left the queue or the cluster file, or the file no longer says what is done for it")

// Changed receives after a command has ended, or a machine was seen to have rebooted; coalesced.
func (r *Commands) Changed() <-chan struct{} { return r.changed }

// Wait returns once all has ended, after its context has. It reports whether that was within limit.
func (r *Commands) Wait(limit time.Duration) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.wg.Wait()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

func (r *Commands) news() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Seen is what is known of entries under way.
func (r *Commands) Seen() cke.QueuesSeen {
	if r == nil {
		return cke.QueuesSeen{}
	}
	s := cke.QueuesSeen{Commands: r.runner.Names()}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, seen := range r.seen {
		s.Seen = append(s.Seen, *seen)
	}
	return s
}

// of changes what is known of an attempt.
func (r *Commands) of(a attempt, do func(*cke.EntrySeen)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do(r.seenOf(a))
}

// seenOf is what is known of an attempt; the lock is held.
func (r *Commands) seenOf(a attempt) *cke.EntrySeen {
	if r.seen[a] == nil {
		r.seen[a] = &cke.EntrySeen{Entry: a.entry, Attempt: a.number}
	}
	return r.seen[a]
}

// StartCommand implements cke.Commands.
func (r *Commands) StartCommand(ctx context.Context, run cke.CommandRun) error {
	if err := errors.Join(ctx.Err(), r.guard()); err != nil {
		return err
	}
	if !slices.Contains(r.runner.Names(), run.Name) {
		return &cke.Error{Code: cke.CodeConfig, What: fmt.Sprintf("the configuration has no command %s", run.Name), Unchanged: true, Err: cke.ErrNotFound}
	}
	a := attempt{run.Entry, run.Attempt}
	r.mu.Lock()
	defer r.mu.Unlock()
	for other := range r.running {
		if other.entry == a.entry && other != a {
			return fmt.Errorf("the command of attempt %d still runs: %w", other.number, cke.ErrConflict)
		}
	}
	s := r.seenOf(a)
	if s.Running || s.Ended != nil {
		return nil
	}
	s.Running = true
	ctx, end := context.WithCancelCause(r.ctx)
	r.running[a] = end
	r.wg.Go(func() {
		defer end(nil)
		r.run(ctx, a, run)
	})
	return nil
}

// run runs a command to its end. What was killed with the term has no end: the next leader runs it again unless the machine has rebooted.
func (r *Commands) run(ctx context.Context, a attempt, run cke.CommandRun) {
	r.log.Info("command started", "command", run.Name, "node", run.Node.Name(), "attempt", run.Attempt)
	output, err := r.guarded(ctx, run, run.Node.Address)
	end := cke.CommandEnd{At: r.now(), Output: output}
	if err != nil {
		end.Error = fmt.Sprintf("%s: %v", run.Name, err)
	}
	r.log.Info("command ended", "command", run.Name, "node", run.Node.Name(), "attempt", run.Attempt, "error", err, "output", output)
	if r.ctx.Err() != nil || r.guard() != nil {
		return
	}
	r.of(a, func(s *cke.EntrySeen) {
		s.Running, s.Ended = false, &end
		delete(r.running, a)
		if w, is := r.watched[a]; is {
			select {
			case w.look <- struct{}{}:
			default:
			}
		}
	})
	r.news()
}

// guarded runs a program if the term is not over.
func (r *Commands) guarded(ctx context.Context, run cke.CommandRun, args ...string) (output string, err error) {
	if err := r.guard(); err != nil {
		return "", err
	}
	return r.runner.Run(ctx, run, args...)
}

// Update sets what is in the queues, and what is declared. It kills commands whose attempt is over, and never waits.
func (r *Commands) Update(c cke.Cluster, id cke.Identity, asked cke.Requests) {
	if r == nil {
		return
	}
	wanted, acting := map[attempt]bool{}, map[attempt]bool{}
	for _, e := range asked.Queued() {
		n, declared := c.Node(e.Address)
		t, known := c.Turn(e, n)
		again := e.Kind() == cke.RepairQueue && e.State == cke.EntryQueued && e.Tried() // its last attempt may still help
		if !declared || !known || e.Agent != "" || !e.Acting() && !again {
			continue
		}
		a := attempt{e.ID, e.Attempt}
		wanted[a], acting[a] = true, e.Acting()
		image := c.Options.Etcd.Image
		if j, carries := id.On(n); carries {
			image = j.Etcd.Image
		}
		r.watch(a, e, t, n, c.Name, image)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for a, w := range r.watched {
		if !wanted[a] {
			w.end()
			delete(r.watched, a)
		}
	}
	later := func(a attempt) bool { // what was asked for may be a moment old
		e, there := asked.Entry(a.entry)
		return there && e.Attempt < a.number
	}
	for a, end := range r.running {
		if !acting[a] && !later(a) {
			end(errOver)
		}
	}
	for a, s := range r.seen {
		if !wanted[a] && !later(a) && !s.Running {
			delete(r.seen, a)
		}
	}
}

// watch looks at a machine until it is known to be back, and is ready.
func (r *Commands) watch(a attempt, e cke.Entry, t cke.Turn, n cke.Node, cluster, image string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, is := r.watched[a]; is || r.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.ctx)
	w := watched{cancel, make(chan struct{}, 1)}
	r.watched[a] = w
	check := cke.CommandRun{Name: t.Check, Entry: e.ID, Attempt: e.Attempt, Cluster: cluster, Node: n, On: e.On, Limit: time.Duration(t.CommandTimeout)}
	r.wg.Go(func() {
		for began := r.now(); ctx.Err() == nil; {
			answers := r.look(ctx, a, e, n, image)
			if check.Name != "" {
				r.check(ctx, a, e, t, check)
			}
			pause := bootLookEvery
			switch late := r.now().Sub(began) > time.Minute; {
			case !answers && !late:
				pause = bootLookDown
			case answers && late:
				pause = bootLookLater
			}
			select {
			case <-ctx.Done():
			case <-w.look:
			case <-time.After(pause):
			}
		}
	})
}

// look reads which boot of a machine runs. It reports whether the machine answers.
func (r *Commands) look(ctx context.Context, a attempt, e cke.Entry, n cke.Node, image string) bool {
	limited, cancel := context.WithTimeout(ctx, bootLookLimit)
	m := r.machines.Machine(n)
	boot, err := m.Boot(limited, image)
	cancel()
	if cke.CodeOf(err) == cke.CodeImage { // the machine was wiped
		limited, cancel := context.WithTimeout(ctx, wipedLimit)
		if err = m.EnsureImage(limited, image, nil); err == nil {
			boot, err = m.Boot(limited, image)
		}
		cancel()
	}
	if ctx.Err() != nil {
		return true
	}
	rebooted := false
	r.of(a, func(s *cke.EntrySeen) {
		if s.BootError = ""; err != nil {
			s.BootError = err.Error()
			return
		}
		rebooted = boot != e.Boot && s.Boot != boot
		s.Checked = s.Checked && s.Boot == boot // it is not of this boot
		s.Boot, s.BootAt = boot, r.now()
	})
	if rebooted {
		r.news()
	}
	return err == nil
}

// check asks whether a machine is ready that has rebooted, or whose command has ended.
func (r *Commands) check(ctx context.Context, a attempt, e cke.Entry, t cke.Turn, run cke.CommandRun) {
	var boot cke.Boot
	due := false
	r.of(a, func(s *cke.EntrySeen) {
		over := s.Boot != e.Boot
		if !t.Boots {
			over = s.Ended != nil || !e.CommandEndedAt.IsZero()
		}
		boot = s.Boot
		due = over && boot.Known() && !s.Running && !s.Checked && s.BootError == ""
	})
	if !due {
		return
	}
	output, err := r.guarded(ctx, run, run.Node.Address, fmt.Sprint(e.StartedAt.Unix()))
	why := ""
	switch said := strings.TrimSpace(output); {
	case err != nil:
		why = err.Error()
	case said != "true":
		why = fmt.Sprintf("it wrote %.100q, want true", said)
	}
	r.of(a, func(s *cke.EntrySeen) { s.Checked, s.CheckError = why == "" && s.Boot == boot, why })
	if why == "" {
		r.news()
	}
}
