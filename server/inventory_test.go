package server_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"cke"
	"cke/server"
)

// stageInventory is the inventory of a stage's cluster.
type stageInventory struct {
	mu     sync.Mutex
	wanted []cke.InventoryWanted
	status *cke.InventoryStatus
	ended  bool
}

var _ server.Inventory = (*stageInventory)(nil)

func (i *stageInventory) Update(w cke.InventoryWanted) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wanted = append(i.wanted, w)
}

func (i *stageInventory) updates() []cke.InventoryWanted {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.wanted)
}

func (i *stageInventory) Status() *cke.InventoryStatus { return i.status }
func (*stageInventory) Changed() <-chan struct{}       { return nil }

func (i *stageInventory) Run(ctx context.Context) {
	<-ctx.Done()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
}

// anInventory is one of which something follows.
func anInventory() *stageInventory {
	return &stageInventory{status: &cke.InventoryStatus{Source: "sabakan at http://10.0.0.1:10080", ReadAt: noon, Candidates: 2, Reason: "it is as it is",
		Hosts:  map[cke.HostState]int{cke.HostHealthy: 4, cke.HostRetired: 1},
		Change: &cke.InventoryProposal{Hash: "abc", Cause: cke.CauseRetired},
		Notes:  []cke.InventoryNote{{Node: "n2", Text: "the inventory says that machine n2 is unreachable, and its member serves", Code: cke.CodeHostDisagrees}}}}
}

func TestDaemon_TellsOfTheInventoryBesideTheLoop(t *testing.T) {
	i := anInventory()
	governAll(t, nil, i, func(c *country) {
		g := c.stage("one")
		g.pass(2 * probe)
		c.metrics.InventoryChange("one", cke.CauseRetired)
		s := g.status()
		if s.Inventory != i.status {
			t.Errorf("%+v", s.Inventory)
		}
		if !slices.ContainsFunc(s.Problems, func(p cke.Problem) bool { return p.Code == cke.CodeHostDisagrees && p.Node == "n2" && p.Remedy != "" }) {
			t.Errorf("%+v", s.Problems)
		}
		all := i.updates()
		w := all[len(all)-1]
		if w.Spec.Cluster.Name != "one" || w.Status.Cluster != "one" || w.Identity.Incarnation == nil {
			t.Errorf("%+v", w)
		}
		series := scrape(t, c.metrics)
		for _, want := range []string{`cke_inventory_up{cluster="one"} 1`, `cke_inventory_last_success_timestamp_seconds{cluster="one"} 1.77`,
			`cke_inventory_hosts{cluster="one",state="healthy"} 4`, `cke_inventory_hosts{cluster="one",state="unknown"} 0`, `cke_inventory_candidates{cluster="one"} 2`,
			`cke_inventory_change_pending{cluster="one"} 1`, `cke_inventory_change_held{cluster="one"} 0`, `cke_inventory_changes_total{cause="retired",cluster="one"} 1`, `cke_inventory_changes_total{cause="more",cluster="one"} 0`} {
			if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(want)).MatchString(series) {
				t.Errorf("no %s in\n%s", want, strings.Join(regexp.MustCompile(`(?m)^cke_inventory.*`).FindAllString(series, -1), "\n"))
			}
		}
	}, "one")
	if !i.ended {
		t.Error("the work with the inventory has not ended with the daemon")
	}
}

// A leader daemon that takes over has read the status of the one before, which may be a minute old: nothing is chosen by that one.
func TestDaemon_TheInventoryGetsWhatItsOwnDaemonObserved(t *testing.T) {
	i := anInventory()
	governAll(t, nil, i, func(c *country) {
		g := c.stage("one")
		for range 2 {
			first := len(i.updates())
			g.led().end(cke.ErrDeposed)
			g.pass(2 * probe)
			now := i.updates()[first:]
			if len(now) == 0 {
				t.Error("no update")
			}
			for _, w := range now {
				if s := w.Status; s.Leader != g.led().Leader() || s.Generation != w.Spec.Generation {
					t.Errorf("revision %d with a status of revision %d by %+v", w.Spec.Generation, s.Generation, s.Leader)
				}
			}
		}
	}, "one")
}

// An inventory that is not in use has no gauges: they would look like those of one that cannot be read. One with a wrong template does.
func TestDaemon_HasNoGaugesOfAnInventoryThatIsNotInUse(t *testing.T) {
	for _, c := range []struct {
		status cke.InventoryStatus
		shown  bool
	}{
		{cke.InventoryStatus{Reason: "the inventory is not used: `ckecli sabakan enable`", Stop: "off"}, false},
		{cke.InventoryStatus{Reason: "template: line 3: unknown key", Stop: "off", Code: cke.CodeInventory}, true},
	} {
		governAll(t, nil, &stageInventory{status: &c.status}, func(country *country) {
			country.stage("one").pass(2 * probe)
			if series := scrape(t, country.metrics); strings.Contains(series, "\ncke_inventory_last_success_timestamp_seconds{") != c.shown || strings.Contains(series, "\ncke_inventory_hosts{") != c.shown {
				t.Errorf("%s: want shown %v", c.status.Reason, c.shown)
			}
		}, "one")
	}
}
