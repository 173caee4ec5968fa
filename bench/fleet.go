package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"cke"
	fleetrig "cke/mtest/fleet"
	"cke/mtest/rig"
)

const (
	// setAtOnce is how many cluster files are stored at once.
	setAtOnce = 4
	// siteLimit bounds the bootstrap of all clusters of a site.
	siteLimit = 10 * time.Minute
	// observedLimit bounds each wait for all nodes to be observed.
	observedLimit = 2 * time.Minute
	// kills is how many members are killed, one after the other.
	kills = 5
)

// site is a daemon with many clusters on the nodes of a fleet.
type site struct {
	*rig.Rig
	fleet    *fleetrig.Fleet
	daemon   *rig.Daemon
	clusters []cke.Cluster
}

// newSite starts a daemon and brings up that many clusters of three members, on three nodes each, or all on the same three.
func (h *host) newSite(ctx context.Context, clusters int, shared bool) (*site, error) {
	nodes := fleetNodes * clusters
	if shared {
		nodes = fleetNodes
	}
	s := &site{}
	if err := s.open(ctx, h, fmt.Sprintf("site-%d-%d", clusters, nodes), nodes); err != nil {
		s.close()
		return nil, err
	}
	for i := range clusters {
		c := cke.Cluster{Name: fmt.Sprintf("c%03d", i)}
		c.Options.Etcd.Version = rig.EtcdVersion
		first := i * fleetNodes
		if shared {
			first = 0
			c.Options.Etcd.ClientPort, c.Options.Etcd.PeerPort = cke.DefaultClientPort+10*i, cke.DefaultPeerPort+10*i
		}
		for _, n := range s.fleet.Nodes[first : first+fleetNodes] {
			c.Nodes = append(c.Nodes, n.Declared())
		}
		s.clusters = append(s.clusters, c)
	}
	if err := s.bootstrap(ctx); err != nil {
		err = fmt.Errorf("%w; the daemon's log: %s", err, s.daemon.LogText())
		s.close()
		return nil, err
	}
	return s, nil
}

// open starts nodes and a daemon that can log in to them.
func (s *site) open(ctx context.Context, h *host, name string, nodes int) (err error) {
	if err := h.build(ctx); err != nil {
		return err
	}
	dir := filepath.Join(h.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if s.fleet, err = fleetrig.New(nodes); err != nil {
		return err
	}
	if s.Rig, err = rig.New(dir, h.bin, nil, "c000"); err != nil {
		return err
	}
	if err := s.WriteConfig(map[string]any{"session_ttl": "10s"}); err != nil {
		return err
	}
	if s.daemon, err = s.StartDaemon(ctx, "cke", "--log-level", "warn"); err != nil {
		return err
	}
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, s.fleet.KeyPEM, 0o600); err != nil {
		return err
	}
	_, err = s.Do(ctx, "ssh-key", "set", key)
	return err
}

func (s *site) close() {
	if s.daemon != nil {
		s.daemon.Kill()
	}
	if s.fleet != nil {
		s.fleet.Close()
	}
}

