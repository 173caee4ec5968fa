package sim_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// destroyedOrders are what operators order who take the machines of n2 and n3 for destroyed.
var destroyedOrders = map[string]cke.RestoreOrder{
	"recovery": {Survivor: "n1", Destroyed: []string{"n2", "n3"}},
	"restore":  {Target: fromBackup.Target, Source: fromBackup.Source, Destroyed: []string{"n2", "n3"}},
}

// outage is how nodes fall silent that operators then call destroyed, and how they come back.
var outages = map[string]struct{ ends, starts func(*stage, *sim.Node) }{
	"without power":     {func(_ *stage, n *sim.Node) { n.PowerOff() }, func(_ *stage, n *sim.Node) { n.PowerOn() }},
	"only etcd is back": {func(_ *stage, n *sim.Node) { n.PowerOff() }, func(_ *stage, n *sim.Node) { n.RefuseKey(true); n.PowerOn() }},
}

// Machines that the order calls destroyed are only without power, and are back at any request of a restore: no two clusters serve, and
// nothing is lost that the members acknowledge that came back.
func TestDestroyed_NothingIsStartedBesideMembersThatComeBack(t *testing.T) {
	stride := 1
	if testing.Short() {
		stride = 13
	}
	for name, o := range destroyedOrders {
		for how, outage := range outages {
			at, played := 0, true
			for ; played; at += stride {
				played = false
				play(t, 3, func(s *stage) {
					s.daemon()
					if !s.until(convergence, s.settled) || !s.Write("n1", "kept") {
						t.Fatal("no cluster")
					}
					s.TakeBackup()
					down := s.Nodes()[1:3]
					for _, n := range down {
						outage.ends(s, n)
					}
					s.pass(time.Minute)
					s.order(o)
					calls, starts := 0, false
					s.Judge = func(int, sim.Call) sim.Verdict {
						operation, step := s.Store().Running()
						starts = starts || step == "start" // what is back right when a member is started cannot be seen
						if (operation == "restore" || operation == "begin-restore" || operation == "begin-recovery") && !starts {
							if calls++; calls == at+1 {
								played = true
								for _, n := range down {
									outage.starts(s, n)
								}
							}
						}
						return sim.Proceed
					}
					s.pass(10 * time.Minute)
					served := s.Write("n2", "late")
					for _, n := range down {
						n.RefuseKey(false)
					}
					s.pass(20 * time.Minute)
					if served && o.Survivor != "" && !slices.Contains(s.Written(), "late") {
						t.Errorf("%s, %s, call %d: what they acknowledged is lost", name, how, at)
					}
					s.unbroken(t)
				})
				if t.Failed() {
					t.Fatalf("%s, %s, call %d", name, how, at)
				}
			}
			t.Logf("%s, %s: %d requests", name, how, at)
		}
	}
}

// holds are what keeps a restore from starting its members for a while, and what ends that.
var holds = map[string]struct{ starts, ends func(*sim.Node) }{
	"no data is made of the snapshot": {func(n *sim.Node) { n.FillDisk() }, func(n *sim.Node) { n.FreeDisk() }},
	"its node is without power":       {func(n *sim.Node) { n.PowerOff() }, func(n *sim.Node) { n.PowerOn() }},
}

// A node that the order calls destroyed answers for a while with its member, and is cut off again from where cke runs: what was seen
// counts, and nothing is started beside it.
func TestDestroyed_ANodeThatAnsweredOnceIsNotExcused(t *testing.T) {
	for name, o := range destroyedOrders {
		for why, hold := range holds {
			play(t, 3, func(s *stage) {
				s.daemon()
				if !s.until(convergence, s.settled) || !s.Write("n1", "kept") {
					t.Fatal("no cluster")
				}
				s.TakeBackup()
				down := s.Nodes()[1:3]
				for _, n := range down {
					n.PowerOff()
				}
				s.pass(time.Minute)
				if why == "no data is made of the snapshot" {
					hold.starts(s.Node("n1"))
				}
				s.order(o)
				s.until(10*time.Minute, func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
				hold.starts(s.Node("n1"))
				s.pass(time.Minute)
				for _, n := range down {
					n.PowerOn()
				}
				s.pass(2 * time.Minute)
				for _, n := range down {
					s.Cut(sim.Management, n.Name())
					n.StartByHand()
				}
				hold.ends(s.Node("n1"))
				s.pass(30 * time.Minute)
				late := s.Write("n2", "late")
				s.HealNetwork()
				s.until(convergence, s.settled)
				if !late || s.restored() && o.Survivor != "" {
					t.Errorf("%s, %s: %v, %v", name, why, late, s.World)
				}
				s.unbroken(t)
			})
		}
	}
}

// A restore that replaces another one is compared with what answers as well: its members are asked, which are not those of the first one.
func TestDestroyed_AnotherOrderDoesNotExcuseMembersThatServe(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.daemon()
		if !s.until(convergence, s.settled) || !s.Write("n1", "kept") {
			t.Fatal("no cluster")
		}
		s.TakeBackup()
		s.Node("n1").FillDisk()
		o := fromBackup
		s.order(o)
		s.until(10*time.Minute, func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
		for _, n := range s.Nodes()[1:] {
			n.RefuseKey(true) // etcd serves
		}
		s.pass(10 * time.Minute)
		s.Node("n1").FreeDisk()
		o.Destroyed = []string{"n2", "n3"}
		s.order(o)
		s.pass(10 * time.Minute)
		r := s.Store().Records()
		refused := slices.ContainsFunc(r, func(r cke.Record) bool { return r.Operation == "begin-restore" && r.Code == cke.CodeFence })
		if !refused || s.restored() || !s.Write("n2", "late") {
			t.Errorf("%+v", r[len(r)-1])
		}
		s.unbroken(t)
	})
}

