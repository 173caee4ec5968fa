package sim_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server"
	"cke/sim"
)

// A restore that calls n2 and n3 destroyed is replaced by another one that does so, too. They are seen then, which goes on the record of the second
// one, and are cut off from cke. The second one is canceled: the first one continues, and starts no member beside those that were seen.
func TestDestroyed_WhatASecondRestoreSawCountsForTheFirst(t *testing.T) {
	for kind, o := range destroyedOrders {
		t.Run(kind, func(t *testing.T) { secondRestoreSaw(t, o) })
	}
}

func secondRestoreSaw(t *testing.T, o cke.RestoreOrder) {
	play(t, 3, func(s *stage) {
		down := calledDestroyed(t, s, asItIs)
		s.Node("n1").FillDisk()
		s.order(o)
		s.until(10*time.Minute, func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
		first := s.Store().Identity().Incarnation.ID
		s.order(destroyedOrders["restore"])
		s.until(10*time.Minute, func() bool { return s.Store().Identity().Incarnation.ID != first })
		second := s.Store().Identity().Incarnation
		if second.State != cke.Restoring || second.ID == first {
			t.Fatalf("no second restore: %v", s.World)
		}
		for _, n := range down {
			n.PowerOn()
		}
		s.pass(2 * time.Minute)
		if !s.Write("n2", "late") {
			t.Fatal("they do not serve")
		}
		for _, n := range down {
			s.Cut(sim.Management, n.Name())
		}
		s.pass(time.Minute)
		s.ask(cke.TaskCancelRestore, "", "", "")
		s.pass(5 * time.Minute)
		s.Node("n1").FreeDisk()
		s.pass(30 * time.Minute)
		late := s.Write("n2", "later")
		if s.restored() && late {
			t.Error("restored beside members that were seen")
		}
		s.unbroken(t)
	})
}

// unclosing is a term whose earlier records cannot be closed, as while one of them cannot be decoded.
type unclosing struct {
	*sim.Term
	unread *atomic.Bool
}

// unknowing is a term whose stored status cannot be read.
type unknowing struct {
	*sim.Term
	unread *atomic.Bool
}

func (u unknowing) Status(ctx context.Context) (cke.Status, error) {
	if u.unread.Load() {
		return cke.Status{}, errors.New("the store does not answer")
	}
	return u.Term.Status(ctx)
}

// waitings are what keeps an order waiting in the loop of a daemon.
var waitings = map[string]func(*sim.Term, *atomic.Bool) server.Term{
	"a record cannot be decoded":       func(t *sim.Term, b *atomic.Bool) server.Term { return unclosing{t, b} },
	"the stored status cannot be read": func(t *sim.Term, b *atomic.Bool) server.Term { return unknowing{t, b} },
}

func (u unclosing) InterruptRunning(ctx context.Context) error {
	if u.unread.Load() {
		return &cke.Error{Code: cke.CodeRecord, What: "record 7 cannot be decoded", Facts: []string{"task x"}, Try: "ckecli task cancel x"}
	}
	return u.Term.InterruptRunning(ctx)
}

// unclosed starts a daemon with the real loop, for which unread says whether the records of earlier leaders cannot be closed.
func (s *stage) unclosed(term func(*sim.Term, *atomic.Bool) server.Term, unread *atomic.Bool) *sim.Daemon {
	d := s.NewDaemon()
	l := &server.Loop{
		Term: term(d.Term(), unread), Observer: d.Observer(), Backups: d.Backups(), Probe: probe, Now: d.Now, Log: slog.New(slog.DiscardHandler),
		Env: op.Env{
			Cluster: clusterName, Machines: d.Machines(), Etcd: d.Etcd(), Authority: d.Authority(), Ledger: d.Term(), Backups: d.Backups(), Snapshots: d.Snapshots(),
			Now: d.Now, Pause: sleep, Log: slog.New(slog.DiscardHandler),
		},
	}
	s.wg.Go(func() { _ = l.Run(d.Context()) })
	return d
}

// An order waits because a record cannot be decoded (CKE117). Nodes that it calls destroyed are back meanwhile, and their members serve; then cke loses
// sight of them. Another daemon leads then. Once the operator has decided about the record, the order is refused: nothing is restored
// beside them.
func TestDestroyed_WhatIsSeenWhileAnOrderWaitsForRecordsCounts(t *testing.T) {
	for why, term := range waitings {
		for name, o := range destroyedOrders {
			t.Run(why+", "+name, func(t *testing.T) {
				play(t, 3, func(s *stage) {
					var unread atomic.Bool
					s.unclosed(term, &unread)
					ready := func() bool { return s.Store().Status().Health == cke.HealthReady }
					if !s.until(convergence, ready) || !s.Write("n1", "kept") {
						t.Fatal("no cluster")
					}
					s.TakeBackup()
					down := s.Nodes()[1:3]
					for _, n := range down {
						n.PowerOff()
					}
					s.pass(time.Minute)
					for _, d := range s.Daemons() { // another daemon leads, and cannot decode a record
						d.Kill()
					}
					unread.Store(true)
					s.unclosed(term, &unread)
					s.pass(time.Minute)
					if why == "the stored status cannot be read" {
						s.Store().Ask("pause", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "an observation"} })
						s.pass(time.Minute)
					}
					s.order(o)
					s.pass(time.Minute)
					for _, n := range down {
						n.PowerOn()
					}
					s.pass(5 * time.Minute)
					if !s.Write("n2", "late") {
						t.Fatal("they do not serve")
					}
					for _, n := range down {
						s.Cut(sim.Management, n.Name())
						s.Cut("n1", n.Name())
					}
					s.pass(2 * time.Minute)
					for _, d := range s.Daemons() { // so does another daemon that leads then
						d.Kill()
					}
					s.unclosed(term, &unread)
					s.pass(time.Minute)
					unread.Store(false)
					s.pass(time.Minute)
					s.Store().Ask("resume", func(r *cke.Requests) { r.Hold = nil })
					s.pass(20 * time.Minute)
					refused := slices.ContainsFunc(s.Store().Records(), func(r cke.Record) bool { return r.Operation == "restore" && r.Code == cke.CodeFence })
					if !refused || s.Store().Identity().Incarnation.State != cke.Formed || s.Store().Identity().Incarnation.Restore != nil || !s.Write("n2", "later") {
						t.Errorf("refused %v; %v", refused, s.Store().Status().Reason)
					}
					s.unbroken(t)
				})
			})
		}
	}
}

