package sim_test

import (
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/sim"
)

// declaredAgain lets people declare a deleted cluster again, while faults go on, then heals the world. Later on a copy of the store from
// before the deletion takes the place of the store, and at last the newest one comes back.
func (s *stage) declaredAgain(first *nemesis, before sim.StoreCopy) (faults []string) {
	n := &nemesis{Rand: first.Rand, s: s, rate: min(first.rate, 0.03), replace: first.replace, moved: first.moved}
	c := n.file()
	s.eachNode(func(node *sim.Node) { node.Remove("hand") }) // people know what is theirs
	if n.IntN(2) == 0 {                                      // otherwise what is left is told
		for _, d := range c.Nodes {
			n.clear(s.Node(d.Hostname), d.ControlPlane)
		}
	}
	s.Store().Redeclare(c)
	n.correct()
	s.Judge = n.judge
	s.daemon()
	last := s.Calls() + 20 + n.IntN(200)
	s.until(time.Hour, func() bool {
		s.succeed()
		return s.Calls() >= last
	})
	n.heal()
	if faults = s.arrives(n); faults != nil || s.lost(s.Store().Identity()) != nil {
		return faults
	}
	if first.copied != nil && n.IntN(2) == 0 {
		before = *first.copied
	}
	if inc := before.Identity().Incarnation; inc == nil || inc.State != cke.Formed || !s.Store().Ends(before) {
		return nil // no node that answers could be marked
	}
	return s.before(n, before)
}

// before puts a copy of the store from before a deletion in the place of the store. No deleted member may come back, and those that serve
// are not touched. Once that is noticed faults go on, then the newest copy comes back.
func (s *stage) before(n *nemesis, copied sim.StoreCopy) (faults []string) {
	n.write()
	newest := s.Store().Copy()
	serving := s.Serving()
	s.broughtBack(copied)
	if !s.until(10*time.Minute, func() bool { return s.frozenFor(cke.FreezeOlderStore) }) {
		dec, _ := s.latest().now()
		return append(s.Violations(), "the store is not found to be from before the deletion: "+describeDecision(s.latest().Number(), dec))
	}
	s.pass(time.Minute)
	if now := s.Serving(); now < serving {
		faults = append(faults, fmt.Sprintf("%d members serve once the store is from before the deletion, %d before", now, serving))
	}
	n.over, n.about = false, nil
	n.choose(disasters)
	last := s.Calls() + 20 + n.IntN(100)
	s.until(time.Hour, func() bool {
		s.succeed()
		return s.Calls() >= last
	})
	n.heal()
	s.pass(5 * time.Minute)
	gone := s.Store().Gone()
	for _, node := range s.Nodes() {
		containers, _ := node.Look()
		for _, c := range containers {
			if c.Cluster == clusterName && slices.Contains(gone, c.Incarnation) {
				faults = append(faults, fmt.Sprintf("%s carries a container of the deleted cluster, %s", node.Name(), c.State))
			}
		}
	}
	if faults != nil {
		return faults
	}
	s.broughtBack(newest)
	n.apply() // its revision of the file is another one
	return s.arrives(n)
}

// sweep removes what a deleted cluster left, where people are told that a bootstrap waits for that.
func (n *nemesis) sweep(blockers []cke.Problem) {
	inc := n.s.Store().Identity().Incarnation
	if n.s.Store().Gone() == nil || inc != nil && inc.State != cke.Abandoned {
		return
	}
	for _, p := range blockers {
		if node := n.s.machine(p.Node); node != nil && slices.Contains([]cke.Code{cke.CodeLeftover, cke.CodeOlderStore}, p.Code) {
			n.clear(node, true)
		}
	}
}

// clear removes from a node the containers that a deleted cluster left, or its volumes, too.
func (n *nemesis) clear(node *sim.Node, volumes bool) {
	inc := n.s.Store().Identity().Incarnation
	present := func(life string) bool { return inc.Life(life) || inc.WasAbandoned(life) }
	containers, all := node.Look()
	for _, c := range containers {
		if c.Cluster == clusterName && !present(c.Incarnation) {
			node.Remove(c.Name)
		}
	}
	for _, v := range all {
		if volumes && v.Cluster == clusterName && !present(v.Incarnation) {
			node.Remove(v.Name)
		}
	}
}
