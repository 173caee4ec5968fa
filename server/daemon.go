package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"cke"
	"cke/op"
)

// Store is what the daemon needs of the store, apart from terms.
type Store interface {
	// WatchClusters sends the names of all clusters, first at once, then whenever they change, until ctx is canceled.
	WatchClusters(ctx context.Context) <-chan []string
	// Campaign blocks until this daemon leads the cluster or ctx is canceled.
	Campaign(ctx context.Context, cluster string) (Seat, error)
}

// Seat is a term as leader of a cluster, and makes on request what a leader needs.
type Seat struct {
	Term
	// Connect gives access to the cluster's nodes, with the authority that issues its certificates.
	Connect func() (Nodes, cke.Authority, error)
	// Backups makes what takes the cluster's backups, with the authority that issues its certificates; nil: none are taken.
	Backups func(cke.Authority) (Backups, error)
	// Inventory makes what works with the cluster's inventory; nil: none is read.
	Inventory func() Inventory
	// Commands are those of the daemon's configuration; nil: there are none.
	Commands CommandRunner
	// Snapshots returns what restores of the cluster continue from; nil: nothing can be restored.
	Snapshots func(Nodes) (cke.Snapshots, error)
}

// Nodes is access to one cluster's nodes and members during one term.
type Nodes interface {
	cke.Machines
	cke.Etcd
	Observer
	Close()
}

// Daemon leads as many clusters as it is elected for.
type Daemon struct {
	Store   Store
	Probe   time.Duration
	Now     func() time.Time
	Log     *slog.Logger
	Metrics *Metrics
	// Progress gets what each loop does; nil: it is not reported.
	Progress *Progress
	// Samples get what the curves of each cluster show; nil: none are kept.
	Samples *Samples
	// Fleet sends which daemons are alive and what they lead, first at once, then whenever that changes, until ctx is canceled; nil: this
	// daemon hands nothing over.
	Fleet func(ctx context.Context) <-chan cke.Fleet
	// Settle is how long another daemon has to be alive, as this one sees it, before clusters move to it or because of it: one that
	// comes and goes gets nothing. 0: 15 s.
	Settle time.Duration

	duty duty
}

// electionRetry is the pause after a campaign or a term that ended with an error. It doubles, up to unfitRetry, while terms fail
// within unfitTerm: others that can lead are not to get such a cluster back again and again.
const (
	electionRetry = time.Second
	unfitRetry    = time.Minute
	unfitTerm     = time.Minute
)

// Run leads clusters until ctx is canceled; it returns once every loop has returned.
func (d *Daemon) Run(ctx context.Context) error {
	d.Metrics.serves(true)
	defer d.Metrics.serves(false)
	var wg sync.WaitGroup
	defer wg.Wait()
	if d.Fleet != nil {
		wg.Go(func() { d.share(ctx) })
	}
	campaigns := map[string]context.CancelFunc{}
	for names := range d.Store.WatchClusters(ctx) {
		present := map[string]bool{}
		for _, name := range names {
			present[name] = true
			if campaigns[name] != nil {
				continue
			}
			clusterCtx, cancel := context.WithCancel(ctx)
			campaigns[name] = cancel
			wg.Go(func() { d.serve(clusterCtx, name) })
		}
		for name, cancel := range campaigns {
			if !present[name] {
				cancel()
				delete(campaigns, name)
			}
		}
		if len(names) == 0 {
			d.Log.Info("no cluster is declared; waiting for `ckecli cluster set FILE`")
		}
	}
	for _, cancel := range campaigns {
		cancel()
	}
	return ctx.Err()
}

// serve campaigns for one cluster and leads it, again and again.
func (d *Daemon) serve(ctx context.Context, cluster string) {
	log := d.Log.With("cluster", cluster)
	d.Metrics.leads(cluster, false)
	defer d.Metrics.forget(cluster)
	defer d.Samples.forget(cluster)
	for retry := electionRetry; ctx.Err() == nil; {
		elected, err := d.term(ctx, cluster, log)
		unfit := false
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, cke.ErrNotFound), errors.Is(err, errResigned), errors.As(err, new(*handover)):
			log.Info("term ended", "reason", err)
		default:
			log.Warn("term ended", "error", err)
			unfit = !elected.IsZero() && d.Now().Sub(elected) < unfitTerm && !errors.Is(err, cke.ErrDeposed)
		}
		// A cluster that is gone ends ctx. One that was deleted and declared again between two observations does not.
		if !unfit {
			retry = electionRetry
		}
		if sleep(ctx, retry) != nil {
			return
		}
		retry = min(2*retry, unfitRetry)
	}
}

// term is one campaign and the time as leader after it; elected: when it was won.
func (d *Daemon) term(ctx context.Context, cluster string, log *slog.Logger) (elected time.Time, err error) {
	seat, err := d.Store.Campaign(ctx, cluster)
	if err != nil {
		return elected, fmt.Errorf("wait to be elected: %w", err)
	}
	elected = d.Now()
	t, stops := seat.Term, ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.Context(), func() { cancel(context.Cause(t.Context())) })()
	defer func() { d.leave(stops, t, cluster, err, log) }()
	charge := newCharge(func() *handover { return d.duty.elsewhere(cluster, d.Now()) })
	defer d.duty.takes(cluster, charge, elected)()
	log = log.With("term", t.Leader().Term)
	log.Info("leading")
	d.Metrics.leads(cluster, true)
	defer d.Metrics.leads(cluster, false)
	d.Progress.led(cluster, d.Now())
	defer d.Progress.left(cluster)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("fault in cke: %v", p)
			log.Error("the loop panicked; the cluster is left as it is", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	nodes, authority, err := seat.Connect()
	if err != nil {
		return elected, fmt.Errorf("prepare the connections to nodes: %w", err)
	}
	defer nodes.Close()
	loop := &Loop{
		Term: t, Observer: nodes,
		Env:   op.Env{Cluster: cluster, Machines: nodes, Etcd: nodes, Authority: authority, Ledger: t, Leader: t.Leader(), Now: d.Now, Pause: sleep, Log: log},
		Probe: d.Probe, Now: d.Now, Log: log, Metrics: d.Metrics, Progress: d.Progress, Samples: d.Samples, charge: charge,
	}
	if seat.Backups != nil {
		b, err := seat.Backups(authority)
		if err != nil {
			return elected, fmt.Errorf("prepare the backups: %w", err)
		}
		defer d.keep(ctx, b)()
		loop.Backups, loop.Env.Backups = b, b
	}
	if seat.Inventory != nil {
		loop.Inventory = seat.Inventory()
		defer d.beside(ctx, loop.Inventory)()
	}
	if seat.Commands != nil {
		ctx, end := context.WithCancel(ctx)
		commands := NewCommands(ctx, nodes, seat.Commands, t.Check, d.Now, log)
		defer func() {
			end()
			if !commands.Wait(commandsEnd) {
				log.Warn("a node that reboots or is repaired is still being observed: it does not answer")
			}
		}()
		loop.Commands, loop.Env.Commands = commands, commands
	}
	if seat.Snapshots != nil {
		if loop.Env.Snapshots, err = seat.Snapshots(nodes); err != nil {
			return elected, fmt.Errorf("prepare restores: %w", err)
		}
	}
	return elected, loop.Run(ctx)
}

// resignLimit bounds the last word of a term.
const resignLimit = time.Second

// sleep waits for d or returns ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
