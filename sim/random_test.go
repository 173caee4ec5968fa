package sim_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/sim"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "replay the random schedule of this seed and tell its story")
	schedules = flag.Uint64("schedules", 0, "how many random schedules to play; 0: 12000, or 1200 with -short")
	goOn      = flag.Bool("go-on", false, "play all random schedules, also after one has failed")
	firstSeed = flag.Uint64("first", 1, "seed of the first of them")
	withStock = flag.Bool("inventories", false, "play only schedules with an inventory of the machines")
	aboutFlag = flag.String("about", "", "play only those that are about this operation")
)

// TestCluster_KeepsItsPromisesInRandomSchedules plays faults of every kind by chance, then heals the world. What must
// never happen is checked at every call; afterwards the world must come to where it can come.
func TestCluster_KeepsItsPromisesInRandomSchedules(t *testing.T) {
	if *seedFlag != 0 {
		var tale tale
		faults := random(t, *seedFlag, tale.tell)
		t.Log(tale.String())
		if faults != nil {
			t.Error(strings.Join(faults, "\n"))
		}
		return
	}
	const workers = 2
	n := *schedules
	if n == 0 {
		n = uint64(some(12000))
	}
	t.Cleanup(func() {
		if *aboutFlag != "" { // these reach what they are about
			n = 0
		}
		reached.check(t, n)
	})
	var failed atomic.Bool
	for worker := range uint64(workers) {
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			for i := worker; i < n && (*goOn || !failed.Load()); i += workers {
				seed := nthSeed(i)
				if *aboutFlag != "" && aboutOf(seed) != *aboutFlag {
					continue
				}
				if faults := random(t, seed, nil); faults != nil {
					failed.Store(true)
					t.Errorf("seed %d:\n%s\nreplay: go test ./sim -run 'TestCluster_KeepsItsPromisesInRandomSchedules$' -v -seed=%d", seed, strings.Join(faults, "\n"), seed)
				}
			}
		})
	}
}

// bound is how long after the last fault the world may take until it is where it can come.
const bound = 2 * time.Hour

// stocks reports whether the schedule of a seed has an inventory of its machines: one of 16 has.
func stocks(seed uint64) bool { return seed%16 == 8 }

// nthSeed is the seed of the schedule that is played after so many others.
func nthSeed(i uint64) uint64 {
	if *withStock {
		return (*firstSeed+7)/16*16 + 8 + 16*i
	}
	return *firstSeed + i
}

// random plays one schedule.
func random(t *testing.T, seed uint64, tell func(string, ...any)) (faults []string) {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	r := rand.New(rand.NewChaCha8(key)) // of one that is weaker, seeds at equal distances begin alike
	nodes, stocked := []int{1, 2, 3, 3, 4, 4, 5, 6}[r.IntN(8)], stocks(seed)
	if stocked { // there are machines to take
		nodes = 3 + int(seed/16%4)
	}
	play(t, nodes, func(s *stage) {
		s.tell, s.marks = tell, reached
		if tell != nil {
			s.OnTrace(tell)
		}
		n := &nemesis{Rand: r, s: s, rate: []float64{0.01, 0.03, 0.1, 0.3}[r.IntN(4)], replace: []cke.ReplaceMode{cke.ReplaceAuto, cke.ReplaceManual}[r.IntN(2)]}
		n.aim(seed)
		if stocked {
			n.stock()
		}
		if r.IntN(8) == 0 {
			s.CertificatesLast(time.Duration(1+r.IntN(5)) * time.Hour)
		}
		if r.IntN(10) == 0 {
			s.MembersSettle()
		}
		if r.IntN(6) == 0 { // two versions of cke lead in turn
			s.older = func() bool { return r.IntN(2) == 0 }
		}
		n.edit()
		s.Pick, s.Judge = r.IntN, n.judge
		if r.IntN(3) > 0 && !n.founds() { // the faults come once the cluster is formed
			s.Judge = nil
			n.correct()
			earlier := r.IntN(16) == 0
			if earlier { // with containers that start a member on whatever is there
				s.FormedEarlier()
				s.wrap, n.keepsData = func(e op.Env) op.Env { return thin{founding: true}.wrap(s, e) }, true
			}
			s.daemon()
			if !s.until(convergence, func() bool { return s.settled() || earlier && s.told().Ready > 0 }) {
				faults = append(s.Violations(), "does not form")
				return
			}
			if s.wrap = nil; n.focus == olderBeside {
				n.outrun()
			}
			s.Judge = n.judge
			for range 3 {
				n.write()
			}
		} else {
			s.daemon()
		}
		last := s.Calls() + 20 + r.IntN(600)
		if n.focus != "" {
			last += 100
		}
		s.until(time.Hour, func() bool {
			s.succeed()
			return s.Calls() >= last
		})
		if r.IntN(8) == 0 || n.focus == stuckLearner { // what is wrong stays so for a while
			n.over, s.leap = true, true
			s.pass(time.Duration(10+r.IntN(20)) * time.Minute)
			s.leap = false
		}
		n.heal()
		faults = append(faults, s.arrives(n)...)
		if r.IntN(4) == 0 && faults == nil && s.lost(s.Store().Identity()) == nil { // what was removed under a member ends with it
			faults = s.powerFails()
		}
		if faults == nil && (r.IntN(4) == 0 || n.focus == "delete-cluster") {
			s.succeed()
			before := s.Store().Copy()
			if faults = s.deleted(n); faults == nil && !s.OnlyDeclared() && r.IntN(2) == 0 {
				faults = s.declaredAgain(n, before)
			}
		}
		faults = append(faults, s.Violations()...)
		reached.notice(s.World)
		if tell != nil {
			tell("\n%s", s.World)
		}
	})
	return faults
}

