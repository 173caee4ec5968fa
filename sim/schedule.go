package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cke"
)

// Call is one call of a daemon through a port.
type Call struct {
	Daemon int
	Actor  string // who in the daemon makes it; two calls under way at once differ in it
	Port   string // node, etcd, store, ca, look
	Node   string
	Name   string
	Writes bool

	of *binding
	// starts: it is the first request of a method that changes something.
	begins bool
}

func (c Call) String() string {
	s := fmt.Sprintf("daemon %d: %s.%s", c.Daemon, c.Port, c.Name)
	if c.Node != "" {
		s += " on " + c.Node
	}
	return s
}

// Verdict is what happens to a call.
type Verdict int

// Verdicts.
const (
	Proceed     Verdict = iota
	Refuse              // it fails, and nothing happens
	LoseAnswer          // it happens, and the caller gets an error
	KillBefore          // the daemon dies before it happens
	KillHalfway         // the daemon dies after the first half of it
	KillAfter           // the daemon dies after it happened, before the answer
	KillLate            // the daemon dies; it, and what else it had on its way, happens when Land is called
	Linger              // the caller gets an error, and it happens when Land is called
	Freeze              // the daemon is frozen with the call on its way
)

func (v Verdict) String() string {
	return [...]string{"proceed", "refuse", "lose-answer", "kill-before", "kill-halfway", "kill-after", "kill-late", "linger", "freeze"}[v]
}

// errLost is the answer to a call whose outcome is unknown.
var errLost = fmt.Errorf("connection lost: %w", cke.ErrUnreachable)

// Scheduler lets one call through at a time, and only when no daemon can continue without one. So the order of calls, and with
// it everything that happens, follows from Pick and Judge alone.
type Scheduler struct {
	// Settle returns once every daemon waits for an answer, a time or nothing; synctest.Wait does that.
	Settle func()
	// Pick chooses one of n calls on their way, which are sorted by daemon and actor; nil: the first.
	Pick func(n int) int
	// Judge returns the verdict on the nth call; n counts from 1. It may change the world. nil: all proceed.
	Judge func(n int, c Call) Verdict

	world   *World
	waiting []*turn
	late    []*turn
	arrived chan struct{}
	calls   int
}

// Schedule gives the world a scheduler; before any daemon starts.
func (w *World) Schedule(s *Scheduler) *Scheduler {
	s.world, s.arrived = w, make(chan struct{}, 1)
	w.sched = s
	return s
}

// Unschedule lets calls through at once again.
func (w *World) Unschedule() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sched = nil
}

// Calls is how many calls were let through.
func (s *Scheduler) Calls() int { return s.calls }

// enter puts a call on its way. The world's lock is held.
func (s *Scheduler) enter(t *turn) {
	s.waiting = append(s.waiting, t)
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// forget drops what a dead daemon had on its way.
func (s *Scheduler) forget(d *Daemon) {
	s.waiting = slices.DeleteFunc(s.waiting, func(t *turn) bool {
		if t.daemon == d {
			t.err = errDead
			close(t.done)
		}
		return t.daemon == d
	})
}

// Run lets calls through until stop says so, which is asked before each call and at least once a minute of the
// world's time.
func (s *Scheduler) Run(stop func() bool) {
	for {
		s.Settle()
		if stop() {
			return
		}
		if t := s.next(); t != nil {
			s.let(t)
			continue
		}
		idle := time.NewTimer(time.Minute)
		select {
		case <-s.arrived:
		case <-idle.C:
		}
		idle.Stop()
	}
}

// next takes a call of a daemon that is awake off the waiting ones.
func (s *Scheduler) next() *turn {
	w := s.world
	w.mu.Lock()
	defer w.mu.Unlock()
	var ready []*turn
	for _, t := range s.waiting {
		if !t.daemon.frozen {
			ready = append(ready, t)
		}
	}
	if ready == nil {
		return nil
	}
	slices.SortStableFunc(ready, func(a, b *turn) int {
		return cmp.Or(cmp.Compare(a.call.Daemon, b.call.Daemon), cmp.Compare(a.call.Actor, b.call.Actor))
	})
	t := ready[0]
	if s.Pick != nil && len(ready) > 1 {
		t = ready[s.Pick(len(ready))]
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(o *turn) bool { return o == t })
	return t
}

// let judges one call.
func (s *Scheduler) let(t *turn) {
	s.calls++
	verdict := Proceed
	if s.Judge != nil {
		verdict = s.Judge(s.calls, t.call)
	}
	w := s.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.daemon.dead { // killed by the judge
		t.err = errDead
		close(t.done)
		return
	}
	switch verdict {
	case Refuse:
		t.err = errLost
	case KillBefore:
		t.err = errDead
	case Linger:
		t.err = errLost
		s.late = append(s.late, t.again())
	case KillLate:
		t.err = errDead
		s.late = append(s.late, t.again())
		for _, o := range s.waiting {
			if o.daemon == t.daemon {
				s.late = append(s.late, o.again())
			}
		}
	case Freeze:
		w.log("%s is under way", t.call)
		s.waiting = append(s.waiting, t)
		t.daemon.freeze()
		return
	default:
		t.land(w, verdict == KillHalfway)
	}
	switch {
	case w.tell == nil:
	case verdict == Proceed:
		w.log("%s%s", t.call, outcome(t))
	default:
		w.log("%s: %s%s", t.call, verdict, outcome(t))
	}
	switch verdict {
	case LoseAnswer:
		t.err, t.hangs = errLost, false
	case KillBefore, KillLate, KillHalfway, KillAfter:
		t.err, t.hangs = errDead, false
		t.daemon.kill()
	}
	close(t.done)
}

// again is the same call, whose answer nobody waits for.
func (t *turn) again() *turn {
	o := *t
	o.err, o.late = nil, true
	return &o
}

func outcome(t *turn) string {
	switch {
	case t.hangs:
		return ": hangs"
	case t.err != nil:
		return ": " + t.err.Error()
	}
	return ""
}

// Land lets calls whose callers no longer wait have their effect now. It returns how many there were.
func (s *Scheduler) Land() int {
	w := s.world
	w.mu.Lock()
	defer w.mu.Unlock()
	late := s.late
	s.late = nil
	for _, t := range late {
		t.land(w, false)
		w.mark(LandedLate)
		w.log("%s lands late%s", t.call, outcome(t))
	}
	return len(late)
}

// End kills every daemon and waits until none of their goroutines runs any more.
func (s *Scheduler) End() {
	for _, d := range slices.Clone(s.world.daemons) {
		d.Kill()
	}
	s.Settle()
}
