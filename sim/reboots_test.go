package sim_test

import (
	"slices"
	"time"

	"cke"
	"cke/sim"
)

// rebootOperations are those of the reboot queue.
const rebootOperations = "drain-for-reboot reboot-node note-reboot"

// rebooting is how cluster files say that nodes are rebooted.
var rebooting = cke.RebootOptions{Command: sim.RebootCommand, CommandTimeout: cke.Duration(10 * time.Second), BootTimeout: cke.Duration(time.Minute),
	Retries: new(1), Interval: cke.Duration(5 * time.Second), MaxConcurrent: 2, Settle: cke.Duration(10 * time.Second)}

// editReboots changes the queue as an operator does. What is refused changes nothing.
func (s *stage) editReboots(what string, edit func(cke.Reboots) (cke.Reboots, error)) {
	s.Store().Ask(what, func(r *cke.Requests) {
		if q, err := edit(r.Reboots); err == nil {
			r.Reboots = q
		}
	})
}

// addReboots puts nodes of the cluster file into the queue.
func (s *stage) addReboots(nodes ...string) {
	declared, now := s.Store().Spec().Cluster, s.Now()
	s.editReboots("reboot nodes", func(q cke.Reboots) (cke.Reboots, error) {
		var all []cke.Node
		for _, name := range nodes {
			if n, there := declared.Node(name); there && q.Of(n.Address) == nil {
				all = append(all, n)
			}
		}
		return q.Add(all, "new kernel", "eve@host", now)
	})
}

// reboot asks for reboots of one node or of all.
func (n *nemesis) reboot(node *sim.Node) {
	if n.IntN(3) == 0 {
		n.s.addReboots(n.s.everyNode()...)
		return
	}
	n.s.addReboots(node.Name())
}

// judgeReboots is what operators do about the queue.
func (n *nemesis) judgeReboots(node *sim.Node) {
	on, now, name := n.IntN(4) > 0, n.s.Now(), []string{node.Declared().Address}
	switch n.IntN(4) {
	case 0:
		n.s.editReboots("enable or disable the reboot queue", func(q cke.Reboots) (cke.Reboots, error) { q.Disabled = !on; return q, nil })
	case 1:
		n.s.editReboots("cancel a reboot", func(q cke.Reboots) (cke.Reboots, error) { return q.Cancel(name, now) })
	case 2:
		n.s.editReboots("retry a reboot", func(q cke.Reboots) (cke.Reboots, error) { return q.Retry(name, now) })
	case 3:
		n.s.editReboots("skip a reboot", func(q cke.Reboots) (cke.Reboots, error) { return q.Skip(name) })
	}
}

// endReboots cancels what is in the queue, and lets machines reboot as they should.
func (n *nemesis) endReboots() {
	for _, node := range n.s.Nodes() {
		node.SetRebootMode(sim.Reboots)
	}
	now := n.s.Now()
	n.s.editReboots("cancel all reboots", func(q cke.Reboots) (cke.Reboots, error) {
		var all []string
		for _, r := range q.Entries {
			all = append(all, r.Address)
		}
		slices.Sort(all)
		q.Disabled = true
		return q.Cancel(all, now)
	})
}
