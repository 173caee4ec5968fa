package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/server"
)

// country is a store with several clusters, each a stage of its own.
type country struct {
	t      *testing.T
	names  chan []string
	fleets chan cke.Fleet
	mu     sync.Mutex
	stages map[string]*stage
	// campaign is asked before a campaign is won, connect before nodes are reached; nil: all succeeds.
	campaign func(ctx context.Context, cluster string) error
	connect  func(cluster string) error
	// backups is what takes those of every cluster; nil: none are taken.
	backups server.Backups
	// inventory is that of every cluster; nil: none is read.
	inventory server.Inventory
	log       strings.Builder

	metrics  *server.Metrics
	progress server.Progress
	leads    []string // as progress reported
	stop     context.CancelFunc
	ended    chan struct{}
}

// govern starts a daemon for clusters that all serve.
func govern(t *testing.T, f func(c *country), clusters ...string) {
	t.Helper()
	governWith(t, nil, f, clusters...)
}

// governWith is govern with backups.
func governWith(t *testing.T, backups server.Backups, f func(c *country), clusters ...string) {
	t.Helper()
	governAll(t, backups, nil, f, clusters...)
}

// governAll is govern with backups and an inventory.
func governAll(t *testing.T, backups server.Backups, inventory server.Inventory, f func(c *country), clusters ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &country{t: t, backups: backups, inventory: inventory, names: make(chan []string), fleets: make(chan cke.Fleet), stages: map[string]*stage{}, ended: make(chan struct{})}
		for _, name := range clusters {
			c.add(name)
		}
		ctx, cancel := context.WithCancel(context.Background())
		c.stop = cancel
		c.metrics = server.NewMetrics("1.2.3")
		c.progress.Leading = func(clusters []string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.leads = clusters
		}
		d := &server.Daemon{Store: c, Probe: probe, Now: time.Now, Metrics: c.metrics, Progress: &c.progress,
			Log: slog.New(slog.NewTextHandler(c, nil)), Fleet: c.watchFleet}
		go func() {
			defer close(c.ended)
			if err := d.Run(ctx); !errors.Is(err, context.Canceled) && err != nil {
				t.Errorf("the daemon ended with %v", err)
			}
		}()
		c.declare(clusters...)
		f(c)
		c.stop()
		<-c.ended
		for name, g := range c.stages {
			if g.connections() != 0 {
				t.Errorf("%s: %d connections are left", name, g.connections())
			}
			if g.led() != nil && g.led().ctx.Err() == nil {
				t.Errorf("%s: its term goes on", name)
			}
		}
	})
}

// Write implements io.Writer for the log.
func (c *country) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(b)
}

// leading is what is led, as progress reported.
func (c *country) leading() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leads
}

func (c *country) logged(text string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Count(c.log.String(), text)
}

func (c *country) add(name string) *stage {
	s := formed(3)
	s.Spec.Name = name
	g := &stage{t: c.t, scene: s}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stages[name] = g
	return g
}

// declare lets these be all clusters.
func (c *country) declare(names ...string) {
	c.names <- names
	synctest.Wait()
}

func (c *country) stage(name string) *stage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stages[name]
}

