package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
	"cke/sim"
)

// toldStored is an order whose plan said that all that is acknowledged will be stored.
var toldStored = cke.RestoreOrder{Target: "file:///backups", Source: clusterName, Stored: true}

// restoreCase is a cluster that is restored.
type restoreCase struct {
	name string
	// before happens to the formed cluster, whose backup holds "kept" and which also holds "late".
	before func(s *stage)
	order  cke.RestoreOrder
	// writes: clients write until the restore takes the place of what they write to.
	writes bool
	// after happens once the restore is done.
	after func(s *stage)
	// want is what the cluster holds in the end.
	want []string
}

var fromBackup = cke.RestoreOrder{Target: "file:///backups", Source: clusterName}

var restoreCases = []restoreCase{
	{name: "while it serves", order: fromBackup, want: []string{"kept"}},
	{name: "while clients write", order: toldStored, want: []string{"kept"}, writes: true},
	{name: "all nodes are blank", order: fromBackup, want: []string{"kept"},
		before: func(s *stage) { s.eachNode((*sim.Node).Blank) }},
	{name: "a node is away and comes back with its old member", want: []string{"kept"},
		order:  cke.RestoreOrder{Target: "file:///backups", Source: clusterName, Without: []string{"n3"}},
		before: func(s *stage) { s.Node("n3").PowerOff() },
		after:  func(s *stage) { s.pass(time.Hour); s.Node("n3").PowerOn() }},
	{name: "recovery from the only node that kept its data", want: []string{"kept", "late"},
		order:  cke.RestoreOrder{Survivor: "n2"},
		before: func(s *stage) { s.Node("n1").Blank(); s.Node("n3").Blank() }},
}

func (s *stage) eachNode(do func(*sim.Node)) {
	for _, n := range s.Nodes() {
		do(n)
	}
}

// idsOf are the ids that some names mean by what the leader told last, as ckecli stores them.
func (s *stage) idsOf(names []string) []string {
	return strategy.DestroyedIDs(strategy.InputFrom(s.Store().Spec(), s.Store().Identity(), cke.Requests{}, s.told()), names)
}

// destroy names machines that a deletion does not wait for, as ckecli does.
func (s *stage) destroy(names ...string) { s.Store().DestroyMembers(s.idsOf(names), names...) }

// order is a person's confirmed order.
func (s *stage) order(o cke.RestoreOrder) {
	t := cke.NewTask(cke.TaskRestore, "", "", "person@host", time.Now())
	o.DestroyedIDs = s.idsOf(o.Destroyed)
	t.Restore = &o
	s.Store().Ask("restore", func(r *cke.Requests) { r.Tasks = append(r.Tasks, t) })
}

func (s *stage) restored() bool {
	inc := s.Store().Identity().Incarnation
	return inc != nil && inc.Restore != nil && inc.State == cke.Formed
}

// restores plays a case with blows at calls counted from the order on, and returns what is wrong in the end.
func (c restoreCase) restores(s *stage, b blows, late int, seed uint64) (faults []string, calls int) {
	s.daemon()
	if !s.until(convergence, s.settled) || !s.Write("n1", "kept") {
		return []string{"no cluster to restore"}, 0
	}
	s.TakeBackup()
	s.Write("n1", "late")
	if c.before != nil {
		c.before(s)
		s.pass(time.Minute)
	}
	base, due := s.Calls(), 0
	land := func() {
		due = 0
		s.Land()
		for _, d := range s.drivers {
			d.Wake()
		}
	}
	s.Judge = func(n int, _ sim.Call) sim.Verdict {
		if due > 0 && n >= due {
			land()
		}
		v := b[n-base]
		if v == sim.KillLate || v == sim.Linger || v == sim.Freeze {
			due = n + late
		}
		return v
	}
	if seed > 0 {
		r := rand.New(rand.NewPCG(seed, 0))
		s.Pick = r.IntN
	}
	s.order(c.order)
	written := 0
	done := s.until(convergence, func() bool {
		s.succeed()
		if c.writes && !s.restored() {
			written++
			s.Write(fmt.Sprintf("n%d", 1+written%3), fmt.Sprint("during ", written))
		}
		if inc := s.Store().Identity().Incarnation; inc.Restore == nil && len(s.asked()) == 0 {
			s.order(c.order) // the order failed, and the person gives it again
		}
		if due > 0 && s.restored() && s.settled() {
			land() // a cluster that is calm may not make as many calls before the time is over
		}
		return s.restored() && due == 0
	})
	s.pass(probe) // what has landed is seen
	calls = s.Calls() - base
	if done && c.after != nil {
		c.after(s)
	}
	if !done || !s.until(convergence, func() bool { s.succeed(); return s.settled() && s.faults(s.everyNode()...) == nil }) {
		dec, _ := s.latest().now()
		return append(s.faults(s.everyNode()...), "does not converge: "+describeDecision(s.latest().Number(), dec)), calls
	}
	faults = s.faults(s.everyNode()...)
	got := slices.DeleteFunc(s.Written(), func(v string) bool { return c.writes && strings.HasPrefix(v, "during") }) // written after it
	if !slices.Equal(got, c.want) {
		faults = append(faults, fmt.Sprintf("holds %v, not %v", got, c.want))
	}
	return faults, calls
}

