package keep_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/sabakan"
	"cke/sabakan/keep"
)

// interval is that of the template's reads.
const interval = 30 * time.Second

// house is a store, an inventory and a cluster as a loop would tell of it, for keepers that come one after the other.
type house struct {
	t *testing.T

	mu       sync.Mutex
	settings *cke.InventorySettings
	order    *cke.InventoryOrder
	past     cke.InventoryPast
	log      cke.InventoryLog
	spec     cke.Spec
	status   cke.Status // of the members, as if they followed the file at once
	hosts    []cke.Host
	since    map[string]time.Time // of states
	fails    error                // of reads
	others   error                // of reading other clusters
	taken    map[string]string    // clusters that have machines, by address
	unknown  []string             // serials that were asked for
	listed   []string             // serials that are known by themselves, whatever is read
	unfit    map[string]string    // what a check finds, by address
	checked  []string
	slow     time.Duration // that a check takes
	hangs    string        // what does not answer before its context ends
	silent   string        // address of a node that does not answer
	applied  []cke.InventoryCause
	fail     func(write string) error // before a write; after: it is stored all the same
	after    bool
	edited   func() // before a revision is stored
	// open opens another inventory than that of the house, which is read on the clock of the world.
	open func() sabakan.Source
}

// newHouse has a cluster of three on the first of so many machines, in racks of their own.
func newHouse(t *testing.T, machines int, mode cke.InventoryMode) *house {
	h := &house{t: t, since: map[string]time.Time{}, unfit: map[string]string{},
		settings: &cke.InventorySettings{Template: "a template", URL: "here", Enabled: true, Variables: string(mode)}}
	for i := 1; i <= machines; i++ {
		h.add(fmt.Sprintf("s%d", i), fmt.Sprintf("10.0.0.%d", i))
	}
	h.spec = cke.Spec{Generation: 1, SetBy: "me", Cluster: cke.Cluster{Name: "prod"}}
	for _, host := range h.hosts[:3] {
		n := sabakan.NodeOf(h.template(), host)
		n.Zone, n.Labels, n.Annotations = host.Zone, map[string]string{cke.LabelRole: "cs"}, map[string]string{cke.AnnotationSerial: host.ID}
		h.spec.Cluster.Nodes = append(h.spec.Cluster.Nodes, n)
	}
	return h
}

func (h *house) add(serial, address string) {
	h.hosts = append(h.hosts, cke.Host{ID: serial, Addresses: []string{address}, Role: "cs", Zone: "zone-" + serial, State: cke.HostHealthy})
	h.since[serial] = time.Now().Add(-time.Hour)
}

func (h *house) template() cke.Template {
	every := interval
	if h.open != nil {
		every = 200 * time.Millisecond
	}
	return cke.Template{Name: "prod", Nodes: []cke.Node{{ControlPlane: true, User: "cke"}},
		Inventory: cke.InventoryOptions{Source: cke.SourceFile, Mode: cke.InventoryMode(h.settings.Variables), Interval: cke.Duration(every)}}.Filled()
}

// change changes what a keeper is told, under the lock.
func (h *house) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// turns gives a machine another state now.
func (h *house) turns(serial string, s cke.HostState) {
	h.change(func() {
		for i := range h.hosts {
			if h.hosts[i].ID == serial {
				h.hosts[i].State, h.since[serial] = s, time.Now()
			}
		}
	})
}

func (h *house) vanishes(serial string) {
	h.change(func() { h.hosts = slices.DeleteFunc(h.hosts, func(o cke.Host) bool { return o.ID == serial }) })
}

// source is the inventory; each one that is opened is another one.
type source struct {
	*house
	id *int
}

func (source) String() string { return "the inventory" }

