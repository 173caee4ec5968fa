package plan_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/op"
	"cke/plan"
	"cke/server/strategy"
	"cke/sim"
)

// reality is a simulated cluster that a daemon works on; a plan is made from what it tells and knows nothing of it.
type reality struct {
	*sim.World
	t      *testing.T
	daemon *sim.Daemon
	env    op.Env
	status cke.Status
	wanted cke.Spec
	asked  cke.Requests
}

func newReality(t *testing.T, machines int) *reality {
	w := sim.New("prod", time.Now)
	for _, n := range nodes(1, machines) {
		w.AddNode(n.Hostname, n.Address)
	}
	r := &reality{World: w, t: t, daemon: w.NewDaemon()}
	r.env = op.Env{Cluster: "prod", Machines: r.daemon.Machines(), Etcd: r.daemon.Etcd(), Authority: r.daemon.Authority(), Ledger: r.daemon.Term(),
		Leader: r.daemon.Term().Leader(), Now: time.Now, Pause: sleep, Log: slog.New(slog.DiscardHandler)}
	return r
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// set stores a file.
func (r *reality) set(c cke.Cluster) {
	r.Store().SetSpec(c)
	r.wanted = r.Store().Spec()
}

// look is what the daemon knows.
func (r *reality) look() strategy.Input {
	in := strategy.Input{Spec: r.wanted.Cluster.WithDefaults(), Generation: r.wanted.Generation, Identity: r.Store().Identity(), Requests: r.asked, Before: r.status}
	r.daemon.Observer().Update(in.Spec, in.Identity)
	in.Seen = r.daemon.Observer().Observe(r.t.Context())
	return in
}

// work lets the daemon do what is to be done, and returns it. It ends when all is so, or when nothing goes on.
func (r *reality) work() []string {
	var done []string
	for idle := 0; idle < 30; {
		in := r.look()
		d := strategy.Decide(in)
		r.status = strategy.Report(in, d, r.status)
		switch {
		case d.Converged:
			return done
		case d.Operation == nil:
			idle++
			time.Sleep(max(d.Again, time.Second))
		default:
			rec, err := op.Run(r.t.Context(), r.env, r.daemon.Term(), cke.Record{Reason: d.Reason}, d.Operation)
			if err != nil {
				r.t.Fatalf("%s: %v", rec.Operation, err)
			}
			idle = 0
			done = append(done, rec.Operation+" "+strings.Join(rec.Targets, " "))
		}
	}
	return done
}

// told is what a plan is made from: what stands in the store, as it is read from there, and a file.
func (r *reality) told(file cke.Cluster) strategy.Input {
	text, err := json.Marshal(r.status)
	if err != nil {
		r.t.Fatal(err)
	}
	var status cke.Status
	if err := json.Unmarshal(text, &status); err != nil {
		r.t.Fatal(err)
	}
	return strategy.Input{Spec: file.WithDefaults(), Generation: r.wanted.Generation + 1, Identity: r.Store().Identity(), Before: status,
		Seen: cke.Observation{ObservedAt: status.ObservedAt, Nodes: status.Nodes, Etcd: status.Etcd}}
}

// anyFile draws a file: which nodes carry members, and how they run.
func anyFile(r *rand.Rand, machines int) cke.Cluster {
	c := cke.Cluster{Name: "prod"}
	for _, n := range nodes(1, machines) {
		n.ControlPlane = r.IntN(3) > 0
		if n.ControlPlane || r.IntN(2) == 0 {
			c.Nodes = append(c.Nodes, n)
		}
	}
	if !slices.ContainsFunc(c.Nodes, func(n cke.Node) bool { return n.ControlPlane }) {
		c.Nodes = nodes(1, 1)
	}
	o := &c.Options.Etcd
	o.Version = []string{"3.6.15", "3.6.16"}[r.IntN(2)]
	if r.IntN(2) == 0 {
		o.ExtraArgs = []string{"--auto-compaction-retention=1h"}
	}
	if r.IntN(3) == 0 {
		o.Resources.CPUs = 2
	}
	return c
}

// TestPlan_IsWhatThenHappens plans random files for random clusters of healthy members, whoever leads them, and then
// lets a daemon do it.
func TestPlan_IsWhatThenHappens(t *testing.T) {
	t.Parallel()
	runs := 300
	if testing.Short() {
		runs = 50
	}
	for seed := range runs {
		synctest.Test(t, func(t *testing.T) { planAndDo(t, uint64(seed), false) })
	}
}

// TestPlan_IsWhatThenHappensWithADeadNode does the same while a machine is off.
func TestPlan_IsWhatThenHappensWithADeadNode(t *testing.T) {
	t.Parallel()
	runs := 300
	if testing.Short() {
		runs = 50
	}
	for seed := range runs {
		synctest.Test(t, func(t *testing.T) { planAndDo(t, uint64(seed), true) })
	}
}

func planAndDo(t *testing.T, seed uint64, dead bool) {
	draw := rand.New(rand.NewPCG(seed, 7))
	const machines = 6
	r := newReality(t, machines)
	r.set(anyFile(draw, machines))
	r.work()
	if draw.IntN(2) == 0 { // another history, and perhaps another leader
		r.set(anyFile(draw, machines))
		r.work()
	}
	if dead {
		r.Node(fmt.Sprintf("cp%d", 1+draw.IntN(machines))).PowerOff()
		time.Sleep(time.Second)
		r.work()
	}
	next := anyFile(draw, machines)
	if draw.IntN(3) == 0 {
		next.Options.Etcd.Version = "3.7.3" // each member is stopped twice
	}
	unseenDead := dead && slices.ContainsFunc(next.Nodes, func(n cke.Node) bool {
		_, looked := cke.Observation{Nodes: r.status.Nodes}.Node(n.Name())
		return !looked
	})
	if unseenDead {
		return // a node that was never seen is assumed to answer
	}
	p := plan.Make(t.Context(), r.told(next))
	var planned []string
	for _, s := range p.Steps {
		if s.Kind == plan.KindOperation {
			planned = append(planned, s.Operation+" "+strings.Join(s.Targets, " "))
			if s.Error != "" {
				t.Errorf("seed %d: %s is planned to fail: %s", seed, s.Operation, s.Error)
			}
			if s.Tolerance.Gap() && s.Tolerance.Before > 0 {
				t.Errorf("seed %d: %s takes away a quorum of three or more: %+v", seed, s.Operation, s.Tolerance)
			}
		}
	}
	r.set(next)
	done := r.work()
	if d := cmp.Diff(planned, done); d != "" {
		t.Fatalf("seed %d (-planned +done):\n%s", seed, d)
	}
	if !dead && p.Outcome != plan.Converged {
		t.Errorf("seed %d: %s: %s", seed, p.Outcome, p.Reason)
	}
	if (p.Outcome == plan.Converged) != (r.status.Ready == r.status.Declared && p.End.Ready == p.End.Declared) {
		t.Errorf("seed %d: planned %s, %+v, and then %s", seed, p.Outcome, p.End, r.status.Summary)
	}
	if v := r.Violations(); v != nil {
		t.Errorf("seed %d: %v", seed, v)
	}
}