func (s *stage) asked() []cke.Task { return s.latest().Term().Requests().Tasks }

// asks reports whether a task of this kind waits for an answer.
func (s *stage) asks(kind cke.TaskKind) bool {
	return slices.ContainsFunc(s.asked(), func(t cke.Task) bool { return t.Kind == kind })
}

func (c restoreCase) mustRestore(t *testing.T, b blows, late int, seed uint64) (calls int) {
	t.Helper()
	var faults []string
	play(t, 3, func(s *stage) { faults, calls = c.restores(s, b, late, seed) })
	if faults == nil {
		return calls
	}
	play(t, 3, func(s *stage) {
		s.tell = t.Logf
		s.OnTrace(t.Logf)
		c.restores(s, b, late, seed)
		t.Logf("\n%s", s.World)
	})
	t.Fatalf("blows at calls %v, late by %d, order %d:\n%s", b, late, seed, strings.Join(faults, "\n"))
	return 0
}

func TestRestore_EndsAsOneClusterFromEveryCrashPoint(t *testing.T) {
	for _, c := range restoreCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			calls := c.mustRestore(t, nil, 0, 0)
			for k := range points(calls, 9, 0) {
				for _, v := range []sim.Verdict{sim.KillBefore, sim.KillHalfway, sim.KillAfter, sim.Refuse, sim.LoseAnswer} {
					c.mustRestore(t, blows{k: v}, 0, uint64(k))
				}
			}
			for k := range points(calls, 17, 1) {
				for _, v := range []sim.Verdict{sim.KillLate, sim.Linger, sim.Freeze} {
					c.mustRestore(t, blows{k: v}, []int{3, 17, 60, 200}[k%4], uint64(k))
				}
			}
			t.Logf("%d calls", calls)
		})
	}
}

func TestRestore_EndsAsOneClusterAfterTwoCrashes(t *testing.T) {
	for _, c := range restoreCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			calls := c.mustRestore(t, nil, 0, 0)
			r := rand.New(rand.NewPCG(7, 2))
			for range some(300) {
				b := blows{}
				for range 2 {
					b[1+r.IntN(2*calls)] = sim.Refuse + sim.Verdict(r.IntN(8))
				}
				c.mustRestore(t, b, 1+r.IntN(calls), r.Uint64())
			}
		})
	}
}