// Machines that are called destroyed in a deletion are only without power, or their sshd refuses cke: nothing serves once the record is gone.
func TestDestroyed_ADeletionLeavesNoMemberThatIsSeen(t *testing.T) {
	for how, outage := range outages {
		for at, played := 0, true; played; at++ {
			played = false
			play(t, 3, func(s *stage) {
				s.daemon()
				if !s.until(convergence, s.settled) {
					t.Fatal("no cluster")
				}
				down := s.Nodes()[1:3]
				for _, n := range down {
					outage.ends(s, n)
				}
				s.pass(time.Minute)
				calls := 0
				s.Judge = func(int, sim.Call) sim.Verdict {
					operation, step := s.Store().Running()
					if operation == "delete-cluster" && step != "seal" && step != "mark-over" && step != "archive-record" {
						if calls++; calls == at+1 {
							played = true
							for _, n := range down {
								outage.starts(s, n)
							}
						}
					}
					return sim.Proceed
				}
				s.destroy("n2", "n3")
				s.Store().RequestDelete()
				s.pass(10 * time.Minute)
				s.Write("n2", "after the deletion") // the world is checked when something happens
				s.unbroken(t)
			})
			if t.Failed() {
				t.Fatalf("%s, call %d", how, at)
			}
		}
	}
}

// A recovery waits for a node, without a limit, while members that the order calls destroyed are back and serve. It is called off: the copy
// lacks what they acknowledged.
func TestDestroyed_ARecoveryDoesNotGiveUpWhatIsAcknowledgedMeanwhile(t *testing.T) {
	play(t, 5, func(s *stage) {
		s.daemon()
		if !s.until(convergence, s.settled) || !s.Write("n1", "kept") {
			t.Fatal("no cluster")
		}
		for _, n := range s.Nodes()[1:4] {
			n.PowerOff()
		}
		s.pass(time.Minute)
		s.order(cke.RestoreOrder{Survivor: "n1", Destroyed: []string{"n2", "n3", "n4"}})
		s.until(10*time.Minute, func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
		s.Node("n5").PowerOff()
		s.pass(10 * time.Minute)
		for _, n := range s.Nodes()[1:4] {
			n.PowerOn()
		}
		if !s.until(time.Minute, func() bool { return s.Write("n2", "late") }) {
			t.Fatal("they do not serve")
		}
		s.pass(10 * time.Minute)
		s.Node("n5").PowerOn()
		s.until(convergence, s.settled)
		if !slices.Contains(s.Written(), "late") {
			t.Error(s.World)
		}
		s.unbroken(t)
	})
}

// callsDestroyed takes the power of most machines, whose sshd will refuse cke, and orders a restore that calls them destroyed. They are back at
// one of its calls.
func (n *nemesis) callsDestroyed() {
	n.s.TakeBackup()
	o := fromBackup
	for _, node := range n.s.Nodes()[1:] {
		node.RefuseKey(true)
		node.PowerOff()
		o.Destroyed = append(o.Destroyed, node.Name())
	}
	n.s.pass(time.Minute)
	at, calls := n.IntN(80), 0
	n.s.Judge = func(int, sim.Call) sim.Verdict {
		if operation, _ := n.s.Store().Running(); operation == "restore" {
			if calls++; calls == at {
				n.s.eachNode((*sim.Node).PowerOn)
			}
		}
		return sim.Proceed
	}
	n.s.order(o)
	n.s.pass(5 * time.Minute)
}

// ungone are machines of which an operation that restores believes that they are gone if the order says so.
type ungone struct {
	cke.Machines
	s *stage
}

func (u ungone) Machine(n cke.Node) cke.Machine {
	if id := u.s.Store().Identity(); id.Incarnation != nil && id.Incarnation.Restore != nil && slices.Contains(id.Incarnation.Restore.Order.Destroyed, n.Name()) {
		return goneMachine{u.Machines.Machine(n)}
	}
	return u.Machines.Machine(n)
}

type goneMachine struct{ cke.Machine }

func (goneMachine) Container(context.Context, cke.Join) (cke.Container, error) {
	return cke.Container{}, cke.ErrUnreachable
}

type ungoneEtcd struct {
	cke.Etcd
	s *stage
}

func (u ungoneEtcd) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	id := u.s.Store().Identity()
	for _, j := range id.Superseded() {
		if j.ClientURL() == url && slices.Contains(id.Incarnation.Restore.Order.Destroyed, j.Node.Name()) {
			return cke.EndpointStatus{URL: url, Problem: "it is taken for gone"}
		}
	}
	return u.Etcd.Endpoint(ctx, url)
}