func (s source) Hosts(ctx context.Context) (cke.HostList, error) {
	if err := s.hang(ctx, "inventory"); err != nil {
		return cke.HostList{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return cke.HostList{}, s.fails
	}
	l := cke.HostList{ReadAt: time.Now()}
	for _, h := range s.hosts {
		h.For = time.Since(s.since[h.ID])
		l.Hosts = append(l.Hosts, h)
	}
	return l, nil
}

func (s source) Registered(_ context.Context, serial string) (bool, error) {
	time.Sleep(10 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.listed, serial) {
		s.unknown = append(s.unknown, serial)
		return true, nil
	}
	s.unknown = append(s.unknown, serial)
	return slices.ContainsFunc(s.hosts, func(h cke.Host) bool { return h.ID == serial }), s.fails
}

// hang waits until the context ends if what is asked hangs.
func (h *house) hang(ctx context.Context, what string) error {
	h.mu.Lock()
	hangs := h.hangs == what
	h.mu.Unlock()
	if !hangs {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// ledger is the store.
type ledger struct{ *house }

// write stores something, unless it fails before; it may be stored and fail afterward.
func (l ledger) write(name string, store func()) error {
	var err error
	if l.fail != nil {
		err = l.fail(name)
	}
	if err == nil || l.after {
		store()
	}
	return err
}

func (l ledger) PutInventoryPast(_ context.Context, p cke.InventoryPast) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write("past", func() { l.past = p })
}

func (l ledger) PutInventoryLog(_ context.Context, log cke.InventoryLog, answered bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write("log", func() {
		if l.log = log; answered {
			l.order = nil
		}
	})
}

func (l ledger) EditSpec(_ context.Context, e cke.InventoryEdit) (cke.Spec, cke.InventoryLog, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.edited != nil {
		l.edited()
	}
	if e.Generation != l.spec.Generation {
		return cke.Spec{}, e.Log, fmt.Errorf("it has revision %d: %w", l.spec.Generation, cke.ErrConflict)
	}
	for _, n := range e.Cluster.Nodes {
		if other := l.taken[n.Address]; other != "" {
			return cke.Spec{}, e.Log, fmt.Errorf("%s is a node of cluster %s: %w", n.Name(), other, cke.ErrConflict)
		}
	}
	next := l.spec.Following(e.Cluster, l.spec)
	next.SetAt, next.SetBy, next.Cause = time.Now(), e.By, e.Cause
	e.Change.Generation, e.Change.At = next.Generation, next.SetAt
	e.Log.Changes = append(slices.Clone(e.Log.Changes), e.Change)
	if e.Order != nil {
		e.Log.Answer = &cke.InventoryAnswer{Order: *e.Order, At: next.SetAt, Generation: next.Generation}
	}
	err := l.write("spec", func() {
		if l.spec, l.log = next, e.Log; e.Order != nil {
			l.order = nil
		}
	})
	return next, e.Log, err
}

// lead runs a keeper until the end of f, as a term would, and tells it every 5 s what a loop would.
func (h *house) lead(f func(k *keep.Keeper)) {
	h.t.Helper()
	k := keep.New(keep.Config{
		Cluster: "prod", Ledger: ledger{h}, Now: time.Now, Log: slog.New(slog.NewTextHandler(h.t.Output(), nil)),
		Past: func(context.Context) (cke.InventoryPast, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			p := h.past
			p.InventoryLog = h.log
			return p, nil
		},
		Settings: func() *cke.InventorySettings { h.mu.Lock(); defer h.mu.Unlock(); return h.settings },
		Order:    func() *cke.InventoryOrder { h.mu.Lock(); defer h.mu.Unlock(); return h.order },
		Others: func(ctx context.Context) (map[string]string, error) {
			if err := h.hang(ctx, "others"); err != nil {
				return nil, err
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			return maps.Clone(h.taken), h.others
		},
		Template: func(s cke.InventorySettings) (cke.Template, error) {
			if strings.Contains(s.Template, "fault") {
				return cke.Template{}, errors.New("the template has a fault")
			}
			return h.template(), nil
		},
		Open: func(cke.InventorySource, string) (sabakan.Source, error) {
			if h.open != nil {
				return h.open(), nil
			}
			return source{h, new(int)}, nil
		},
		Check: func(ctx context.Context, _ cke.Spec, _ cke.Identity, nodes []cke.Node, _ []string) (map[string]string, error) {
			if err := h.hang(ctx, "checks"); err != nil {
				return nil, err
			}
			time.Sleep(h.slow)
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, n := range nodes {
				h.checked = append(h.checked, n.Hostname)
			}
			return h.unfit, nil
		},
		Choose: sabakan.Choose,
		Simulate: func(context.Context, cke.InventoryWanted) func(cke.Cluster) (sabakan.Simulated, error) {
			return func(cke.Cluster) (sabakan.Simulated, error) { return sabakan.Simulated{Least: 1, Tolerance: 1}, nil }
		},
		Verify:  func([]byte) error { return nil },
		Applied: func(c cke.InventoryCause) { h.change(func() { h.applied = append(h.applied, c) }) },
	})
	every := 5 * time.Second
	if h.open != nil {
		every = 100 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { k.Run(ctx) })
	wg.Go(func() {
		for ctx.Err() == nil {
			k.Update(h.wanted())
			select {
			case <-ctx.Done():
			case <-time.After(every):
			}
		}
	})
	defer func() { cancel(); wg.Wait() }()
	if h.open == nil {
		synctest.Wait()
	}
	f(k)
}

// wanted is what a loop tells: each member follows the file at once.
func (h *house) wanted() cke.InventoryWanted {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.status
	s.Cluster, s.Generation, s.ObservedGeneration, s.ObservedAt, s.Health, s.Tolerance = "prod", h.spec.Generation, h.spec.Generation, time.Now(), cke.HealthReady, 1
	s.Etcd.Quorate = true
	for _, n := range h.spec.Cluster.Nodes {
		st := cke.NodeStatus{Node: n, SeenAt: s.ObservedAt}
		if n.Address == h.silent {
			st.SeenAt, st.Problem = time.Time{}, &cke.Problem{Message: "no answer"}
		}
		s.Nodes = append(s.Nodes, st)
		if n.ControlPlane {
			s.Members = append(s.Members, cke.MemberStatus{Name: n.Name(), Address: n.Address, Join: cke.JoinID(n.Name()), Role: "follower", Ready: n.Address != h.silent})
		}
	}
	return cke.InventoryWanted{Spec: h.spec, Status: s}
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// members are the names of the control-plane nodes.
func (h *house) members() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, n := range h.spec.Cluster.ControlPlane() {
		all = append(all, n.Name())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// asks orders a change.
func (h *house) asks(hash string) {
	o := cke.NewInventoryOrder(hash, "me@here", time.Now())
	h.change(func() { h.order = &o })
}