// bootstrap stores all cluster files and waits until each cluster is as its file says.
func (s *site) bootstrap(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(setAtOnce)
	for _, c := range s.clusters {
		g.Go(func() error {
			of := *s.Rig
			of.Dir, of.Cluster = filepath.Join(s.Dir, c.Name), c.Name
			if err := os.Mkdir(of.Dir, 0o700); err != nil {
				return err
			}
			path, err := of.WriteSpec(c)
			if err != nil {
				return err
			}
			_, err = of.Do(gctx, "cluster", "set", "--yes", "--no-wait", path)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return s.awaitAll(ctx, siteLimit, time.Time{})
}

// awaitAll waits until all clusters are ready, as was observed after a time.
func (s *site) awaitAll(ctx context.Context, limit time.Duration, after time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for why := "no status"; ; {
		all, err := s.statuses(ctx)
		ready := 0
		for _, c := range all {
			if rig.Ready(c) && c.ObservedAt.After(after) {
				ready++
			} else {
				why = c.Cluster + ": " + c.Reason
			}
		}
		if ready == len(s.clusters) {
			return nil
		}
		if paused := pause(ctx, time.Second); paused != nil {
			return fmt.Errorf("%d of %d clusters are ready: %s: %w", ready, len(s.clusters), why, errors.Join(err, paused))
		}
	}
}

func (s *site) statuses(ctx context.Context) ([]cke.Status, error) {
	var all struct{ Clusters []cke.Status }
	return all.Clusters, s.ask(ctx, "/status", func(r *http.Response) error { return json.NewDecoder(r.Body).Decode(&all) })
}

func (s *site) ask(ctx context.Context, path string, read func(*http.Response) error) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.HTTP+path, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(path + ": " + answer.Status)
	}
	return read(answer)
}

// goroutines of the daemon.
func (s *site) goroutines(ctx context.Context) (n float64, err error) {
	err = s.ask(ctx, "/metrics", func(r *http.Response) error {
		var text strings.Builder
		if err := r.Write(&text); err != nil {
			return err
		}
		for line := range strings.Lines(text.String()) {
			if value, ok := strings.CutPrefix(line, "go_goroutines "); ok {
				n, err = strconv.ParseFloat(strings.TrimSpace(value), 64)
				return err
			}
		}
		return errors.New("/metrics has no go_goroutines")
	})
	return n, err
}

// siteCost is what a site costs its daemon while nothing happens.
type siteCost struct {
	share, rss, goroutines float64 // hundredths of a core, MiB, number
	written                float64 // MiB to disk in an hour
	store                  float64 // MiB of the store's database
}

// idle watches a daemon while nothing happens.
func (s *site) idle(ctx context.Context) (c siteCost, err error) {
	if err := pause(ctx, settleFor); err != nil {
		return c, err
	}
	before, err := writtenBytes(s.daemon.Pid())
	if err != nil {
		return c, err
	}
	if c.share, err = coreShare(ctx, s.daemon.Pid(), idleFor); err != nil {
		return c, err
	}
	after, err := writtenBytes(s.daemon.Pid())
	if err != nil {
		return c, err
	}
	c.written = float64(after-before) / (1 << 20) * float64(time.Hour/idleFor)
	if c.rss, err = residentMiB(s.daemon.Pid()); err != nil {
		return c, err
	}
	if c.goroutines, err = s.goroutines(ctx); err != nil {
		return c, err
	}
	c.store, err = s.storeMiB()
	return c, err
}

// storeMiB is the size of the database of the store; its log has files of a fixed size.
func (s *site) storeMiB() (size float64, err error) {
	err = filepath.WalkDir(filepath.Join(s.Dir, "store"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "db" {
			return err
		}
		info, err := e.Info()
		if err == nil {
			size = float64(info.Size()) / (1 << 20)
		}
		return err
	})
	return size, err
}

// writtenBytes is how much a process has caused to be written to disk. Source: proc(5).
func writtenBytes(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("/proc/%d/io has no write_bytes", pid)
}

// observed measures until each node and each member has been asked anew.
func (s *site) observed(ctx context.Context, since time.Time) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, observedLimit)
	defer cancel()
	for {
		done, left := s.fleet.Asked(since)
		if done {
			return time.Since(since), nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return 0, fmt.Errorf("%d nodes were not observed: %w", left, err)
		}
	}
}

// noticed kills members one after the other, and measures until each is started again.
func (s *site) noticed(ctx context.Context) (time.Duration, error) {
	var took []time.Duration
	for i := range kills {
		c := s.clusters[i*len(s.clusters)/kills]
		n := s.fleet.Nodes[slices.IndexFunc(s.fleet.Nodes, func(n *fleetrig.Node) bool { return n.Address == c.Nodes[1].Address })]
		killed := time.Now()
		if !n.Kill(c.Name) {
			return 0, fmt.Errorf("%s has no running member on %s", c.Name, n.Name)
		}
		for !n.StartedAt(c.Name).After(killed) {
			if err := pause(ctx, time.Millisecond); err != nil {
				return 0, err
			}
			if time.Since(killed) > observedLimit {
				return 0, fmt.Errorf("the member of %s on %s is not started again", c.Name, n.Name)
			}
		}
		took = append(took, n.StartedAt(c.Name).Sub(killed))
		if err := s.awaitAll(ctx, observedLimit, time.Now()); err != nil {
			return 0, err
		}
	}
	slices.Sort(took)
	return median(took), nil
}