func TestRestore_ChangesNothingWhenItCannotBeDone(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(s *stage)
		order  cke.RestoreOrder
		code   cke.Code
		says   string
	}{
		"the backup is damaged":         {func(s *stage) { s.LoseBackup() }, fromBackup, cke.CodeBackupDamaged, "damaged"},
		"a node does not answer":        {func(s *stage) { s.Node("n2").PowerOff() }, fromBackup, cke.CodeFence, "n2"},
		"the rest could have a quorum":  {func(s *stage) { s.Node("n2").PowerOff(); s.Node("n3").PowerOff() }, without("n2", "n3"), cke.CodeFence, "could be 2 of 3 members"},
		"no such node":                  {nil, without("n9"), cke.CodeConfig, "n9"},
		"a quorum needs no recovery":    {nil, cke.RestoreOrder{Survivor: "n1"}, cke.CodeCannot, "quorum"},
		"the survivor holds no data":    {func(s *stage) { s.Node("n1").Blank(); s.Node("n2").Blank() }, cke.RestoreOrder{Survivor: "n1"}, cke.CodeDataMissing, "n1"},
		"neither backups nor survivors": {nil, cke.RestoreOrder{}, cke.CodeConfig, "neither"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				s.daemon()
				s.until(convergence, s.settled)
				if tt.before != nil {
					tt.before(s)
					s.pass(time.Minute)
				}
				was := s.Store().Identity().Incarnation.ID
				s.order(tt.order)
				s.until(convergence, func() bool { return len(s.asked()) == 0 })
				last := cke.Record{}
				for _, r := range s.Store().Records() {
					if r.Task != "" {
						last = r
					}
				}
				if last.State != cke.RecordFailed || last.Code != tt.code || !strings.Contains(last.Error, tt.says) {
					t.Errorf("%+v", last)
				}
				if last.Refusal == nil || !last.Refusal.Unchanged {
					t.Errorf("refusal %+v", last.Refusal)
				}
				if now := s.Store().Identity().Incarnation; now.ID != was || now.State != cke.Formed {
					t.Errorf("incarnation %+v", now)
				}
				if v := s.Violations(); v != nil {
					t.Error(v)
				}
			})
		})
	}
}

func without(nodes ...string) cke.RestoreOrder {
	o := fromBackup
	o.Without = nodes
	return o
}

func TestRestore_WithNodesDestroyedForGood(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.daemon()
		s.until(convergence, s.settled)
		s.Write("n1", "kept")
		s.Node("n2").PowerOff()
		s.Node("n3").PowerOff()
		s.pass(time.Minute)
		s.order(cke.RestoreOrder{Survivor: "n1", Destroyed: []string{"n2", "n3"}})
		if !s.until(convergence, s.restored) {
			t.Fatal("not restored")
		}
		if got := s.Written(); !slices.Equal(got, []string{"kept"}) {
			t.Errorf("holds %v", got)
		}
		s.Node("n2").Blank()
		s.Node("n2").PowerOn()
		s.Node("n3").Blank()
		s.Node("n3").PowerOn()
		if !s.until(convergence, func() bool { return s.settled() && s.faults(s.everyNode()...) == nil }) {
			t.Error(s.faults(s.everyNode()...))
		}
	})
}

func TestRestore_IsCalledOffWhileNothingWasStarted(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.daemon()
		s.until(convergence, s.settled)
		s.Write("n1", "kept")
		s.TakeBackup()
		s.Write("n1", "late")
		was := s.Store().Identity().Incarnation.ID
		s.Node("n2").FillDisk()
		s.order(fromBackup)
		s.until(convergence, func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
		s.pass(10 * time.Minute)
		s.Store().Ask("cancel the restore", func(r *cke.Requests) {
			r.Tasks = append(r.Tasks, cke.NewTask(cke.TaskCancelRestore, "", "", "person@host", time.Now()))
		})
		s.Node("n2").FreeDisk()
		if !s.until(convergence, func() bool { return s.settled() && s.faults(s.everyNode()...) == nil }) {
			t.Fatal(s.faults(s.everyNode()...))
		}
		if now := s.Store().Identity().Incarnation; now.ID != was || now.Restore != nil {
			t.Errorf("%+v", now)
		}
		if got := s.Written(); !slices.Equal(got, []string{"kept", "late"}) {
			t.Errorf("holds %v", got)
		}
	})
}

