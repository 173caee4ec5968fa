package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"cke"
	"cke/server"
	"cke/server/strategy"
	"cke/sim"
)

// fleetNodes is how many nodes, and members, each simulated cluster has.
const fleetNodes = 3

// fleet is many simulated clusters that one daemon leads.
type fleet struct {
	clusters []fleetCluster
	cancel   context.CancelFunc
	daemon   sync.WaitGroup
}

type fleetCluster struct {
	name   string
	world  *sim.World
	daemon *sim.Daemon
}

// newFleet founds n clusters and waits until all are READY. The daemon counts in metrics, which may be nil.
func newFleet(ctx context.Context, n int, metrics *server.Metrics) (*fleet, error) {
	f := &fleet{}
	for i := range n {
		c := fleetCluster{name: fmt.Sprintf("c%d", i)}
		c.world = sim.New(c.name, time.Now)
		spec := cke.Cluster{Name: c.name}
		for k := range fleetNodes {
			node := c.world.AddNode(fmt.Sprintf("n%d", k+1), fmt.Sprintf("10.%d.%d.%d", i/250, i%250, k+1))
			spec.Nodes = append(spec.Nodes, node.Declared())
		}
		c.world.Store().SetSpec(spec)
		c.daemon = c.world.NewDaemon()
		f.clusters = append(f.clusters, c)
	}
	d := server.Daemon{Store: f, Probe: 5 * time.Second, Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: metrics}
	led, cancel := context.WithCancel(ctx)
	f.cancel = cancel
	f.daemon.Go(func() { _ = d.Run(led) })
	for _, c := range f.clusters {
		for c.world.Store().Status().Health != cke.HealthReady {
			if err := pause(ctx, 20*time.Millisecond); err != nil {
				return f, fmt.Errorf("cluster %s: %s: %w", c.name, c.world.Store().Status().Reason, err)
			}
		}
	}
	return f, nil
}

// of returns the cluster of a name, or none.
func (f *fleet) of(name string) fleetCluster {
	for _, c := range f.clusters {
		if c.name == name {
			return c
		}
	}
	return fleetCluster{}
}

// WatchClusters implements server.Store.
func (f *fleet) WatchClusters(ctx context.Context) <-chan []string {
	watched := make(chan []string, 1)
	var names []string
	for _, c := range f.clusters {
		names = append(names, c.name)
	}
	watched <- names
	context.AfterFunc(ctx, func() { close(watched) })
	return watched
}

// Campaign implements server.Store.
func (f *fleet) Campaign(_ context.Context, name string) (server.Seat, error) {
	d := f.of(name).daemon
	return server.Seat{Term: d.Term(), Connect: func() (server.Nodes, cke.Authority, error) {
		return simulated{d.Machines(), d.Etcd(), d.Observer()}, d.Authority(), nil
	}}, nil
}

// simulated is access to the nodes of a simulated cluster.
type simulated struct {
	cke.Machines
	cke.Etcd
	server.Observer
}

func (simulated) Close() {}

// stop ends the daemon; the clusters stay.
func (f *fleet) stop() {
	f.cancel()
	for _, c := range f.clusters {
		c.daemon.Kill()
	}
	f.daemon.Wait()
}

// round observes every cluster once and decides, on all cores. It returns how long that took.
func (f *fleet) round(ctx context.Context) (time.Duration, error) {
	work := make(chan fleetCluster)
	errs := make(chan error, runtime.GOMAXPROCS(0))
	began := time.Now()
	for range runtime.GOMAXPROCS(0) {
		go func() {
			var err error
			for c := range work {
				err = errors.Join(err, c.look(ctx))
			}
			errs <- err
		}()
	}
	for _, c := range f.clusters {
		work <- c
	}
	close(work)
	var err error
	for range cap(errs) {
		err = errors.Join(err, <-errs)
	}
	return time.Since(began), err
}

// look is one round of one cluster: by a daemon that has just been elected and knows nothing yet.
func (c fleetCluster) look(ctx context.Context) error {
	d := c.world.NewDaemon()
	defer d.Kill()
	spec, err := d.Term().Spec(ctx)
	if err != nil {
		return err
	}
	identity, err := d.Term().Identity(ctx)
	if err != nil {
		return err
	}
	d.Observer().Update(spec.Wanted(), identity)
	in := strategy.NewInput(spec, identity, d.Term().Requests(), d.Observer().Observe(ctx), nil, cke.Status{})
	dec := strategy.Decide(in)
	if s := strategy.Report(in, dec, cke.Status{}); s.Ready != fleetNodes {
		return fmt.Errorf("%s: %s: %s", c.name, s.Health, dec.Reason)
	}
	return nil
}

// scale is what a fleet costs.
type scale struct {
	round  time.Duration
	memory float64 // MiB for each cluster: loop, goroutines, what the loop knows, and the simulated nodes
}

// measureScale founds a fleet and measures it.
func measureScale(ctx context.Context, n int) (s scale, err error) {
	before := memory()
	f, err := newFleet(ctx, n, nil)
	defer f.stop()
	if err != nil {
		return s, err
	}
	s.memory = (memory() - before) / float64(n)
	f.stop()
	s.round, err = f.round(ctx)
	return s, err
}

// memory is what is in use, in MiB.
func memory() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc+m.StackInuse) / (1 << 20)
}

// benchScale: 3,000 nodes under one daemon, and whether each of their clusters costs more than each of ten.
func benchScale(ctx context.Context, _ *host) ([]figure, error) {
	few, err := measureScale(ctx, 10)
	if err != nil {
		return nil, err
	}
	many, err := measureScale(ctx, 1000)
	if err != nil {
		return nil, err
	}
	each := func(s scale, n int) float64 { return s.round.Seconds() * 1000 / float64(n) }
	return []figure{
		{name: "1,000 clusters: one round", value: many.round.Seconds(), unit: "s", target: 10},
		{name: "1,000 clusters: memory for each", value: many.memory, unit: "MiB", target: 1},
		{name: "10 clusters: memory for each", value: few.memory, unit: "MiB"},
		{name: "10 clusters: round for each", value: each(few, 10), unit: "ms"},
		{name: "1,000 clusters: round for each", value: each(many, 1000), unit: "ms"},
		{name: "1,000 clusters: memory against 10, each", value: many.memory / few.memory, unit: "x", target: 1.5},
	}, nil
}
