package sim_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "replay the random schedule of this seed and tell its story")
	schedules = flag.Uint64("schedules", 4000, "how many random schedules to play")
	firstSeed = flag.Uint64("first", 1, "seed of the first of them")
)

// TestCluster_KeepsItsPromisesInRandomSchedules plays faults of every kind by chance, then heals the world. What must
// never happen is checked at every call; afterwards the world must come to where it can come.
func TestCluster_KeepsItsPromisesInRandomSchedules(t *testing.T) {
	if *seedFlag != 0 {
		if faults := random(t, *seedFlag, t.Logf); faults != nil {
			t.Error(strings.Join(faults, "\n"))
		}
		return
	}
	const workers = 2
	var failed atomic.Bool
	for worker := range uint64(workers) {
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			for seed := *firstSeed + worker; seed < *firstSeed+*schedules && !failed.Load(); seed += workers {
				if faults := random(t, seed, nil); faults != nil {
					failed.Store(true)
					t.Errorf("seed %d:\n%s\nreplay: go test ./sim -run RandomSchedules -v -seed=%d", seed, strings.Join(faults, "\n"), seed)
				}
			}
		})
	}
}

func random(t *testing.T, seed uint64, tell func(string, ...any)) (faults []string) {
	r := rand.New(rand.NewPCG(seed, 1))
	play(t, []int{1, 2, 3, 3, 3, 4, 5}[r.IntN(7)], func(s *stage) {
		s.tell = tell
		if tell != nil {
			s.OnTrace(tell)
		}
		n := &nemesis{Rand: r, s: s, rate: []float64{0.01, 0.03, 0.1, 0.3}[r.IntN(4)], budget: 20 + r.IntN(400)}
		if len(s.Nodes()) > 3 && r.IntN(2) == 0 {
			s.declare(s.Nodes()[:3]...)
		}
		s.Pick, s.Judge = r.IntN, n.judge
		if r.IntN(2) == 0 { // the faults come once the cluster is formed
			s.Judge = nil
			s.daemon()
			if !s.until(convergence, s.settled) {
				faults = append(s.Violations(), "does not form")
				return
			}
			s.Judge = n.judge
			n.budget += s.Calls()
			for range 3 {
				n.write()
			}
		} else {
			s.daemon()
		}
		s.until(time.Hour, func() bool {
			s.succeed()
			return s.Calls() >= n.budget
		})
		n.heal()
		ok := s.until(2*convergence, func() bool {
			s.succeed()
			s.declareFormed()
			return s.arrived()
		})
		if !ok {
			dec, _ := s.latest().now()
			faults = append(faults, "does not converge: "+describeDecision(s.latest().Number(), dec))
		}
		faults = append(faults, s.Violations()...)
		if tell != nil {
			tell("\n%s", s.World)
		}
	})
	return faults
}

// succeed starts a daemon where the last one died, or is frozen.
func (s *stage) succeed() {
	if d := s.latest(); d.Dead() || d.Frozen() {
		s.daemon()
	}
}

// arrived reports whether the world is where it can come by itself: one cluster on all declared nodes, or, where data
// of a formed cluster was lost, all the rest of it running and what is lost told.
func (s *stage) arrived() bool {
	d := s.latest()
	dec, status := d.now()
	id := s.Store().Identity()
	inc := id.Incarnation
	if inc == nil || inc.State != cke.Formed || dec.Operation != nil || dec.Reason == "" {
		return false
	}
	lost := s.lost(id)
	if len(lost) == 0 {
		return dec.Converged && s.faults(joined(id)...) == nil
	}
	if len(lost) == len(id.Joins) {
		return len(dec.Blockers) == 1 && dec.Blockers[0].Code == cke.CodeBlankNodes || told2(dec.Blockers, lost)
	}
	quorate := len(id.Joins)-len(lost) >= cke.Quorum(len(id.Joins))
	c, _ := status.Condition(cke.CondQuorate)
	return told2(dec.Blockers, lost) && quorate == (c.Status == cke.True)
}

func told2(blockers []cke.Problem, lost []string) bool {
	var named []string
	for _, p := range blockers {
		if p.Code == cke.CodeDataMissing {
			named = append(named, p.Node)
		}
	}
	slices.Sort(named)
	return slices.Equal(named, lost)
}

// lost names the nodes of joins whose data is really gone, sorted.
func (s *stage) lost(id cke.Identity) []string {
	var names []string
	for _, j := range id.Joins {
		if !s.Node(j.Node.Name()).Holds(j.Volume) {
			names = append(names, j.Node.Name())
		}
	}
	slices.Sort(names)
	return names
}

func joined(id cke.Identity) []string {
	var names []string
	for _, j := range id.Joins {
		names = append(names, j.Node.Name())
	}
	return names
}

// declareFormed takes back an edit of the spec that came too late: changes of a formed cluster are of a later version.
func (s *stage) declareFormed() {
	id := s.Store().Identity()
	if id.Incarnation == nil || id.Incarnation.State != cke.Formed {
		return
	}
	var founders []*sim.Node
	for _, name := range joined(id) {
		founders = append(founders, s.Node(name))
	}
	want := s.cluster(founders)
	for _, n := range s.Nodes() {
		if !slices.Contains(founders, n) { // so that what an abandoned founding left there is seen
			spare := n.Declared()
			spare.ControlPlane = false
			want.Nodes = append(want.Nodes, spare)
		}
	}
	if !reflect.DeepEqual(want, s.Store().Spec().Cluster) {
		s.Store().SetSpec(want)
	}
}