// arrives awaits that the world comes where it can come, while a person attends to it.
func (s *stage) arrives(n *nemesis) (faults []string) {
	if s.until(bound, func() bool {
		s.succeed()
		if !s.news() {
			return false
		}
		n.attend()
		return s.arrived()
	}) {
		return nil
	}
	dec, _ := s.latest().now()
	faults = append(s.faults(s.declared()...), "does not converge: "+describeDecision(s.latest().Number(), dec))
	for _, p := range s.told().Problems {
		faults = append(faults, fmt.Sprintf("the status says %s %s: %s", p.Code, p.Node, p.Message))
	}
	return faults
}

// powerFails takes the power of all machines and of the daemon. All members that served come back without it: that their
// engines start them is what the last daemon has to have left behind.
func (s *stage) powerFails() (faults []string) {
	s.pass(time.Minute) // a daemon has looked since people were done
	serving := s.Serving()
	s.latest().Kill()
	s.eachNode((*sim.Node).PowerOff)
	s.eachNode((*sim.Node).PowerOn)
	s.pass(5 * time.Minute)
	if now := s.Serving(); now < serving {
		for _, n := range s.Nodes() {
			containers, _ := n.Look()
			for _, c := range containers {
				faults = append(faults, fmt.Sprintf("%s: %s is %s: %s", n.Name(), c.Name, c.State, c.LastWords))
			}
		}
		faults = append(faults, fmt.Sprintf("%d members serve after power failed, %d before", now, serving))
	}
	return faults
}

// deleted lets a person delete the cluster while faults go on, then heals the world. No member may run afterwards.
func (s *stage) deleted(n *nemesis) (faults []string) {
	joins := s.Store().Identity().Joins
	if n.focus == olderBeside {
		s.pass(time.Minute) // all is stored
		n.hide()
	}
	n.over, n.said = false, said{}
	if n.focus == wrongWord {
		n.callsDeleted()
	}
	s.Store().RequestDelete()
	last := s.Calls() + 20 + n.IntN(100)
	cancel := s.Calls() + n.IntN(100) // beyond last: nobody does; after it they ask again
	s.until(time.Hour, func() bool {
		if s.Store().Deleted() {
			return true
		}
		if spec := s.Store().Spec(); s.Calls() >= cancel && spec.Deleting() {
			s.Store().CancelDelete()
			cancel = last
		}
		s.succeed()
		return s.Calls() >= last
	})
	n.heal()
	if n.moved != nil {
		n.moveBack()
	}
	if !s.until(time.Hour, func() bool {
		if s.Store().Deleted() {
			return true
		}
		s.succeed()
		if s.news() {
			n.attend()
			if n.moved != nil && s.reports(cke.CodeUnreachable, "") { // another address went on record meanwhile
				n.moveBack()
			}
			if dec, _ := s.latest().now(); slices.ContainsFunc(dec.Blockers, func(p cke.Problem) bool { return p.Code == cke.CodeOlderStore }) &&
				!s.asks(cke.TaskReclaim) && !n.reclaim() {
				n.stopUnknown()
			}
			n.callsGone()
			if spec := s.Store().Spec(); s.Store().Identity().Freeze.HoldsDeletion(spec.DeleteRequestedAt) { // they confirm it
				s.Store().CancelDelete()
			} else if n.regains() {
				return false
			} else if !spec.Deleting() { // the copy that the store was brought back from knew of no deletion
				s.Store().RequestDelete()
			}
		}
		return false
	}) {
		dec, _ := s.latest().now()
		faults = append(faults, "is not deleted: "+describeDecision(s.latest().Number(), dec))
	}
	s.pass(time.Minute)
	if s.OnlyDeclared() { // its members go on
		return faults
	}
	n.reinstalls()
	for _, j := range joins {
		node := s.MachineOf(j)
		containers, _ := node.Look()
		for _, c := range containers {
			// Two are left, and do not serve: one whose machine had got another address that nobody looks at any more, and one that an older
			// store had no record of, which operators stopped.
			moved := !c.Running() && node.Declared().Address != j.Node.Address
			if c.Join == j.ID && !moved && !(c.Down() && n.copied != nil) {
				faults = append(faults, fmt.Sprintf("%s carries a container of the deleted cluster, %s", j.Node.Name(), c.State))
			}
		}
	}
	return faults
}

