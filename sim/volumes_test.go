package sim_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
	"cke/sim"
)

// Requirement I7: archived data goes when its time is over, from a node that is declared no more.
func TestVolumes_AreArchivedAndRemovedInTheirTime(t *testing.T) {
	for name, v := range map[string]struct {
		policy cke.VolumePolicies
		gone   time.Duration // 0: never
	}{
		"retain":  {cke.VolumePolicies{OnRemoval: cke.VolumeRetain}, 0},
		"archive": {cke.VolumePolicies{OnRemoval: cke.VolumeArchive, Keep: cke.Duration(2 * time.Hour)}, 2 * time.Hour},
		"delete":  {cke.VolumePolicies{OnRemoval: cke.VolumeDelete}, time.Second},
	} {
		inFormed(t, 4, func(s *stage) {
			s.shrink(v.policy)
			began := time.Now()
			held := func() bool { _, volumes := s.Node("n4").Look(); return len(volumes) > 0 }
			if !s.until(convergence, func() bool { return len(s.Store().Identity().Joins) == 3 }) {
				t.Fatal("does not shrink")
			}
			gone := s.until(3*time.Hour, func() bool { return !held() })
			switch took := time.Since(began); {
			case gone != (v.gone > 0):
				t.Errorf("%s: gone: %v", name, gone)
			case gone && (took < v.gone || took > v.gone+10*time.Minute):
				t.Errorf("%s: gone after %v", name, took)
			}
			s.pass(time.Minute)
			if j := s.Store().Identity().Ended[0]; j.RemovedAt.IsZero() == gone {
				t.Errorf("%s: %+v", name, j)
			}
		})
	}
}

// shrink takes n4 out of the file.
func (s *stage) shrink(p cke.VolumePolicies) {
	c := s.cluster(s.Nodes()[:3])
	c.Policies.Volumes = p
	s.Store().SetSpec(c)
}

func TestVolumes_AreRemovedFromEveryCrashPoint(t *testing.T) {
	t.Parallel()
	for k := range points(80, 3, 2) {
		for _, v := range []sim.Verdict{sim.KillBefore, sim.KillHalfway, sim.KillAfter, sim.KillLate, sim.Linger, sim.LoseAnswer, sim.Freeze} {
			inFormed(t, 4, func(s *stage) {
				s.shrink(cke.VolumePolicies{OnRemoval: cke.VolumeDelete})
				begin := s.Calls()
				s.Judge = func(n int, _ sim.Call) sim.Verdict {
					if n == begin+k+25 {
						s.Land()
					}
					if n == begin+k {
						return v
					}
					return sim.Proceed
				}
				removed := func() bool {
					id := s.Store().Identity()
					return len(id.Ended) == 1 && !id.Ended[0].RemovedAt.IsZero() && s.settled()
				}
				ok := s.until(time.Hour, func() bool { s.succeed(); return removed() })
				s.Land()
				for _, d := range s.drivers {
					d.Wake()
				}
				if !ok || !s.until(time.Hour, removed) {
					dec, _ := s.latest().now()
					t.Fatalf("%v at call %d: %s", v, k, describeDecision(s.latest().Number(), dec))
				}
				if c, volumes := s.Node("n4").Look(); len(c)+len(volumes) > 0 {
					t.Fatalf("%v at call %d: %v %v", v, k, c, volumes)
				}
			})
		}
	}
}

// Purging for a person: done once, refused for what is in use, whatever the time.
func TestVolumes_ArePurgedForAPerson(t *testing.T) {
	inFormed(t, 4, func(s *stage) {
		s.shrink(cke.VolumePolicies{OnRemoval: cke.VolumeRetain})
		if !s.until(convergence, func() bool { return s.settled() && len(s.Store().Identity().Ended) == 1 }) {
			t.Fatal("does not shrink")
		}
		id := s.Store().Identity()
		s.ask(cke.TaskPurge, "", id.Joins[0].Volume, "")
		s.ask(cke.TaskPurge, "", id.Ended[0].Volume, "")
		if !s.until(convergence, func() bool { return !s.Store().Identity().Ended[0].RemovedAt.IsZero() && s.settled() }) {
			dec, _ := s.latest().now()
			t.Fatal(describeDecision(1, dec))
		}
		if _, volumes := s.Node("n1").Look(); len(volumes) != 1 {
			t.Error("the volume of a present member is gone")
		}
		var refused []string
		for _, r := range s.Store().Records() {
			if r.Task != "" && r.State == cke.RecordFailed {
				refused = append(refused, string(r.Code)+" "+r.Error)
			}
		}
		if len(refused) != 1 || !strings.Contains(refused[0], "CKE310") || !strings.Contains(refused[0], "present member") {
			t.Error(refused)
		}
	})
}

// The checker notices archived data that goes early.
func TestChecker_NoticesAnArchiveThatIsRemovedEarly(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.daemon()
		if !s.until(convergence, s.settled) {
			t.Fatal("does not form")
		}
		c := s.want([]int{1, 2, 3}, false) // n4 stays declared, so that it is looked at
		c.Policies.Volumes = cke.VolumePolicies{OnRemoval: cke.VolumeArchive, Keep: cke.Duration(time.Hour)}
		s.Store().SetSpec(c)
		if !s.until(convergence, func() bool { return len(s.Store().Identity().Ended) == 1 }) {
			t.Fatal("does not shrink")
		}
		s.wrap = func(e op.Env) op.Env { e.Ledger = hasty{e.Ledger}; return e }
		s.blind = func(in *strategy.Input) { hurry(&in.Identity) }
		s.pass(10 * time.Minute)
		s.mustViolate(t, "given up before its time")
	})
}

// hasty is a ledger that takes every archived volume for one whose time is over.
type hasty struct{ cke.Ledger }

func (h hasty) Identity(ctx context.Context) (cke.Identity, error) {
	id, err := h.Ledger.Identity(ctx)
	hurry(&id)
	return id, err
}

func hurry(id *cke.Identity) {
	for i := range id.Ended {
		id.Ended[i].KeepUntil = id.Ended[i].EndedAt
	}
}
