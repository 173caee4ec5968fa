package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// The engines of other nodes are slow, or do not answer at all; their members serve. A member moves to another address all the same, and an authority is
// replaced: neither changes anything on those nodes at that moment.
func TestAddress_DoesNotWaitForTheEnginesOfOtherNodes(t *testing.T) {
	for name, c := range map[string]struct {
		nodes int
		slow  time.Duration
	}{"2 of 3, 8 s": {3, 8 * time.Second}, "4 of 5, 4 s": {5, 4 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			play(t, c.nodes, func(s *stage) {
				s.declare(s.Nodes()...)
				s.daemon()
				s.must("formed", s.settled)
				s.pass(time.Minute)
				before := s.Store().Identity().Joins[1]
				for _, n := range s.Nodes() {
					if n.Name() != "n2" {
						n.SlowDown(c.slow)
					}
				}
				s.moveTo("10.0.7.2")
				if !s.until(2*time.Hour, func() bool { return s.movedTo("10.0.7.2", before) }) {
					for _, r := range s.Store().Records() {
						if r.Operation == "change-address" && r.State != cke.RecordCompleted {
							t.Error(r.State, r.Error)
							break
						}
					}
					dec, _ := s.latest().now()
					t.Error("not moved:", describeDecision(1, dec))
				}
			})
		})
	}
}

// The same of the restarts of a replacement: only the node of the member that is restarted is asked for much.
func TestAuthorities_AreReplacedBesideSlowEngines(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.declare(s.Nodes()...)
		s.daemon()
		s.must("formed", s.settled)
		s.pass(time.Minute)
		s.ask(cke.TaskRotate, "", string(cke.PeerAuthority), "")
		s.eachNode(func(n *sim.Node) { n.SlowDown(4 * time.Second) })
		if !s.until(6*time.Hour, func() bool { return s.rotated(cke.PeerAuthority, 1) }) {
			for _, r := range s.Store().Records() {
				if r.State != cke.RecordCompleted {
					t.Error(r.Operation, r.State, r.Error)
					break
				}
			}
			dec, _ := s.latest().now()
			t.Errorf("not replaced: %s: %s", s.phase(cke.PeerAuthority), describeDecision(1, dec))
		}
	})
}