// succeed starts a daemon where the last one died, or is frozen.
func (s *stage) succeed() {
	if d := s.latest(); d.Dead() || d.Frozen() {
		s.daemon()
	}
}

// news reports whether the leading daemon has decided something since it was asked last.
func (s *stage) news() bool {
	d := s.latest()
	rounds := d.Number()<<32 + d.count()
	if rounds == s.heard {
		return false
	}
	s.heard = rounds
	return true
}

// arrived reports whether the world is where it can come by itself: one cluster with members on exactly the declared
// nodes; or, where data is lost that cannot be replaced, all the rest of it running, and the loss told.
func (s *stage) arrived() bool {
	dec, status := s.latest().now()
	id := s.Store().Identity()
	inc := id.Incarnation
	if inc == nil || inc.State != cke.Formed || dec.Operation != nil {
		return false
	}
	lost := s.lost(s.latest().noted())
	replaced := s.Store().Spec().Cluster.Policies.Replace.Mode != cke.ReplaceManual && len(id.Joins) > 1
	quorate := s.Recoverable()
	switch {
	case quorate && lost != nil && !s.RecoverableFromDisks() && tells(dec.Blockers, lost):
		return true // most of the data is in processes that must not stop: what is saved of it, and when, operators say
	case quorate && (lost == nil || replaced):
		return dec.Converged && len(s.asked()) == 0 && s.faults(s.declared()...) == nil
	case quorate:
		return tells(dec.Blockers, lost) && status.Tolerance >= 0
	case len(dec.Blockers) == 1 && dec.Blockers[0].Code == cke.CodeBlankNodes:
		return true
	}
	// A voter that does not answer may serve by itself as far as anybody can see: one that lost its files, or that is not on record.
	return tells(dec.Blockers, lost) && (status.Health == cke.HealthLost || status.Health == cke.HealthUnknown)
}

// tells reports whether problems name all nodes whose data is lost. One that has lost its certificates, too, is told for those: what its
// process still holds nobody can ask.
func tells(blockers []cke.Problem, lost []string) bool {
	for _, name := range lost {
		if !slices.ContainsFunc(blockers, func(p cke.Problem) bool {
			return p.Node == name && (p.Code == cke.CodeDataMissing || p.Code == cke.CodeCertificates)
		}) {
			return false
		}
	}
	return true
}

// lost names the nodes of memberships whose data is really gone. That a member was started a copy of the store may lack. Before anything
// was written, a later member that cke takes for a learner has nothing that could be missed; nor has one that ended, according to a mark.
func (s *stage) lost(id cke.Identity) []string {
	var names []string
	for _, j := range id.Joins {
		founder := slices.ContainsFunc(id.Incarnation.Founders, func(f cke.Join) bool { return f.ID == j.ID })
		if ended := slices.ContainsFunc(s.Nodes(), func(n *sim.Node) bool { return n.Marks(clusterName, j.ID) }); ended {
			continue
		}
		if !j.StartedAt.IsZero() && (founder || j.MayVote || len(s.Written()) > 0) && !s.MachineOf(j).Holds(j.Volume) {
			names = append(names, j.Node.Name())
		}
	}
	return names
}

// declared names the nodes that are to carry members.
func (s *stage) declared() []string {
	var names []string
	for _, n := range s.Store().Spec().Cluster.ControlPlane() {
		names = append(names, n.Name())
	}
	return names
}

// write lets a client write through some node.
func (n *nemesis) write() {
	nodes := n.s.everyNode()
	n.writes++
	n.s.Write(nodes[n.IntN(len(nodes))], fmt.Sprintf("w%d", n.writes))
}
