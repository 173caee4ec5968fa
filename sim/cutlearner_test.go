package sim_test

import (
	"fmt"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// A learner has caught up when its line to the leader breaks, and with it that to another voter. cke reaches all of them: the learner
// goes on naming its leader, reports no error, and lags little since little is written. As a voter it would cost the quorum.
func TestCutLearner_DoesNotVote(t *testing.T) {
	for _, voters := range []int{1, 3} {
		play(t, voters+1, func(s *stage) {
			s.declare(s.Nodes()[:voters]...)
			s.daemon()
			s.must("formed", s.settled)
			s.Judge = func(_ int, c sim.Call) sim.Verdict {
				if c.Name == "AddLearner" {
					s.Judge = nil
					s.Store().Ask("pause", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "work on the network"} })
				}
				return sim.Proceed
			}
			s.declare(s.Nodes()...)
			s.must("paused", func() bool { return s.Judge == nil })
			s.pass(10 * time.Minute)
			far := voters/2 + 1 // those after it are on the other side
			for near := 1; near <= far; near++ {
				for n := far + 1; n <= voters+1; n++ {
					s.Cut(fmt.Sprint("n", near), fmt.Sprint("n", n))
					s.Cut(fmt.Sprint("n", n), fmt.Sprint("n", near))
				}
			}
			s.pass(time.Minute)
			s.Store().Ask("resume", func(r *cke.Requests) { r.Hold = nil })
			s.pass(30 * time.Second)
			if !s.Write("n1", "precious") {
				t.Errorf("%d voters: no write is acknowledged any more: %+v", voters, s.told().Etcd.Members)
			}
			s.HealNetwork()
			if !s.until(time.Hour, s.changed) {
				t.Errorf("%d voters: not as declared once the lines are whole: %v", voters, s.faults(s.declared()...))
			}
		})
	}
}
