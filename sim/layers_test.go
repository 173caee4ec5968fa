package sim_test

import (
	"context"
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
	"cke/sim"
)

// Three things keep a member from being started without its data: the arguments that it is started with, with which etcd
// refuses to begin without a log; the look for its log, before cke starts it; and its certificates, which lie in the same
// volume, so that whoever lost all has none. These tests take single ones away.

// thin is a cke that lacks some of what keeps members from being started without data.
type thin struct {
	// look: nobody looks for logs, neither Decide nor operations. arguments: members are started as founders once were. founding:
	// founders are, and get no first log.
	look, arguments, founding bool
}

func (l thin) blind(in *strategy.Input) {
	if l.look {
		noDataCheck(in)
	}
	for i := range in.Seen.Nodes {
		for k := range in.Seen.Nodes[i].Containers {
			in.Seen.Nodes[i].Containers[k].StartsEmpty = false // or cke would mend it
		}
	}
}

func (l thin) wrap(s *stage, e op.Env) op.Env {
	e.Machines = thinMachines{e.Machines, s, l}
	return e
}

type thinMachines struct {
	cke.Machines
	s *stage
	thin
}

func (t thinMachines) Machine(n cke.Node) cke.Machine { return thinMachine{t.Machines.Machine(n), t} }

type thinMachine struct {
	cke.Machine
	thinMachines
}

// Data implements cke.Machine.
func (m thinMachine) Data(ctx context.Context, j cke.Join) (cke.DataState, error) {
	data, err := m.Machine.Data(ctx, j)
	if m.look && err == nil {
		data = cke.DataPresent
	}
	return data, err
}

// EnsureContainer implements cke.Machine.
func (m thinMachine) EnsureContainer(ctx context.Context, spec cke.MemberSpec) error {
	if inc := m.s.Store().Identity().Incarnation; inc != nil && (m.arguments && spec.Mode == cke.StartOwnData || m.founding && spec.Mode == cke.StartPrepared) {
		spec.Mode, spec.Peers = sim.StartNew, nil
		for _, f := range inc.Founders {
			spec.Peers = append(spec.Peers, cke.Peer{Name: f.Member, URL: f.PeerURL()})
		}
	}
	return m.Machine.EnsureContainer(ctx, spec)
}

// PutFounder implements cke.Machine.
func (m thinMachine) PutFounder(ctx context.Context, spec cke.MemberSpec, files []cke.File) error {
	if m.founding {
		return m.PutFiles(ctx, spec.Join, files)
	}
	return m.Machine.PutFounder(ctx, spec, files)
}

const (
	startsEmpty = "starts empty under the id that it had before"
	couldStart  = "could start its member without its data"
)

// What is lost, and when, says which of the three it is that holds.
func TestLayers_EachAloneKeepsMembersFromStartingEmptySomewhere(t *testing.T) {
	emptied, removed := (*sim.Node).EmptyVolumes, (*sim.Node).RemoveData
	// While the cluster is founded, or is formed and a person has stopped etcd, or its engine starts it again.
	founding := func(s *stage, lose func(*sim.Node)) {
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name != "ProveWrite" {
				return sim.Proceed
			}
			s.Judge = nil
			for _, n := range s.Nodes()[:2] { // where n3 is reached, etcd itself refuses
				lose(n)
				s.Cut(n.Name(), "n3")
			}
			return sim.KillBefore
		}
		s.daemon()
		s.until(convergence, func() bool { return s.latest().Dead() })
		s.daemon()
	}
	formed := func(s *stage) {
		s.daemon()
		s.must("formed", s.settled)
		s.Node("n3").PowerOff()
	}
	stopped := func(s *stage, lose func(*sim.Node)) {
		formed(s)
		for _, n := range s.Nodes()[:2] {
			n.StopByHand()
			lose(n)
		}
	}
	again := func(s *stage, lose func(*sim.Node)) {
		s.daemon()
		s.must("formed", s.settled)
		s.Store().SetSpec(s.want([]int{1, 2, 3}, true)) // each is made anew, with the arguments of a member that has data
		s.must("as declared", s.changed)
		s.latest().Kill()
		s.Node("n3").PowerOff()
		for _, n := range s.Nodes()[:2] {
			lose(n)
		}
	}
	asFounded := func(s *stage, lose func(*sim.Node)) {
		formed(s)
		s.latest().Kill()
		for _, n := range s.Nodes()[:2] {
			lose(n)
		}
	}
	look, arguments, both := thin{look: true}, thin{arguments: true}, thin{look: true, arguments: true}
	for _, row := range []struct {
		name  string
		when  func(*stage, func(*sim.Node))
		lose  func(*sim.Node)
		lacks thin
		empty bool
	}{
		{"founded, the data directory is gone", founding, removed, thin{}, false},
		{"the arguments hold without the look", founding, removed, look, false},
		{"founded as before, the look alone holds", founding, removed, thin{founding: true}, false},
		{"and without it", founding, removed, thin{look: true, founding: true}, true},
		{"founded as before, all is gone: certificates hold, too", founding, emptied, thin{look: true, founding: true}, false},
		{"stopped, the data directory is gone", stopped, removed, thin{}, false},
		{"the arguments hold without the look", stopped, removed, look, false},
		{"the look holds without the arguments", stopped, removed, arguments, false},
		{"and without both", stopped, removed, both, true},
		{"stopped, all is gone: the arguments hold without the look", stopped, emptied, look, false},
		{"and without both: certificates hold, as long as nobody writes new ones", stopped, emptied, both, false},
		{"the engine starts it, without a daemon: the arguments alone hold", again, removed, thin{}, false},
		{"and without them", again, removed, arguments, true},
		{"the engine starts a founder: its first arguments alone hold", asFounded, removed, thin{}, false},
		{"and without them: certificates alone hold where all is gone", asFounded, emptied, thin{founding: true}, false},
		{"and without both", asFounded, removed, thin{founding: true}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				if row.lacks.founding || row.lacks.arguments {
					s.FormedEarlier()
					s.KeepAll()
				}
				s.blind = row.lacks.blind
				s.wrap = func(e op.Env) op.Env { return row.lacks.wrap(s, e) }
				row.when(s, row.lose)
				s.pass(convergence)
				s.Serving() // what was due by now has happened, also where no daemon looks
				if row.empty {
					s.mustViolate(t, startsEmpty)
				} else {
					s.isUnharmed(t)
				}
			})
		})
	}
}
