package sim_test

import (
	"testing"
	"time"

	"cke/sim"
)

// N4 joins while data is made, and only n1 knows of it, which is cut off from the others then. N5 joins, n1, n2 and
// n3 are removed, and n4 and n5 serve out of the reach of cke. No quorum confirms the list of n1, and n4, which it
// has, does not answer.
func TestRestoreOutsiders_AForeignVoterInAListThatIsReadLastHasToAnswer(t *testing.T) {
	for _, loop := range []bool{false, true} {
		t.Run(map[bool]string{false: "driver", true: "loop"}[loop], func(t *testing.T) {
			play(t, 5, func(s *stage) {
				s.heldOn(t, 3)
				s.TakeBackup()
				if loop {
					s.latest().Kill()
					s.loop()
					s.pass(time.Minute)
				}
				done := false
				s.Judge = func(_ int, c sim.Call) sim.Verdict {
					if done || c.Name != "RestoreData" {
						return sim.Proceed
					}
					done = true
					s.joinsOn(t, "n4")
					time.Sleep(10 * time.Second)
					s.cutFromMembers("n1", "n2", "n3", "n4", "n5")
					s.hides(true)
					time.Sleep(10 * time.Second)
					s.joinsOn(t, "n5")
					time.Sleep(10 * time.Second)
					for _, n := range []string{"n1", "n2", "n3"} {
						if !s.Node(n).Leave(n) {
							t.Log("not removed: ", n)
						}
						time.Sleep(10 * time.Second)
					}
					for _, n := range []string{"n2", "n3"} {
						s.Node(n).SwitchRestartsOff()
						s.Node(n).StopByHand()
					}
					return sim.Proceed
				}
				s.order(fromBackup)
				s.pass(30 * time.Minute)
				if !done {
					t.Error("not played")
				}
				s.notServedBeside(t, s.restored())
			})
		})
	}
}
