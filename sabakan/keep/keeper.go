// Package keep works with the inventory of one cluster while a daemon leads it: it reads the inventory, chooses what follows, checks
// machines before one is chosen, and stores the revisions of the cluster file that the operator or the template allows.
package keep

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"cke"
	"cke/internal/contain"
	"cke/sabakan"
)

// Ledger is what the leader daemon writes. Its writes fail once the term is over.
type Ledger interface {
	PutInventoryPast(ctx context.Context, p cke.InventoryPast) error
	PutInventoryLog(ctx context.Context, l cke.InventoryLog, answered bool) error
	EditSpec(ctx context.Context, e cke.InventoryEdit) (cke.Spec, cke.InventoryLog, error)
}

// Config configures a Keeper. All of it must be set.
type Config struct {
	Cluster string
	Ledger  Ledger
	// Past returns what is stored of earlier reads and changes.
	Past func(ctx context.Context) (cke.InventoryPast, error)
	// Settings and Order return what operators said last; nil: nothing.
	Settings func() *cke.InventorySettings
	Order    func() *cke.InventoryOrder
	// Others names the other cluster that a node belongs to, by address and by serial.
	Others func(ctx context.Context) (map[string]string, error)
	// Template reads a template with its variables, and fills its defaults in.
	Template func(s cke.InventorySettings) (cke.Template, error)
	Open     func(source cke.InventorySource, url string) (sabakan.Source, error)
	// Check returns what keeps each of some machines from carrying a member of the cluster, by address; "": nothing does. The host keys
	// of forgotten addresses are of other machines.
	Check func(ctx context.Context, spec cke.Spec, id cke.Identity, nodes []cke.Node, forgotten []string) (map[string]string, error)
	// Choose is sabakan.Choose. The simulation's proof takes stops out of it, one at a time.
	Choose func(in sabakan.Input) sabakan.Choice
	// Simulate returns what plays the work on a cluster file forward.
	Simulate func(ctx context.Context, w cke.InventoryWanted) func(cke.Cluster) (sabakan.Simulated, error)
	// Verify returns what is wrong with the text of a cluster file.
	Verify func(text []byte) error
	// Applied is called after a change was stored.
	Applied func(cke.InventoryCause)
	Now     func() time.Time
	Log     *slog.Logger
}

// Keeper works while Run runs. Its other methods are safe for concurrent use.
type Keeper struct {
	c       Config
	updated chan struct{} // receives after Update
	changed chan struct{}

	mu     sync.Mutex
	wanted cke.InventoryWanted
	known  bool // Update was called
	status *cke.InventoryStatus
}

// New makes a Keeper; it reads and writes nothing before Run.
func New(c Config) *Keeper {
	return &Keeper{c: c, updated: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

// Changed receives when something that the operator should know of has changed; coalesced.
func (k *Keeper) Changed() <-chan struct{} { return k.changed }

// Update sets what is declared and observed now. It never waits.
func (k *Keeper) Update(w cke.InventoryWanted) {
	k.mu.Lock()
	k.wanted, k.known = w, true
	k.mu.Unlock()
	wake(k.updated)
}

// Status returns what is known now; nil: the cluster has no inventory. It is not to be changed.
func (k *Keeper) Status() *cke.InventoryStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// faultPause is how long what failed by a fault in cke rests.
const faultPause = 5 * time.Second

// Run works until ctx is canceled.
func (k *Keeper) Run(ctx context.Context) {
	for {
		err := contain.Do(func() error { k.run(ctx); return nil })
		if err == nil {
			return
		}
		k.c.Log.Error("a panic while working with the inventory of one cluster; all else continues", "cluster", k.c.Cluster, "panic", err, "stack", contain.Of(err).Stack)
		k.publish(&cke.InventoryStatus{Reason: err.Error(), Code: cke.CodeInventory, Stop: string(sabakan.StopRead)})
		select {
		case <-ctx.Done():
			return
		case <-time.After(faultPause):
		}
	}
}

func (k *Keeper) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	w := &work{Keeper: k, reads: make(chan taken), found: make(chan findings), checks: map[string]sabakan.Check{}, unregistered: map[string]time.Time{}, asked: map[string]bool{}}
	defer func() { // first all that it started ends
		cancel()
		w.running.Wait()
	}()
	for {
		select { // of two things that are there, the one that depends on no chance
		case <-k.updated:
			w.look(ctx)
			continue
		default:
		}
		select {
		case <-ctx.Done():
			return
		case <-k.updated:
			w.look(ctx)
		case r := <-w.reads:
			w.took(ctx, r)
		case f := <-w.found:
			w.learned(ctx, f)
		}
	}
}

// publish replaces the status.
func (k *Keeper) publish(s *cke.InventoryStatus) {
	k.mu.Lock()
	was := k.status
	k.status = s
	k.mu.Unlock()
	if !sameNews(was, s) {
		wake(k.changed)
	}
}

// sameNews reports whether an operator would learn nothing from the second one.
func sameNews(a, b *cke.InventoryStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	hash := func(p *cke.InventoryProposal) string {
		if p == nil {
			return ""
		}
		return p.Hash
	}
	return a.Code == b.Code && a.Stop == b.Stop && hash(a.Change) == hash(b.Change) && hash(a.Override) == hash(b.Override) && a.Failures == b.Failures && len(a.Notes) == len(b.Notes)
}
