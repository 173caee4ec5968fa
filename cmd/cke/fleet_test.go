package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
	"cke/server"
	"cke/sim"
	"cke/storage"
	"cke/storage/embedded"
)

// yard is one store that several daemons use, and simulated nodes for each cluster.
type yard struct {
	t      *testing.T
	store  *storage.Store
	socket string
	key    string
	worlds map[string]*sim.World
	files  map[string]cke.Cluster
}

func newYard(t *testing.T) *yard {
	t.Helper()
	dir := t.TempDir()
	c := storage.Config{Embedded: storage.EmbeddedConfig{DataDir: filepath.Join(dir, "etcd")}, Patience: startLimit, SecretKeyFile: filepath.Join(dir, "secret.key")}
	e, err := embedded.Start(t.Context(), c.Embedded.DataDir, slog.New(slog.DiscardHandler), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	sockets, err := filepath.Glob(filepath.Join(c.Embedded.DataDir, "*sock*"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets %v, %v", sockets, err)
	}
	y := &yard{t: t, store: openStore(t, c), socket: sockets[0], key: c.SecretKeyFile, worlds: map[string]*sim.World{}, files: map[string]cke.Cluster{}}
	if err := y.store.OpenSecrets(t.Context()); err != nil {
		t.Fatal(err)
	}
	return y
}

// declare stores clusters, which prefer hosts, on simulated nodes.
func (y *yard) declare(names []string, prefer ...string) {
	y.t.Helper()
	for _, name := range names {
		c, again := y.files[name]
		if !again {
			w := sim.New(name, time.Now)
			c = cke.Cluster{Name: name}
			for k := range 3 {
				c.Nodes = append(c.Nodes, w.AddNode(fmt.Sprintf("n%d", k+1), fmt.Sprintf("10.0.0.%d", k+1)).Declared())
			}
			w.Store().SetSpec(c)
			y.worlds[name] = w
		}
		c.Prefer = prefer
		y.files[name] = c
		if _, err := y.store.SetSpec(y.t.Context(), name, c, nil, "test@host", storage.SetOptions{}); err != nil {
			y.t.Fatal(err)
		}
	}
}

// site is one daemon with its own way to the store.
type site struct {
	host   string
	wire   *wire
	store  *storage.Store
	cancel context.CancelFunc
	ended  chan struct{}
}

// start starts a daemon.
func (y *yard) start(host string) *site {
	y.t.Helper()
	w := newWire(y.t, y.socket)
	s := openStore(y.t, storage.Config{Endpoints: []string{"http://" + w.listener.Addr().String()}, SessionTTL: storage.MinSessionTTL, SecretKeyFile: y.key})
	ctx, cancel := context.WithCancel(context.Background())
	p := &site{host: host, wire: w, store: s, cancel: cancel, ended: make(chan struct{})}
	s.Attend(cke.Daemon{Host: host, Version: "test"})
	seat := func(lead *term) server.Seat {
		return server.Seat{Term: lead, Connect: func() (server.Nodes, cke.Authority, error) {
			d := y.worlds[lead.Cluster()].NewDaemon()
			return &simulated{d.Machines(), d.Etcd(), d.Observer(), d}, d.Authority(), nil
		}}
	}
	d := &server.Daemon{Store: daemonStore{s, host, seat}, Probe: 200 * time.Millisecond, Now: time.Now, Log: slog.New(slog.DiscardHandler), Fleet: s.WatchFleet, Settle: 500 * time.Millisecond}
	go func() {
		defer close(p.ended)
		if err := d.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			y.t.Errorf("%s ended with %v", host, err)
		}
	}()
	y.t.Cleanup(p.stop)
	return p
}

// stop ends a daemon in good order.
func (p *site) stop() {
	p.cancel()
	<-p.ended
	p.store.Close()
}

// kill cuts a daemon off for good: nothing that it does arrives any more.
func (p *site) kill() {
	p.wire.close()
	p.cancel()
}

// simulated is access to simulated nodes.
type simulated struct {
	cke.Machines
	cke.Etcd
	server.Observer
	d *sim.Daemon
}

func (n *simulated) Close() { n.d.Kill() }

// leads waits until the daemons lead as many clusters as ok accepts, and each cluster is led.
func (y *yard) leads(what string, ok func(loads map[string]int) bool) map[string]int {
	y.t.Helper()
	ctx, cancel := context.WithTimeout(y.t.Context(), startLimit)
	defer cancel()
	var loads map[string]int
	began := time.Now()
	for f := range y.store.WatchFleet(ctx) {
		loads = map[string]int{}
		for _, l := range f.Clusters {
			loads[l.Leader.Host]++
		}
		if len(f.Clusters) == len(y.worlds) && loads[""] == 0 && ok(loads) {
			y.t.Logf("%s after %s: %v", what, time.Since(began).Round(10*time.Millisecond), loads)
			return loads
		}
	}
	y.t.Fatalf("%s: not within %s: %v", what, startLimit, loads)
	return nil
}

// even accepts that these daemons lead alike, and no other one does.
func even(hosts ...string) func(map[string]int) bool {
	return func(loads map[string]int) bool {
		all := slices.Collect(maps.Values(loads))
		return slices.Equal(slices.Sorted(maps.Keys(loads)), hosts) && slices.Max(all)-slices.Min(all) <= 1
	}
}

// ready waits until the members of all clusters serve.
func (y *yard) ready() {
	y.t.Helper()
	ctx, cancel := context.WithTimeout(y.t.Context(), startLimit)
	defer cancel()
	for name := range y.worlds {
		for st := range y.store.WatchStatus(ctx, name) {
			if st.Health == cke.HealthReady {
				break
			}
		}
		if ctx.Err() != nil {
			st, err := y.store.Status(y.t.Context(), name)
			y.t.Fatalf("%s is not ready: %s %s %v", name, st.Health, st.Reason, err)
		}
	}
}

// chronicle checks every change of the store, in its order, as long as the test runs.
type chronicle struct {
	t        *testing.T
	mu       sync.Mutex
	faults   []string
	terms    map[string]cke.Leader            // by cluster
	queues   map[string]map[string]*candidate // by cluster and key
	records  map[string]cke.Record            // by key
	running  map[string]string                // by cluster: the key of the record
	statuses int
}

type candidate struct {
	created int64
	cke.Leader
}

// chronicle follows the store from its first revision on.
func (y *yard) chronicle() *chronicle {
	y.t.Helper()
	w := newWire(y.t, y.socket)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + w.listener.Addr().String()}, DialTimeout: startLimit})
	if err != nil {
		y.t.Fatal(err)
	}
	c := &chronicle{t: y.t, terms: map[string]cke.Leader{}, queues: map[string]map[string]*candidate{}, records: map[string]cke.Record{}, running: map[string]string{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for resp := range client.Watch(context.Background(), storage.DefaultPrefix, clientv3.WithPrefix(), clientv3.WithRev(1)) {
			for events := resp.Events; len(events) > 0; {
				n := 1
				for n < len(events) && events[n].Kv.ModRevision == events[0].Kv.ModRevision {
					n++
				}
				c.take(events[:n])
				events = events[n:]
			}
		}
	}()
	y.t.Cleanup(func() {
		client.Close()
		<-done
	})
	return c
}

