package sim_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// repair is what befalls a formed cluster of n1 to n3, with n4 to spare, and the operation that is to cure it.
type repair struct {
	operation string
	befall    func(s *stage)
}

var repairs = []repair{
	{"start-members", func(s *stage) { s.eachNode((*sim.Node).StopByHand) }},
	{"renew-certificates", func(s *stage) { s.EndCertificates() }},
	{"end-membership", func(s *stage) { s.Forget("n3") }},
	{"stop-stray", func(s *stage) {
		s.Store().SetSpec(s.want([]int{1, 2, 3, 4}, false))
		s.must("grown", s.changed)
		s.Node("n4").PowerOff()
		s.Store().SetSpec(s.want([]int{1, 2, 3}, false))
		s.until(convergence, func() bool { return len(s.Store().Identity().Joins) == 3 })
		s.Node("n4").PowerOn()
	}},
	{"remove-member", func(s *stage) { s.Node("n2").EmptyVolumes() }},
	{"restart-member", func(s *stage) {
		c := s.Store().Spec().Cluster
		c.Options.Etcd.Version = "3.7.3"
		s.Store().SetSpec(c)
	}},
	{"advance-authority", func(s *stage) { s.ask(cke.TaskRotate, "", "peer", "") }},
	{"unfreeze", func(s *stage) {
		s.Node("n1").CorruptData()
		s.ask(cke.TaskCompare, "", "", "")
		s.until(convergence, func() bool { return s.freeze().Active() })
		s.Node("n1").RepairData()
		s.ask(cke.TaskUnfreeze, "", s.freeze().ID, "repaired")
	}},
}

// repaired plays a repair that judge disturbs, which is given calls counted from when it befell.
func repaired(t *testing.T, r repair, seed uint64, judge judge) (calls int, faults []string) {
	scene := func(s *stage) {
		faults = nil
		s.beginChange(t, change{from: []int{1, 2, 3}, to: []int{1, 2, 3}})
		s.must("formed", s.changed)
		r.befall(s)
		begin := s.Calls()
		s.Judge = func(n int, _ sim.Call) sim.Verdict { return judge(s, n-begin) }
		if seed > 0 {
			s.Pick = rand.New(rand.NewPCG(seed, 0)).IntN
		}
		cured := func() bool {
			s.succeed()
			if f := s.freeze(); f.Active() && r.operation == "unfreeze" && len(s.asked()) == 0 {
				s.ask(cke.TaskUnfreeze, "", f.ID, "repaired") // the answer to the one before was lost
			}
			done := slices.ContainsFunc(s.Store().Records(), func(o cke.Record) bool { return o.Operation == r.operation })
			return done && s.changed() && !s.freeze().Active() && !s.Store().Identity().Authorities.Replacing()
		}
		ok := s.until(4*convergence, cured)
		calls = s.Calls() - begin
		s.Land()
		for _, d := range s.drivers {
			d.Wake()
		}
		if !ok || !s.until(convergence, cured) {
			dec, _ := s.latest().now()
			faults = append(s.faults(s.declared()...), "is not cured: "+describeDecision(s.latest().Number(), dec))
		}
		if !s.until(time.Minute, func() bool { return s.Write("n1", "afterwards") }) {
			faults = append(faults, "does not serve afterwards")
		}
		faults = append(faults, s.Violations()...)
	}
	if play(t, 4, scene); faults != nil {
		play(t, 4, func(s *stage) {
			s.tell = t.Logf
			s.OnTrace(t.Logf)
			scene(s)
			t.Logf("\n%s", s.World)
		})
	}
	return calls, faults
}

// Whichever call of a repair kills the daemon, is lost or lands late, the next daemon ends it in the same state.
func TestRepair_EndsFromEveryCrashPoint(t *testing.T) {
	for i, r := range repairs {
		t.Run(r.operation, func(t *testing.T) {
			t.Parallel()
			fromEveryCrashPoint(t, 4, i, func(seed uint64, j judge) (int, []string) {
				calls, faults := repaired(t, r, seed, j)
				return min(calls, 400), faults
			})
		})
	}
}
