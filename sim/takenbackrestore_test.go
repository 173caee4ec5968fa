package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// off calls a restore off.
func off(r *cke.Requests) {
	r.Tasks = append(r.Tasks, cke.NewTask(cke.TaskCancelRestore, "", "", "person@host", time.Now()))
}

// A restore that is called off, or a cluster that is paused, while its members are prepared or those before are stopped: what is asked
// counts from the next call on, and nothing that clients wrote is lost.
func TestRestore_EndsAtOnceWhenItIsTakenBack(t *testing.T) {
	for name, ask := range map[string]func(*cke.Requests){
		"called off": off,
		"paused":     func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "what is this"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stops := 0 // how often the order could be taken back
			for at := 1; ; at++ {
				ended := false
				play(t, 3, func(s *stage) {
					s.backedUp()
					was := s.Store().Identity().Incarnation.ID
					begun, writes, asked := false, 0, false
					stopped := 0       // before that
					var after []string // since
					s.Judge = func(_ int, c sim.Call) sim.Verdict {
						if begun && c.Writes {
							writes++
						}
						switch {
						case asked && c.Name == "StopContainer":
							after = append(after, c.Node)
						case !asked && begun && c.Name == "StopContainer":
							stopped++
						}
						if !asked && writes == at {
							asked = true
							s.Store().Ask(name, ask)
						}
						return sim.Proceed
					}
					s.order(toldStored)
					begun = true
					s.until(convergence, func() bool { return asked || s.restored() })
					s.pass(5 * time.Minute)
					id := s.Store().Identity()
					if ended = !asked || id.Incarnation.State == cke.Formed && id.Incarnation.ID != was; ended {
						return // it was too late
					}
					stops++
					if len(after) > 1 { // one may be on its way
						t.Errorf("asked at write %d, and then stopped: %v", at, after)
					}
					if name == "paused" {
						if stopped+len(after) <= 1 && !s.Write("n2", "meanwhile") {
							t.Errorf("asked at write %d: clients cannot write: %s", at, s.latest().decision.Reason)
						}
						s.Store().Ask("off", off)
						s.until(convergence, func() bool { return s.Store().Identity().Incarnation.ID == was })
						s.Store().Ask("resume", func(r *cke.Requests) { r.Hold = nil })
					}
					if !s.until(convergence, func() bool { return s.settled() && s.faults(s.everyNode()...) == nil }) {
						t.Errorf("asked at write %d: %v, %s", at, s.faults(s.everyNode()...), s.latest().decision.Reason)
					}
					if now := s.Store().Identity().Incarnation; now.ID != was || now.Restore != nil {
						t.Errorf("asked at write %d: %+v", at, now)
					}
					if got := s.Written(); !slices.Contains(got, "kept") {
						t.Errorf("asked at write %d: holds %v", at, got)
					}
				})
				if ended || t.Failed() {
					break
				}
			}
			if stops < 20 {
				t.Errorf("taken back at %d points", stops)
			}
			t.Logf("taken back at %d points", stops)
		})
	}
}

// A person starts every container while a restore prepares its members, and calls it off: none of the prepared ones, whose data is older than
// what the cluster serves, serves beside it.
func TestRestore_PreparedMembersServeNobodyWhoeverStartsThem(t *testing.T) {
	started, left := 0, 0 // prepared members
	for at := 1; ; at++ {
		over := false
		play(t, 3, func(s *stage) {
			s.backedUp()
			was := s.Store().Identity().Incarnation.ID
			writes, begun := 0, false
			s.Judge = func(_ int, c sim.Call) sim.Verdict {
				if begun && c.Writes {
					writes++
				}
				return sim.Proceed
			}
			s.order(toldStored)
			begun = true
			s.until(convergence, func() bool { return writes >= at || s.restored() })
			id := s.Store().Identity()
			if over = s.restored() || id.Started() && id.Incarnation.ID != was; over {
				return
			}
			if id.Incarnation.ID != was {
				started++
			}
			for _, n := range s.everyNode() {
				s.Node(n).StopByHand()
				s.Node(n).StartByHand()
			}
			s.Store().Ask("off", off)
			s.pass(10 * time.Second)
			if id = s.Store().Identity(); id.Incarnation.State == cke.Restoring { // as the remedy says
				for _, j := range id.Joins {
					s.Node(j.Node.Name()).Remove(j.Volume)
				}
				s.Store().Ask("off", off)
			}
			if !s.until(convergence, func() bool { return s.settled() && s.faults(s.everyNode()...) == nil }) {
				t.Errorf("started at write %d: %v, %s", at, s.faults(s.everyNode()...), s.latest().decision.Reason)
			}
			if s.Store().Identity().Incarnation.ID != was {
				left++ // the order came too late
			}
			if got := s.Written(); !slices.Contains(got, "kept") {
				t.Errorf("started at write %d: holds %v", at, got)
			}
		})
		if over || t.Failed() {
			break
		}
	}
	if started-left < 10 {
		t.Errorf("started at %d points, restored after %d of them", started, left)
	}
	t.Logf("started at %d points, restored after %d of them", started, left)
}
