package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// Two foreign members vote beside the only member of cke. An order calls their machines destroyed, but these are only without power, and are back at some
// call of the restore. Nothing is started beside them.
func TestReturned_ForeignVotersThatComeBackAreNotDestroyed(t *testing.T) {
	for kind, o := range map[string]cke.RestoreOrder{
		"recovery": {Survivor: "n1", Destroyed: []string{"hand-n2", "hand-n3"}},
		"restore":  {Target: fromBackup.Target, Source: fromBackup.Source, Destroyed: []string{"hand-n2", "hand-n3"}},
	} {
		for _, at := range []string{"Fetch", "RestoreData"} {
			t.Run(kind+" at "+at, func(t *testing.T) {
				play(t, 3, func(s *stage) {
					foreign, _ := s.heldForeign(t, 1)
					s.TakeBackup()
					for _, n := range foreign {
						n.PowerOff()
					}
					s.pass(time.Minute)
					back := false
					s.Judge = func(_ int, c sim.Call) sim.Verdict {
						if c.Name == at && !back {
							back = true
							for _, n := range foreign {
								n.PowerOn()
								n.StartByHand()
							}
						}
						return sim.Proceed
					}
					s.order(o)
					s.pass(30 * time.Minute)
					if !back || s.restored() || !s.Write("n2", "later") {
						t.Errorf("back %v, restored %v: %s", back, s.restored(), s.told().Reason)
					}
					s.unbroken(t)
				})
			})
		}
	}
}