// WatchClusters implements server.Store.
func (c *country) WatchClusters(ctx context.Context) <-chan []string {
	out := make(chan []string)
	go func() {
		defer close(out)
		for {
			select {
			case names := <-c.names:
				out <- names
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// watchFleet sends what tests send to fleets.
func (c *country) watchFleet(ctx context.Context) <-chan cke.Fleet {
	out := make(chan cke.Fleet)
	go func() {
		defer close(out)
		for {
			select {
			case f := <-c.fleets:
				out <- f
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// Campaign implements server.Store.
func (c *country) Campaign(ctx context.Context, cluster string) (server.Seat, error) {
	if c.campaign != nil {
		if err := c.campaign(ctx, cluster); err != nil {
			return server.Seat{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return server.Seat{}, err
	}
	g := c.stage(cluster)
	if g.gone {
		return server.Seat{}, cke.ErrNotFound
	}
	if g.led() != nil && g.led().ctx.Err() == nil {
		c.t.Errorf("%s: a campaign while its term goes on", cluster)
	}
	if g.connections() != 0 {
		c.t.Errorf("%s: a campaign with %d connections open", cluster, g.connections())
	}
	seat := server.Seat{Term: g.elect(), Connect: func() (server.Nodes, cke.Authority, error) { return c.reach(cluster) }}
	if c.backups != nil {
		seat.Backups = func(cke.Authority) (server.Backups, error) { return c.backups, nil }
	}
	if c.inventory != nil {
		seat.Inventory = func() server.Inventory { return c.inventory }
	}
	return seat, nil
}

func (c *country) reach(cluster string) (server.Nodes, cke.Authority, error) {
	if c.connect != nil {
		if err := c.connect(cluster); err != nil {
			return nil, nil, err
		}
	}
	return c.stage(cluster).connect(), nil, nil
}

// terms is how many terms each of these had.
func (c *country) terms(names ...string) string {
	var all []string
	for _, name := range names {
		g := c.stage(name)
		g.mu.Lock()
		all = append(all, fmt.Sprintf("%s %d", name, g.number))
		g.mu.Unlock()
	}
	return strings.Join(all, ", ")
}

// Requirements I2, D15: many clusters, one loop each.
func TestDaemon_LeadsEveryClusterThatIsDeclared(t *testing.T) {
	govern(t, func(c *country) {
		for _, name := range []string{"one", "two"} {
			if s := c.stage(name).status(); s.Health != cke.HealthReady || s.Cluster != name {
				t.Errorf("%s: %s of %q", name, s.Health, s.Cluster)
			}
		}
		// One more comes, one goes, one stays.
		two, three := c.stage("two"), c.add("three")
		c.declare("three", "two")
		one := c.stage("one")
		if one.led().ctx.Err() == nil || !one.led().resigned || one.connections() != 0 {
			t.Errorf("one is led on: %d connections", one.connections())
		}
		if three.status().Health != cke.HealthReady || two.led().ctx.Err() != nil || two.led().number != 1 {
			t.Errorf("three is %s, two is in term %d", three.status().Health, two.led().number)
		}
		looks := one.looked()
		time.Sleep(time.Minute)
		if one.looked() != looks {
			t.Error("one is looked at")
		}
		c.declare("one", "three", "two")
		if one.led().number != 2 || one.led().ctx.Err() != nil {
			t.Errorf("one came back and is not led, term %d", one.led().number)
		}
		c.declare()
		if c.logged("no cluster is declared") != 1 || two.led().ctx.Err() == nil {
			t.Error("two is led and not declared")
		}
	}, "one", "two")
}

func TestDaemon_CampaignsUntilItIsElected(t *testing.T) {
	govern(t, func(c *country) {
		failures := 0
		c.campaign = func(_ context.Context, cluster string) error {
			if cluster == "two" && failures < 5 {
				failures++
				return errors.New("the store does not answer")
			}
			return nil
		}
		c.add("one")
		c.add("two")
		c.declare("one", "two")
		if got := c.terms("one", "two"); got != "one 1, two 0" {
			t.Errorf("terms: %s", got)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := c.terms("one", "two"); got != "one 1, two 1" || failures != 5 {
			t.Errorf("terms: %s, %d failures", got, failures)
		}
	})
}

func TestDaemon_CampaignsAgainWhenATermEnds(t *testing.T) {
	govern(t, func(c *country) {
		g := c.stage("one")
		first := g.led()
		first.end(fmt.Errorf("no renewal confirmed for 9s: %w", cke.ErrDeposed))
		synctest.Wait()
		if first.resigned {
			t.Error("it resigned from a term that had ended")
		}
		if c.logged("no renewal confirmed for 9s") != 1 {
			t.Errorf("the log does not tell why the term ended:\n%s", c.log.String())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := c.terms("one"); got != "one 2" || g.status().Leader.Term != 2 {
			t.Errorf("terms: %s, status of term %d", got, g.status().Leader.Term)
		}
		// A person asks.
		g.led().askToResign()
		g.led().wake()
		time.Sleep(time.Second)
		synctest.Wait()
		if got := c.terms("one"); got != "one 3" || c.logged(`level=WARN msg="term ended"`) != 1 {
			t.Errorf("terms: %s, log\n%s", got, c.log.String())
		}
	}, "one")
}

func TestDaemon_LeadsAClusterThatWasDeclaredAgainAtOnce(t *testing.T) {
	govern(t, func(c *country) {
		g := c.stage("one")
		g.change(func() { g.scene.Deleting = true })
		g.led().wake()
		synctest.Wait()
		// The same name comes back before the daemon was told that it had gone.
		again := c.add("one")
		time.Sleep(time.Second)
		synctest.Wait()
		if again.status().Health != cke.HealthReady {
			t.Errorf("the new cluster is %q", again.status().Health)
		}
	}, "one")
}

func TestDaemon_WaitsForWhatIsUnderWayWhenItEnds(t *testing.T) {
	govern(t, func(c *country) {
		g := c.stage("one")
		release := make(chan struct{})
		g.change(func() {
			g.scene.stopped(1)
			g.do = func(ctx context.Context, _, _ string) error {
				<-ctx.Done()
				<-release // a call that is not easily cut off
				return ctx.Err()
			}
		})
		time.Sleep(probe)
		synctest.Wait()
		c.stop()
		synctest.Wait()
		select {
		case <-c.ended:
			t.Error("it did not wait")
		default:
		}
		if g.connections() != 1 || g.led().ctx.Err() != nil {
			t.Errorf("%d connections, term %v", g.connections(), g.led().ctx.Err())
		}
		close(release)
		<-c.ended
		if got := g.told(); len(got) != 1 || got[0] != "1 start-members interrupted" || !g.led().resigned {
			t.Errorf("history %v", got)
		}
	}, "one")
}

func TestDaemon_EndsInTimeWhenTheStoreHangs(t *testing.T) {
	govern(t, func(c *country) {
		g := c.stage("one")
		g.change(func() {
			g.scene.stopped(1)
			g.do = func(ctx context.Context, _, _ string) error { return hang(ctx) }
		})
		time.Sleep(probe)
		synctest.Wait()
		g.change(func() { g.storeDo = func(ctx context.Context, _ string) error { return hang(ctx) } })
		began := time.Now()
		c.stop()
		<-c.ended
		if took := time.Since(began); took > 3500*time.Millisecond {
			t.Errorf("took %s", took)
		}
	}, "one")
}

func TestDaemon_APanicInTheLoopEndsTheTermAndNothingElse(t *testing.T) {
	govern(t, func(c *country) {
		g := c.stage("one")
		g.change(func() {
			g.look = func() { panic("no such look") }
			g.scene.stopped(1)
			g.do = func(ctx context.Context, _, _ string) error { return hang(ctx) }
		})
		g.led().wake()
		synctest.Wait()
		if g.led().ctx.Err() == nil || !g.led().resigned || g.connections() != 0 {
			t.Errorf("the term goes on, %d connections", g.connections())
		}
		if c.logged("no such look") == 0 || c.logged("server.(*Loop).look") == 0 {
			t.Errorf("the log does not tell where:\n%s", c.log.String())
		}
		g.change(func() { g.look = nil })
		time.Sleep(time.Second)
		synctest.Wait()
		if got := c.terms("one", "two"); got != "one 2, two 1" {
			t.Errorf("terms: %s", got)
		}
		// The same while an operation is under way.
		g.change(func() { g.look = func() { panic("no such look") } })
		time.Sleep(busyPause)
		synctest.Wait()
		if got := g.told(); got[0] != "1 start-members interrupted" || g.led().ctx.Err() == nil {
			t.Errorf("history %v", got)
		}
		g.change(func() { g.look = nil })
	}, "one", "two")
}

func TestDaemon_ResignsWhenNodesCannotBeReached(t *testing.T) {
	govern(t, func(c *country) {
		var reachable atomic.Bool
		c.connect = func(string) error {
			if !reachable.Load() {
				return errors.New("no access")
			}
			return nil
		}
		g := c.add("one")
		c.declare("one")
		if !g.led().resigned {
			t.Error("it holds the term")
		}
		reachable.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := c.terms("one"); got != "one 2" {
			t.Errorf("terms: %s", got)
		}
	})
}