// take checks one transaction.
func (c *chronicle) take(events []*clientv3.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	read := func(e *clientv3.Event, into any) {
		if err := json.Unmarshal(e.Kv.Value, into); err != nil {
			c.fault("%s: %v", e.Kv.Key, err)
		}
	}
	parts := func(e *clientv3.Event) (kind, cluster string) {
		all := strings.SplitN(strings.TrimPrefix(string(e.Kv.Key), storage.DefaultPrefix), "/", 3)
		return all[0], all[min(1, len(all)-1)]
	}
	for _, e := range events { // who leads now
		switch kind, cluster := parts(e); kind {
		case "leaders":
			if c.queues[cluster] == nil {
				c.queues[cluster] = map[string]*candidate{}
			}
			if delete(c.queues[cluster], string(e.Kv.Key)); e.Type == mvccpb.PUT {
				who := &candidate{created: e.Kv.CreateRevision}
				read(e, &who.Leader)
				c.queues[cluster][string(e.Kv.Key)] = who
			}
			c.elected(cluster)
		case "terms":
			if e.Type != mvccpb.PUT {
				break
			}
			var now cke.Leader
			read(e, &now)
			if was := c.terms[cluster]; now.Term < was.Term || now.Term == was.Term && now.Host != was.Host || now.Term > was.Term+1 {
				c.fault("%s: %+v after %+v", cluster, now, was)
			}
			c.terms[cluster] = now
		}
	}
	for _, e := range events { // and who wrote
		if e.Type != mvccpb.PUT {
			continue
		}
		switch kind, cluster := parts(e); kind {
		case "status":
			var s cke.Status
			read(e, &s)
			c.statuses++
			if s.Leader.Term != c.terms[cluster].Term || s.Leader.Host != c.terms[cluster].Host {
				c.fault("%s: %s wrote its status in term %d, in term %d", cluster, s.Leader.Host, s.Leader.Term, c.terms[cluster].Term)
			}
		case "records":
			var r cke.Record
			read(e, &r)
			c.record(cluster, string(e.Kv.Key), r)
		}
	}
}

