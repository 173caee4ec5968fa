package sim_test

import (
	"testing"
	"time"

	"cke/sim"
)

// Requirement N15: a cluster whose certificates have all ended has no quorum, and comes back without a person and with
// all of its data.
func TestCertificates_ThatHaveAllEndedAreRenewedWithoutAQuorum(t *testing.T) {
	for _, row := range []struct {
		name   string
		befall func(s *stage)
	}{
		{"while members run", func(*stage) {}},
		{"and members have stopped", func(s *stage) { s.eachNode((*sim.Node).StopByHand) }},
		{"and their nodes come back from a loss of power", func(s *stage) { s.eachNode((*sim.Node).Reboot) }},
		{"and their keys are damaged", func(s *stage) {
			s.eachNode(func(n *sim.Node) { n.DamageCertificate(1); n.KillEtcd() })
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			inFormed(t, 3, func(s *stage) {
				if !s.Write("n1", "before") {
					t.Fatal("does not serve")
				}
				s.latest().Kill()
				s.EndCertificates()
				row.befall(s)
				s.daemon()
				if !s.until(convergence, s.settled) {
					dec, _ := s.latest().now()
					t.Fatal(describeDecision(s.latest().Number(), dec))
				}
				if !s.Write("n2", "after") {
					t.Error("does not serve")
				}
				for _, f := range s.faults("n1", "n2", "n3") { // among them: every acknowledged write is there
					t.Error(f)
				}
			})
		})
	}
}

// A write that a crash of the engine cut off is seen on its node and mended, though the member serves.
func TestCertificates_ThatAreHalfWrittenAreWrittenAgain(t *testing.T) {
	for file := range 4 {
		inFormed(t, 3, func(s *stage) {
			s.Node("n2").DamageCertificate(file)
			if !s.until(convergence, s.settled) {
				dec, _ := s.latest().now()
				t.Fatal(describeDecision(s.latest().Number(), dec))
			}
			for _, f := range s.faults("n1", "n2", "n3") {
				t.Error(f)
			}
		})
	}
}

// The certificates of a learner are removed before it received a large database. It would be waited for in vain.
func TestCertificates_OfALearnerThatReceivesNothingAreWrittenAgain(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		s.must("formed", s.settled)
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "Endpoint" && c.Node == "n4" {
				s.Judge = nil
				s.Node("n4").RemoveCertificates()
				s.Fill("n1", 500<<20)
			}
			return sim.Proceed
		}
		s.declare(s.Nodes()...)
		if !s.until(2*time.Minute, s.changed) {
			dec, _ := s.latest().now()
			t.Error(describeDecision(s.latest().Number(), dec))
		}
	})
}
