package sim_test

import (
	"slices"
	"time"

	"cke"
	"cke/internal/schedule"
	"cke/server/strategy"
	"cke/sim"
)

// queueMutations take each rule away by which nodes of the queues get their turns.
var queueMutations = []mutation{
	{name: "the order of reboots", blind: func(in *strategy.Input) {
		of := func(leads bool) func(cke.Entry) bool {
			return func(e cke.Entry) bool {
				return slices.ContainsFunc(in.Seen.Etcd.Endpoints, func(p cke.EndpointStatus) bool {
					j, carries := joinAt(in.Identity, e.Address)
					return carries && p.Join == j.ID && (p.LeaderID != "" && p.LeaderID == p.MemberID) == leads
				})
			}
		}
		q := &in.Requests.Reboots
		if queued := func(e cke.Entry) bool { return e.State != cke.EntryQueued }; slices.ContainsFunc(q.Entries, queued) || !slices.ContainsFunc(q.Entries, of(true)) {
			return
		}
		q.Entries = slices.DeleteFunc(slices.Clone(q.Entries), func(e cke.Entry) bool { return !of(true)(e) })
	}, begin: calmly, often: rebootsAll, wants: []string{"before that of"}},
	{name: "the pause after a reboot", blind: func(in *strategy.Input) { in.Spec.Reboot.Settle = 1 }, begin: calmly, often: rebootsAll, wants: []string{"after that of"}},
	{name: "the pause before another attempt", blind: func(in *strategy.Input) { in.Spec.Reboot.Interval = 1 },
		often: slices.Concat(rebootsAll, rebootsAll, fails), wants: []string{"after an attempt failed, not after"}},
	{name: "so many attempts", blind: func(in *strategy.Input) { in.Spec.Reboot.Retries = new(9) },
		often: slices.Concat(rebootsAll, fails), wants: []string{"may be made"}},
	{name: "the window of reboots", blind: func(in *strategy.Input) { in.Spec.Reboot.Window = cke.Window{} },
		begin: func(n *nemesis) { n.window() }, often: rebootsAll, wants: []string{"outside of the window"}},
	{name: "a queue that is disabled", blind: func(in *strategy.Input) {
		in.Requests.Reboots.Disabled, in.Requests.Repairs.Disabled = false, false
	}, often: slices.Concat(rebootsAll, []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.s.disable(cke.RebootQueue, true) }}),
		wants: []string{"though the queue is disabled"}},
	{name: "a reboot that failed", blind: func(in *strategy.Input) {
		q := &in.Requests.Reboots
		q.Entries = slices.DeleteFunc(slices.Clone(q.Entries), func(e cke.Entry) bool { return e.State == cke.EntryFailed })
	}, often: slices.Concat(rebootsAll, fails), wants: []string{"and no operator has decided"}},
	{name: "the pause between repairs of a node", blind: func(in *strategy.Input) { in.Spec.Repair.Cooldown = 1 },
		often: repairsAll, wants: []string{"within the cooldown"}},
	{name: "the time in which a machine returns", blind: func(in *strategy.Input) { in.Spec.Reboot.BootTimeout = 1 },
		often: slices.Concat(rebootsAll, modes(sim.StaysUp, sim.StaysOff)), wants: []string{"is given up"}},
	{name: "the time in which a repaired machine is healthy", blind: func(in *strategy.Input) {
		in.Spec.Repair.Procedures = slices.Clone(in.Spec.Repair.Procedures)
		for i := range in.Spec.Repair.Procedures {
			p := &in.Spec.Repair.Procedures[i]
			p.Steps = slices.Clone(p.Steps)
			for k := range p.Steps {
				p.Steps[k].Watch = 1
			}
		}
	}, begin: repairsWith(sim.StaysUp), often: repairsAll, wants: []string{"to repair"}},
	{name: "no reboots by agents", blind: func(in *strategy.Input) { in.Spec.Reboot.FleetLock = true },
		often: []func(*nemesis, *sim.Node){func(n *nemesis, node *sim.Node) { n.askByAgent(node) }, func(n *nemesis, _ *sim.Node) {
			c := n.s.Store().Spec().Cluster
			c.Reboot.FleetLock = !c.Reboot.FleetLock
			n.s.Store().SetSpec(c)
		}}, wants: []string{"does not say reboot.fleet_lock"}},
	{name: "the pause after a repair", blind: func(in *strategy.Input) { in.Spec.Reboot.Settle = 1 }, begin: repairsWith(sim.Reboots), often: repairsAll, wants: []string{"the repair of"}},
	{name: "repairs before reboots", blind: func(in *strategy.Input) {
		queued := func(e cke.Entry) bool { return e.State == cke.EntryQueued }
		if slices.ContainsFunc(in.Requests.Reboots.Entries, queued) {
			in.Requests.Repairs.Entries = slices.DeleteFunc(slices.Clone(in.Requests.Repairs.Entries), queued)
		}
	}, begin: calmly, often: slices.Concat(rebootsAll, repairsAll), wants: []string{"before the repair of"}},
	{name: "a reboot shows another boot", blind: func(in *strategy.Input) {
		in.UnderWay.Seen = slices.Clone(in.UnderWay.Seen)
		for i := range in.UnderWay.Seen {
			in.UnderWay.Seen[i].Boot.Init += "?"
		}
	}, begin: func(n *nemesis) {
		n.s.eachNode(func(node *sim.Node) { node.SetRebootMode(sim.Late) })
		n.s.addReboots(n.s.everyNode()...)
		n.s.pass(2 * time.Minute)
	}, often: rebootsAll, wants: []string{"and counts as back", "acts after its entry moved"}},
}

