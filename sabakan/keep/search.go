package keep

import (
	"context"
	"slices"
	"time"

	"cke"
	"cke/plan"
	"cke/sabakan"
	"cke/server/strategy"
)

const (
	// searchFor bounds one round of checks and questions.
	searchFor = 30 * time.Second
	// checkAgain is how old the check of a machine gets that a change is shown with; sabakan.Choose takes none that is much older.
	checkAgain = 10 * time.Minute
	// simulateFor bounds one simulation.
	simulateFor = 30 * time.Second
)

// findings are what machines and the inventory answered when they were asked.
type findings struct {
	source       sabakan.Source // that was asked
	checks       map[string]sabakan.Check
	unregistered []string
	err          error
}

// search checks the machines of which something has to be known, and asks the inventory for those that it lacks, beside.
func (w *work) search(run context.Context, in sabakan.Input) {
	check, ask := w.choice.Check, w.choice.Ask
	if w.override != nil {
		check, ask = union(check, w.override.Check), union(ask, w.override.Ask)
	}
	if c := w.choice.Change; c != nil && in.Now.Sub(w.checks[c.New].At) > checkAgain && w.checks[c.New].Problem == "" && !w.checks[c.New].At.IsZero() {
		check = union(check, []string{c.New}) // a change that is shown stays while its machine fits
	}
	ask = slices.DeleteFunc(slices.Clone(ask), func(serial string) bool { return w.asked[serial] || slices.Contains(in.Unregistered, serial) })
	if w.looking || len(check)+len(ask) == 0 {
		return
	}
	w.looking = true
	for _, serial := range ask {
		w.asked[serial] = true
	}
	source, k := w.source, w.now()
	nodes, forgotten := w.toCheck(in, check)
	w.beside(func() {
		ctx, cancel := context.WithTimeout(run, searchFor)
		defer cancel()
		f := findings{source: source, checks: map[string]sabakan.Check{}}
		if len(nodes) > 0 {
			var problems map[string]string
			if problems, f.err = w.c.Check(ctx, k.Spec, k.Identity, nodes, forgotten); f.err == nil {
				for _, n := range nodes {
					f.checks[n.Hostname] = sabakan.Check{At: w.c.Now(), Address: n.Address, Problem: problems[n.Address]}
				}
			}
		}
		for _, serial := range ask {
			if is, err := source.Registered(ctx, serial); err == nil && !is {
				f.unregistered = append(f.unregistered, serial)
			}
		}
		select {
		case w.found <- f:
		case <-run.Done():
		}
	})
}

// toCheck are the nodes that some machines would be, and those addresses whose host keys are of other machines.
func (w *work) toCheck(in sabakan.Input, serials []string) (nodes []cke.Node, forgotten []string) {
	for _, h := range in.Read.Hosts {
		if !slices.Contains(serials, h.ID) {
			continue
		}
		n := sabakan.NodeOf(in.Template, h)
		nodes = append(nodes, n)
		if was := in.Past.Serials[n.Address]; was != "" && was != h.ID {
			forgotten = append(forgotten, n.Address)
		}
	}
	return nodes, forgotten
}

// learned goes on with what was found.
func (w *work) learned(ctx context.Context, f findings) {
	w.looking = false
	switch {
	case f.source != w.source:
		return
	case f.err != nil:
		w.c.Log.Warn("machines of the inventory were not checked; that is tried again", "error", f.err)
		return
	}
	for serial, c := range f.checks {
		w.checks[serial] = c
	}
	for _, serial := range f.unregistered {
		w.unregistered[serial] = w.c.Now()
	}
	if w.usable() {
		w.choose(ctx)
	}
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// Simulate returns what plays the work on a cluster file forward, from what is known of a cluster now.
func Simulate(ctx context.Context, k cke.InventoryWanted) func(cke.Cluster) (sabakan.Simulated, error) {
	return func(c cke.Cluster) (sabakan.Simulated, error) {
		ctx, cancel := context.WithTimeout(ctx, simulateFor)
		defer cancel()
		p := plan.Make(ctx, strategy.InputFrom(k.Spec.Following(c, k.Spec), k.Identity, k.Requests, k.Status))
		s := sabakan.Simulated{Least: p.End.Tolerance, Tolerance: p.End.Tolerance}
		if p.LeastTolerance != nil {
			s.Least = *p.LeastTolerance
		}
		if z := p.Zones(); z != nil {
			s.Zones = z.String()
		}
		if p.Outcome != plan.Converged {
			s.Blocked = p.Reason
		}
		return s, ctx.Err()
	}
}
