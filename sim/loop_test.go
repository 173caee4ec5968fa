package sim_test

import (
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server"
	"cke/sim"
)

var (
	_ server.Term     = (*sim.Term)(nil)
	_ server.Observer = (*sim.Observer)(nil)
	_ server.Backups  = sim.Backups{}
)

// loop starts a daemon with the real loop. It looks while operations run, so that the order of its calls follows from
// no seed.
func (s *stage) loop() *sim.Daemon {
	d := s.NewDaemon()
	l := &server.Loop{
		Term: d.Term(), Observer: d.Observer(), Backups: d.Backups(), Probe: probe, Now: d.Now, Log: slog.New(slog.DiscardHandler),
		Env: op.Env{
			Cluster: clusterName, Machines: d.Machines(), Etcd: d.Etcd(), Authority: d.Authority(), Ledger: d.Term(), Backups: d.Backups(), Snapshots: d.Snapshots(),
			Now: d.Now, Pause: sleep, Log: slog.New(slog.DiscardHandler),
		},
	}
	s.wg.Go(func() { _ = l.Run(d.Context()) })
	return d
}

// TestLoop_KeepsItsPromisesInRandomSchedules plays the schedules that take no data away with the real loop, and expects
// the cluster to be told as ready.
func TestLoop_KeepsItsPromisesInRandomSchedules(t *testing.T) {
	t.Parallel()
	for seed := range some(2000) {
		var faults []string
		play(t, 1+seed%5, func(s *stage) {
			r := rand.New(rand.NewPCG(uint64(seed), 3))
			n := &nemesis{Rand: r, s: s, rate: []float64{0.01, 0.05, 0.2}[r.IntN(3)], keepsData: true}
			n.choose(disasters) // nobody stands by who would undo what people do
			n.edit()
			s.Pick, s.Judge = r.IntN, n.judge
			d := s.loop()
			n.elect = func() { d = s.loop() }
			succeed := func() {
				if d.Dead() || d.Frozen() {
					d = s.loop()
				}
			}
			last := 50 + r.IntN(1000)
			s.until(time.Hour, func() bool { succeed(); return s.Calls() >= last })
			n.heal()
			for _, d := range s.Daemons() { // those that were frozen
				d.Wake()
			}
			var looked time.Time
			ready := func() bool {
				n.correct()
				if time.Since(looked) > time.Second { // at every call no time would ever pass: a loop looks again when clients compact
					looked = time.Now()
					n.makeRoom()
					n.disown(s.Store().Status().Problems)
				}
				status := s.Store().Status()
				return status.Health == cke.HealthReady && status.ObservedGeneration == s.Store().Spec().Generation && s.faults(s.declared()...) == nil
			}
			if !s.until(time.Hour, func() bool { succeed(); return ready() }) {
				status := s.Store().Status()
				faults = append(s.faults(s.declared()...), string(status.Health)+": "+status.Reason)
			}
			faults = append(faults, s.Violations()...)
		})
		if faults != nil {
			t.Fatalf("seed %d:\n%s", seed, strings.Join(faults, "\n"))
		}
	}
}

func (d *driver) before() cke.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status
}
