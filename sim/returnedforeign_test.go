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
		"recovery": {Survivor: "n1", Destroyed: []string{"hand2", "hand3"}},
		"restore":  {Target: fromBackup.Target, Source: fromBackup.Source, Destroyed: []string{"hand2", "hand3"}},
	} {
		for _, at := range []string{"Fetch", "RestoreData"} {
			t.Run(kind+" at "+at, func(t *testing.T) {
				play(t, 3, func(s *stage) {
					c := s.cluster(s.Nodes()[:1])
					c.Policies.Foreign = cke.ForeignHold
					s.Store().SetSpec(c)
					s.daemon()
					if !s.until(convergence, s.settled) || !s.Write("n1", "kept") {
						t.Fatal("no cluster")
					}
					s.TakeBackup()
					foreign := s.Nodes()[1:3]
					for i, n := range foreign {
						name := []string{"hand2", "hand3"}[i]
						if !n.Join(name, true) {
							t.Fatal("cannot join")
						}
						n.Keep(name)
						s.pass(time.Minute)
					}
					if s.ForeignMembers() != 2 || !s.Write("n2", "x") {
						t.Fatalf("%v", s.World)
					}
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
					for _, r := range s.Store().Records()[max(0, len(s.Store().Records())-4):] {
						t.Logf("%s %s %s", r.Operation, r.State, r.Error)
					}
					if !back || s.restored() || !s.Write("n2", "later") {
						t.Errorf("back %v, restored %v: %s", back, s.restored(), s.told().Reason)
					}
					s.unbroken(t)
				})
			})
		}
	}
}
