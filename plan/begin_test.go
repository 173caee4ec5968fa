package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cke/plan"
	"cke/server/strategy"
	"cke/sim"
)

// faults are what may have happened to a node.
var faults = []struct {
	name string
	do   func(n *sim.Node)
}{
	{"power off", (*sim.Node).PowerOff},
	{"stopped by hand", (*sim.Node).StopByHand},
	{"paused", func(n *sim.Node) { n.PauseContainers(true) }},
	{"volumes removed", (*sim.Node).RemoveVolumes},
	{"volumes emptied", (*sim.Node).EmptyVolumes},
	{"containers removed", (*sim.Node).RemoveContainers},
	{"blank", (*sim.Node).Blank},
	{"other host key", (*sim.Node).ChangeHostKey},
	{"key refused", func(n *sim.Node) { n.RefuseKey(true) }},
	{"client port filtered", func(n *sim.Node) { n.FilterClientPort(true) }},
	{"foreign etcd", func(n *sim.Node) { n.AddForeignEtcd("etcd", 2379, 2380) }},
	{"isolated", func(n *sim.Node) { n.World().Isolate(n.Name()) }},
	{"cut from the management host", func(n *sim.Node) { n.World().Cut(sim.Management, n.Name()) }},
	{"cut from the other nodes", func(n *sim.Node) {
		for _, other := range n.World().Nodes() {
			if other != n {
				n.World().Cut(n.Name(), other.Name())
			}
		}
	}},
	{"engine hangs", (*sim.Node).Hang},
}

// TestPlan_BeginsWithWhatTheDaemonDecides spoils random clusters: whatever the daemon then decides, the copy of what it
// saw leads to the same decision, for the same reason.
func TestPlan_BeginsWithWhatTheDaemonDecides(t *testing.T) {
	t.Parallel()
	runs := 200
	if testing.Short() {
		runs = 80
	}
	for seed := range runs {
		synctest.Test(t, func(t *testing.T) { spoilAndPlan(t, uint64(seed)) })
	}
}

func spoilAndPlan(t *testing.T, seed uint64) {
	draw := rand.New(rand.NewPCG(seed, 11))
	const machines = 5
	r := newReality(t, machines)
	file := anyFile(draw, machines)
	r.set(file)
	r.work()
	story := ""
	for range 1 + draw.IntN(3) {
		f, node := faults[draw.IntN(len(faults))], fmt.Sprintf("cp%d", 1+draw.IntN(machines))
		story += node + " " + f.name + "; "
		f.do(r.Node(node))
	}
	if draw.IntN(2) == 0 {
		next := anyFile(draw, machines)
		next.Nodes = slices.Clone(file.Nodes) // all are known
		for i := range next.Nodes {
			next.Nodes[i].ControlPlane = next.Nodes[i].ControlPlane != (draw.IntN(4) == 0)
		}
		r.set(next)
	}
	time.Sleep(6 * time.Second) // elections are over, silent members are given up
	in := r.look()
	d := strategy.Decide(in)
	r.status = strategy.Report(in, d, r.status)
	planned := r.told(r.wanted.Cluster)
	planned.Generation = r.wanted.Generation
	p := plan.Make(t.Context(), planned)
	switch {
	case d.Operation == nil || d.Converged:
		if len(p.Steps) > 0 && p.Steps[0].Kind == plan.KindOperation {
			t.Errorf("seed %d: %sthe daemon waits (%s), the plan begins with %s: %s", seed, story, d.Reason, p.Steps[0].Operation, p.Steps[0].Reason)
		}
	case len(p.Steps) == 0:
		t.Errorf("seed %d: %sthe daemon does %s (%s), the plan nothing: %s", seed, story, d.Operation.Name(), d.Reason, p.Reason)
	case p.Steps[0].Operation != d.Operation.Name() || !slices.Equal(p.Steps[0].Targets, d.Operation.Targets()) || p.Steps[0].Reason != d.Reason:
		t.Errorf("seed %d: %sthe daemon does %s %v (%s), the plan begins with %s %v (%s)", seed, story, d.Operation.Name(), d.Operation.Targets(), d.Reason,
			p.Steps[0].Operation, p.Steps[0].Targets, p.Steps[0].Reason)
	}
}

// A voter whose start the store lacks is one in a plan as well.
func TestMake_CountsAVoterWhoseStartIsNotOnRecord(t *testing.T) {
	s, lacks := founded(3, "3.6.16"), founded(3, "3.6.16")
	lacks.Identity.Joins[2].StartedAt = time.Time{}
	for _, s := range []*scene{s, lacks} {
		s.Spec.Nodes = s.Spec.Nodes[:2]
	}
	if want, got := written(plan.Make(t.Context(), s.Input)), written(plan.Make(t.Context(), lacks.Input)); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
}