// elected checks that at most the eldest candidate of a queue is elected.
func (c *chronicle) elected(cluster string) {
	var eldest *candidate
	for _, who := range c.queues[cluster] {
		if eldest == nil || who.created < eldest.created {
			eldest = who
		}
	}
	for key, who := range c.queues[cluster] {
		if who.Term > 0 && who != eldest {
			c.fault("%s: %s is elected, and not the eldest: %+v", cluster, key, who.Leader)
		}
	}
}

// record checks that operations of a cluster follow each other, and none is completed twice.
func (c *chronicle) record(cluster, key string, r cke.Record) {
	was := c.records[key]
	switch {
	case was.State != "" && was.State != cke.RecordRunning && r.State != was.State:
		c.fault("%s: %s was %s, and is %s", cluster, key, was.State, r.State)
	case r.State == cke.RecordRunning && c.running[cluster] != "" && c.running[cluster] != key:
		c.fault("%s: %s starts while %s runs", cluster, key, c.running[cluster])
	case r.Term != c.terms[cluster].Term && r.State != cke.RecordInterrupted:
		c.fault("%s: %s is written in term %d, and of term %d", cluster, key, c.terms[cluster].Term, r.Term)
	}
	if c.running[cluster] = ""; r.State == cke.RecordRunning {
		c.running[cluster] = key
	}
	c.records[key] = r
}

func (c *chronicle) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// verdict fails the test for each fault, and returns how often each operation completed in each cluster.
func (c *chronicle) verdict() map[string]int {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, fault := range c.faults[:min(len(c.faults), 10)] {
		c.t.Error(fault)
	}
	if c.statuses == 0 {
		c.t.Error("no status was written")
	}
	completed := map[string]int{}
	for _, r := range c.records {
		if r.State == cke.RecordCompleted {
			completed[r.Cluster+" "+r.Operation]++
		}
	}
	return completed
}

// Daemons come, stop, are killed and freeze: the clusters spread over those that are alive, none ever has two leaders, and nothing is
// done twice.
func TestDaemons_ShareClustersAndNeverLeadOneTogether(t *testing.T) {
	y := newYard(t)
	c := y.chronicle()
	var names []string
	for i := range 9 {
		names = append(names, fmt.Sprintf("c%d", i+1))
	}
	y.declare(names)
	a := y.start("boot-a")
	y.leads("the first leads all", even("boot-a"))
	b := y.start("boot-b")
	y.leads("the second has its share", even("boot-a", "boot-b"))
	d := y.start("boot-c")
	y.leads("the third has its share", even("boot-a", "boot-b", "boot-c"))
	y.ready()

	thaw := b.wire.hold()
	y.leads("one is frozen", even("boot-a", "boot-c"))
	thaw()
	y.leads("it is back", even("boot-a", "boot-b", "boot-c"))

	a.kill()
	y.leads("one is killed", even("boot-b", "boot-c"))
	began := time.Now()
	d.stop()
	y.leads("one stops", even("boot-b"))
	if took := time.Since(began); took > 5*time.Second {
		t.Logf("a daemon that stops handed over within %s", took)
	}
	e := y.start("boot-e")
	y.leads("one that prefers nothing comes", even("boot-b", "boot-e"))
	y.declare(names[:3], "boot-e", "boot-z")
	y.leads("three prefer it", func(loads map[string]int) bool {
		f, err := y.store.Fleet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return even("boot-b", "boot-e")(loads) && !slices.ContainsFunc(f.Clusters, func(l cke.Led) bool {
			return slices.Contains(names[:3], l.Cluster) && l.Leader.Host != "boot-e"
		})
	})
	y.ready()
	e.stop()
	y.leads("none that is preferred is alive", even("boot-b"))
	completed := c.verdict()
	for _, name := range names {
		if n := completed[name+" bootstrap"]; n != 1 {
			t.Errorf("the bootstrap of %s completed %d times", name, n)
		}
	}
}

// A daemon of an earlier schema never gets a cluster.
func TestDaemons_OfAnEarlierSchemaGetNothing(t *testing.T) {
	y := newYard(t)
	y.declare([]string{"c1", "c2", "c3", "c4"})
	y.start("boot-a")
	y.leads("one leads all", even("boot-a"))
	w := newWire(t, y.socket)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + w.listener.Addr().String()}, DialTimeout: startLimit})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for name := range y.worlds { // as it queues up
		if _, err := client.Put(t.Context(), storage.DefaultPrefix+"leaders/"+name+"/7f-1", fmt.Sprintf(`{"host":"boot-old","term":0,"since":"2026-01-01T00:00:00Z","schema":%d}`, storage.SchemaVersion-1)); err != nil {
			t.Fatal(err)
		}
	}
	y.start("boot-b") // once this one has settled, the earlier one, which was there before, has as well
	y.leads("one that knows the schema has its share", even("boot-a", "boot-b"))
}