// A deletion waits for n1, and calls n2 and n3 destroyed. They are back for a while, serve, and are cut off from cke. Once n1 is back, the deletion
// waits, also with another daemon: declared again, the cluster would serve twice. Once they are off and named again, it completes.
func TestDelete_WaitsForWhatWasSeenMeanwhile(t *testing.T) {
	play(t, 6, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		if !s.until(convergence, s.settled) || !s.Write("n1", "kept") {
			t.Fatal("no cluster")
		}
		down := s.Nodes()[1:3]
		for _, n := range s.Nodes()[:3] {
			n.PowerOff()
		}
		s.pass(time.Minute)
		s.destroy("n2", "n3")
		s.Store().RequestDelete()
		s.pass(time.Minute)
		for _, n := range down {
			n.PowerOn()
		}
		s.pass(5 * time.Minute)
		if !s.Write("n2", "late") {
			t.Fatal("they do not serve")
		}
		for _, n := range down {
			s.Cut(sim.Management, n.Name())
			s.Cut("n1", n.Name())
		}
		s.pass(time.Minute)
		s.Node("n1").PowerOn()
		s.pass(10 * time.Minute)
		s.daemon()
		s.pass(10 * time.Minute)
		if s.Store().Deleted() {
			t.Errorf("deleted while members serve that were seen: a client writes: %v", s.Write("n2", "later"))
		}
		for _, n := range down {
			n.PowerOff()
		}
		s.pass(time.Minute)
		s.destroy("n2", "n3")
		if !s.until(10*time.Minute, s.Store().Deleted) {
			t.Errorf("named again, and not deleted: %s", s.told().Reason)
		}
		s.unbroken(t)
	})
}