// restarted measures the first observation after the daemon starts anew.
func (s *site) restarted(ctx context.Context) (took time.Duration, err error) {
	if _, err := s.daemon.Stop(observedLimit); err != nil {
		return 0, err
	}
	s.fleet.MostHandshakes()
	began := time.Now()
	if s.daemon, err = s.Launch("cke", "--log-level", "warn"); err != nil {
		return 0, err
	}
	if took, err = s.observed(ctx, began); err != nil {
		return 0, err
	}
	return took, s.awaitAll(ctx, observedLimit, began)
}

// cut measures the first observation after all connections broke at once.
func (s *site) cut(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	s.fleet.Cut()
	took, err := s.observed(ctx, began)
	if err != nil {
		return 0, err
	}
	return took, s.awaitAll(ctx, observedLimit, began)
}

// dropped is how many connections the SSH servers of all nodes have dropped because too many were logging in.
func (s *site) dropped() (n int) {
	for _, node := range s.fleet.Nodes {
		n += node.Dropped()
	}
	return n
}

// benchFleet measures what a daemon costs with 100 clusters on 300 nodes, and with a tenth of them.
func benchFleet(ctx context.Context, h *host) ([]figure, error) {
	alone := &site{}
	if err := alone.open(ctx, h, "alone-fleet", 0); err != nil {
		alone.close()
		return nil, err
	}
	floor, err := alone.idle(ctx)
	alone.close()
	if err != nil {
		return nil, err
	}
	const fewNodes, manyNodes = 30, 300
	few, err := h.newSite(ctx, fewNodes/fleetNodes, false)
	if err != nil {
		return nil, err
	}
	_, err = few.restarted(ctx) // what the bootstraps took is not what an idle daemon has
	var cheap siteCost
	if err == nil {
		cheap, err = few.idle(ctx)
	}
	few.close()
	if err != nil {
		return nil, err
	}
	many, err := h.newSite(ctx, manyNodes/fleetNodes, false)
	if err != nil {
		return nil, err
	}
	defer many.close()
	before := many.dropped()
	started, err := many.restarted(ctx)
	if err != nil {
		return nil, err
	}
	dear, err := many.idle(ctx)
	if err != nil {
		return nil, err
	}
	noticed, err := many.noticed(ctx)
	if err != nil {
		return nil, err
	}
	cut, err := many.cut(ctx)
	if err != nil {
		return nil, err
	}
	each := func(c siteCost, nodes float64) float64 { return (c.share - floor.share) / nodes }
	return []figure{
		{name: "no cluster: share of a core", value: floor.share, unit: "%", target: 0.5},
		{name: "30 nodes: share of a core", value: cheap.share, unit: "%"},
		{name: "300 nodes: share of a core", value: dear.share, unit: "%", target: 10},
		{name: "30 nodes: share of a core for each", value: each(cheap, fewNodes), unit: "%"},
		{name: "300 nodes: share of a core for each", value: each(dear, manyNodes), unit: "%", target: 0.03},
		{name: "300 nodes: each against 30", value: each(dear, manyNodes) / each(cheap, fewNodes), unit: "ratio", target: 1.3},
		{name: "300 nodes: memory for each", value: (dear.rss - floor.rss) * 1024 / manyNodes, unit: "KiB", target: 244},
		{name: "300 nodes: goroutines for each", value: (dear.goroutines - floor.goroutines) / manyNodes, target: 12},
		{name: "300 nodes: written in an hour", value: dear.written, unit: "MiB"},
		{name: "300 nodes: the store's database", value: dear.store, unit: "MiB", target: 64},
		{name: "300 nodes: a dead member runs again", value: noticed.Seconds(), unit: "s", target: 0.1},
		{name: "300 nodes: observed after all connections broke", value: cut.Seconds(), unit: "s", target: 10},
		{name: "300 nodes: observed after a start", value: started.Seconds(), unit: "s", target: 10},
		{name: "300 nodes: most handshakes at once", value: float64(many.fleet.MostHandshakes())},
		{name: "300 nodes: connections that sshd dropped", value: float64(many.dropped() - before)},
	}, nil
}
