package sim_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server"
	"cke/sim"
)

// asksFor lets the agents of nodes ask, and waits until all are in the queue.
func (s *stage) asksFor(m manner, nodes ...string) {
	for i, name := range nodes {
		s.agent(s.Node(name), m, uint64(i))
	}
	s.until(time.Minute, func() bool {
		return !slices.ContainsFunc(nodes, func(name string) bool { return s.entryOf(name).Agent == "" })
	})
}

// Machines whose agents ask reboot one after the other, beside one that an operator put into the queue; the leader is
// last.
func TestFleetLock_MachinesRebootOneAfterTheOther(t *testing.T) {
	t.Parallel()
	formedWith(t, 5, 5, func(s *stage) {
		leader := s.leader()
		all := slices.DeleteFunc(s.everyNode(), func(n string) bool { return n == leader })
		s.asksFor(patient, append(all[1:], leader)...)
		s.addReboots(all[0])
		order := s.rebooted(time.Hour)
		if len(order) != 5 || order[4] != leader || !s.until(convergence, s.settled) {
			t.Errorf("the leader is %s, rebooted were %v, left %+v", leader, order, s.Store().Requests().Reboots.Entries)
		}
		for _, n := range s.Nodes() {
			if n.Boots() != 1 {
				t.Errorf("%s rebooted %d times", n.Name(), n.Boots())
			}
		}
		if m := s.Marks(); m[sim.AgentGranted] < 4 || m[sim.AgentBack] != 4 || m[sim.AgentBeside] == 0 {
			t.Errorf("%v", m)
		}
	})
}

// A daemon dies at every write of reboots for which agents ask, also of those that are for an agent: the next one
// brings them to their end.
func TestFleetLock_ADaemonDiesAtEveryCall(t *testing.T) {
	t.Parallel()
	diesAtEveryCall(t, cke.RebootQueue, func(s *stage, nodes ...string) { s.asksFor(patient, nodes...) })
}

// What an agent does apart from the protocol, and what a machine does, ends in a member that serves: at once, or once
// an operator decided.
func TestFleetLock_MannersAndMachines(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		manner manner
		mode   sim.RebootMode
		fails  bool // an operator has to decide
		boots  int
	}{
		{"it asks twice", doubled, sim.Reboots, false, 1},
		{"it is slow", doubled, sim.Late, false, 1},
		{"it reboots twice", patient, sim.Twice, false, 2},
		{"it does not reboot", patient, sim.CommandFails, false, 0},
		{"it reports back before it reboots", fickle, sim.Late, false, 0},
		{"it has not asked", unasked, sim.Reboots, false, 0},
		{"the agent dies with the lease", patient, sim.StaysUp, true, 0},
		{"it says nothing when it is back", silent, sim.Reboots, true, 1},
		{"the machine never returns", patient, sim.StaysOff, true, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			formedWith(t, 3, 3, func(s *stage) {
				node := s.Node(s.follower())
				node.SetRebootMode(row.mode)
				s.asksFor(row.manner, node.Name())
				failed := func() bool { return s.entryOf(node.Name()).State == cke.EntryFailed }
				if s.until(time.Hour, func() bool { return failed() || row.manner != unasked && s.entryOf(node.Name()).ID == "" }); failed() != row.fails {
					t.Fatalf("%+v", s.entryOf(node.Name()))
				}
				if len(s.Store().Requests().Drains) > 0 {
					t.Errorf("leases %+v", s.Store().Requests().Drains)
				}
				s.pass(time.Minute)
				if boots := node.Boots(); row.mode != sim.StaysOff && (boots < row.boots || row.boots == 0 && boots > 0) {
					t.Errorf("%d boots", boots)
				}
				s.agents.hush()
				node.PowerOn()
				if failed() {
					s.cancelReboot(node.Name())
				}
				if !s.until(convergence, func() bool { return s.settled() && s.entryOf(node.Name()).ID == "" && s.runningOn(node.Name()) == 1 }) {
					t.Errorf("%+v", s.entryOf(node.Name()))
				}
			})
		})
	}
}

// beside is a mutation in which a command or an agent does not see other nodes of the queues, either.
func beside(m mutation) mutation {
	wrap := m.wrap
	m.wrap = func(s *stage, e op.Env) op.Env { return unaddressing(wrap(s, e)) }
	return m
}

// unaddressing lets operations see no address of what is queued.
func unaddressing(e op.Env) op.Env {
	e.Ledger = unaddressed{e.Ledger}
	return e
}

type unaddressed struct{ cke.Ledger }

func (u unaddressed) Asked(ctx context.Context) (cke.Requests, error) {
	r, err := u.Ledger.Asked(ctx)
	for _, q := range []*cke.Queue{&r.Reboots, &r.Repairs} {
		q.Entries = slices.Clone(q.Entries)
		for i := range q.Entries {
			q.Entries[i].Address = ""
		}
	}
	return r, err
}

// agentsAtOnce are mutations after which agents get leases that they must not.
var agentsAtOnce = []mutation{
	byAgents(beside(oneAtATime(cke.RebootQueue, (*stage).addReboots)), "one lease of an agent at a time", "may reboot it while", "is granted its reboot while"),
	byAgents(withoutStops(oneAtATime(cke.RebootQueue, (*stage).addReboots)), "quorum for the lease of an agent",
		"may reboot it, and takes the quorum away"),
	byAgents(mutation{store: func(s *stage) {
		s.agents.front = func(store server.FleetLockStore) server.FleetLockStore { return granting{store} }
	}}, "an agent waits for its lease", "is granted its reboot without a lease"),
}

// withoutStops is a mutation in which members are not stopped for maintenance, and operators stop some.
func withoutStops(m mutation) mutation {
	wrap := m.wrap
	m.wrap = func(s *stage, e op.Env) op.Env {
		e = wrap(s, e)
		e.Machines = unstopping{e.Machines}
		return e
	}
	m.often = []func(*nemesis, *sim.Node){flip((*sim.Node).StopByHand, (*sim.Node).StartByHand)}
	return m
}

// byAgents is a mutation in which agents ask, and must be what it is noticed by.
func byAgents(m mutation, name string, wants ...string) mutation {
	asks := func(n *nemesis, node *sim.Node) { n.askByAgent(node) }
	m.name, m.often, m.wants = name, append(slices.Clone(m.often), asks, asks), wants
	return m
}

// granting is a store in which each agent that waits has its lease.
type granting struct{ server.FleetLockStore }

func (g granting) RequestsOf(ctx context.Context, cluster string) (cke.Requests, error) {
	asked, err := g.FleetLockStore.RequestsOf(ctx, cluster)
	q := &asked.Reboots
	q.Entries = slices.Clone(q.Entries)
	for i := range q.Entries {
		if r := &q.Entries[i]; r.State == cke.EntryQueued {
			r.State, r.StartedAt = cke.EntryRebooting, r.AskedAt
			asked.Drains = append(slices.Clone(asked.Drains), cke.Drain{Node: r.Node, Entry: r.ID, Until: r.AskedAt.Add(time.Hour)})
		}
	}
	return asked, err
}

// unstopping are machines on which members are not stopped for maintenance.
type unstopping struct{ cke.Machines }

func (u unstopping) Machine(n cke.Node) cke.Machine { return unstoppingMachine{u.Machines.Machine(n)} }

type unstoppingMachine struct{ cke.Machine }

func (unstoppingMachine) StopContainer(context.Context, cke.Join, time.Duration) error { return nil }