// A restore that took the place of another one, and both are called off: what either made goes, and holds no addition up.
func TestRestore_LeavesNothingOfTwoThatWereCalledOff(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		s.until(convergence, s.settled)
		s.Write("n1", "kept")
		s.TakeBackup()
		s.Node("n2").FillDisk()
		lives := map[string]bool{s.Store().Identity().Incarnation.ID: true}
		for range 2 {
			s.order(fromBackup)
			s.until(convergence, func() bool {
				inc := s.Store().Identity().Incarnation
				return inc.State == cke.Restoring && !lives[inc.ID]
			})
			lives[s.Store().Identity().Incarnation.ID] = true
			s.pass(time.Minute)
		}
		for range 2 {
			was := s.Store().Identity().Incarnation.ID
			s.Store().Ask("cancel the restore", func(r *cke.Requests) {
				r.Tasks = append(r.Tasks, cke.NewTask(cke.TaskCancelRestore, "", "", "person@host", time.Now()))
			})
			s.until(convergence, func() bool { return s.Store().Identity().Incarnation.ID != was })
		}
		s.Node("n2").FreeDisk()
		s.declare(s.Nodes()...)
		if !s.until(convergence, func() bool { return s.settled() && s.faults(s.everyNode()...) == nil }) {
			t.Fatal(s.faults(s.everyNode()...))
		}
		for _, n := range s.Nodes() {
			containers, volumes := n.Look()
			if len(containers) != 1 || len(volumes) != 1 {
				t.Errorf("%s carries %v and %v", n.Name(), containers, volumes)
			}
		}
	})
}

func TestRestore_TakesThePlaceOfOneThatDoesNotEnd(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.daemon()
		s.until(convergence, s.settled)
		s.Write("n1", "kept")
		s.TakeBackup()
		s.order(fromBackup)
		s.until(convergence, func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
		s.Node("n3").PowerOff()
		s.pass(10 * time.Minute)
		s.order(without("n3"))
		if !s.until(convergence, s.restored) {
			dec, _ := s.latest().now()
			t.Fatal(describeDecision(1, dec))
		}
		s.Node("n3").PowerOn()
		if !s.until(convergence, func() bool { return s.settled() && s.faults(s.everyNode()...) == nil }) {
			t.Error(s.faults(s.everyNode()...))
		}
	})
}

// unfenced machines say that they stopped a container and removed it, and do not.
type unfenced struct{ cke.Machines }

func (u unfenced) Machine(n cke.Node) cke.Machine { return unfencedMachine{u.Machines.Machine(n)} }

type unfencedMachine struct{ cke.Machine }

func (m unfencedMachine) StopContainer(context.Context, cke.Join, time.Duration) error { return nil }

func (m unfencedMachine) RemoveContainer(context.Context, cke.Join) error { return nil }

func (m unfencedMachine) Container(ctx context.Context, j cke.Join) (cke.Container, error) {
	c, err := m.Machine.Container(ctx, j)
	c.State = cke.ContainerExited
	return c, err
}

// Without fencing, members of two lives run at the same time as soon as their ports do not keep them apart.
func TestChecker_NoticesARestoreWithoutFence(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.daemon()
		s.until(convergence, s.settled)
		s.Write("n1", "kept")
		s.TakeBackup()
		other := s.cluster(s.Nodes())
		other.Options.Etcd.ClientPort, other.Options.Etcd.PeerPort = 12379, 12380
		s.wrap = func(e op.Env) op.Env { e.Machines = unfenced{e.Machines}; return e }
		s.order(fromBackup)
		s.Store().SetSpec(other)
		s.pass(convergence)
		s.mustViolate(t, "two clusters serve", "while a member of the one before runs")
	})
}

// A restore that is called off lets clients write again, also where somebody pauses the cluster meanwhile.
func TestRestore_IsCalledOffWhilePaused(t *testing.T) {
	t.Parallel()
	play(t, 3, func(s *stage) {
		armed := s.refusedOnceStopped()
		if !s.until(convergence, func() bool { return *armed }) {
			t.Fatal("writes are not stopped")
		}
		s.Store().Ask("pause", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "what is this"} })
		if !s.until(10*time.Minute, func() bool { return s.Store().Identity().Incarnation.Restore == nil }) {
			t.Fatal("the restore is not called off")
		}
		if !s.until(10*time.Minute, func() bool { return s.Write("n2", "after") }) {
			t.Errorf("clients cannot write: %v, %s", s.Alarms(), s.latest().decision.Reason)
		}
	})
}