// rebootsAll asks for reboots of all nodes, repairsAll for their repairs, and fails lets commands of reboots fail.
var (
	repairsAll = []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.s.addRepairs(n.s.everyNode()...) }}
	rebootsAll = []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.s.addReboots(n.s.everyNode()...) }}
	fails      = modes(sim.CommandFails)
)

// repairsWith lets all machines be repaired without faults for a while, with a command that does this.
func repairsWith(m sim.RebootMode) func(n *nemesis) {
	return func(n *nemesis) {
		n.s.eachNode(func(node *sim.Node) { node.SetRebootMode(m) })
		n.s.addRepairs(n.s.everyNode()...)
		n.s.pass(15 * time.Minute)
	}
}

// modes are what becomes of machines that a command is to reboot.
func modes(all ...sim.RebootMode) (often []func(*nemesis, *sim.Node)) {
	for _, m := range all {
		often = append(often, func(_ *nemesis, node *sim.Node) { node.SetRebootMode(m) })
	}
	return often
}

// calmly lets few calls fail: what takes minutes has the time.
func calmly(n *nemesis) { n.rate = 0.003 }

// joinAt is the membership at an address.
func joinAt(id cke.Identity, address string) (cke.Join, bool) {
	for _, j := range id.Joins {
		if j.Node.Address == address {
			return j, true
		}
	}
	return cke.Join{}, false
}

// disable disables or enables a queue.
func (s *stage) disable(k cke.QueueKind, is bool) {
	s.editQueue(k, "enable or disable a queue", func(q cke.Queue) (cke.Queue, error) { q.Disabled = is; return q, nil })
}

// rebootWindow is when nodes are rebooted in some schedules.
var rebootWindow = cke.Window{Schedule: "*/10 * * * *", Duration: cke.Duration(4 * time.Minute)}

// window lets the cluster file name a window for reboots.
func (n *nemesis) window() {
	c := n.s.Store().Spec().Cluster
	c.Reboot.Window = rebootWindow
	n.s.Store().SetSpec(c)
}

// closed reports whether a window is closed from one time to another.
func closed(w cke.Window, from, to time.Time) bool {
	due, err := schedule.Parse(w.Schedule, w.TimeZone)
	return err == nil && due.Next(from.Add(-time.Duration(w.Duration)-time.Second)).After(to.Add(time.Second))
}
