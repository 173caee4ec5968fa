package sim_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/server/strategy"
)

// A machine has another address beside its former one, at which its member serves, and is in a queue while another one is off. It goes
// down once the other one serves and its member has moved.
func TestReboots_OfAMachineWhoseMemberHasNotMoved(t *testing.T) {
	for _, k := range cke.QueueKinds() {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			play(t, 3, func(s *stage) {
				s.daemon()
				s.must("formed", s.settled)
				n2 := s.Node("n2")
				s.Node("n3").PowerOff()
				n2.AddAddress("10.0.7.2")
				s.declare(s.Nodes()...)
				s.enqueue(k, map[cke.QueueKind]cke.Entry{cke.RebootQueue: {}, cke.RepairQueue: {On: "dead"}}[k], []string{"n2"})
				boots := n2.Boots()
				s.pass(20 * time.Minute)
				if n2.Boots() != boots {
					t.Error("it went down")
				}
				s.Node("n3").PowerOn()
				if s.emptied(k, time.Hour); n2.Boots() == boots || s.join("n2").Node.Address != "10.0.7.2" {
					t.Errorf("%d boots, %+v", n2.Boots(), s.join("n2").Node)
				}
				n2.DropAddress()
				s.must("all serve", s.settled)
				s.isUnharmed(t)
			})
		})
	}
}

// onlyOnRecord does not see which member is on a machine with another address than that on record, nor that it is the machine of that member.
func onlyOnRecord(in *strategy.Input) {
	in.Seen.Nodes, in.Identity.Joins = slices.Clone(in.Seen.Nodes), slices.Clone(in.Identity.Joins)
	for i, n := range in.Seen.Nodes {
		own, _ := in.Identity.On(n.Node)
		in.Seen.Nodes[i].Containers = slices.DeleteFunc(slices.Clone(n.Containers), func(c cke.Container) bool { return c.Join != own.ID })
		in.Seen.Nodes[i].Volumes = slices.DeleteFunc(slices.Clone(n.Volumes), func(v cke.Volume) bool { return v.Join != own.ID })
	}
	for i, j := range in.Identity.Joins {
		if n, declared := in.Spec.Node(j.Node.Name()); declared && n.Address != j.Node.Address {
			in.Identity.Joins[i].Node.Hostname = "former"
		}
	}
}

// settledMachines are machines of which none has a member that is on record at another address.
type settledMachines struct{ cke.Machines }

func (s settledMachines) Machine(n cke.Node) cke.Machine {
	return settledMachine{s.Machines.Machine(n), n}
}

type settledMachine struct {
	cke.Machine
	node cke.Node
}

func (s settledMachine) Container(ctx context.Context, j cke.Join) (cke.Container, error) {
	if j.Node.Address != s.node.Address {
		return cke.Container{}, cke.ErrNotFound
	}
	return s.Machine.Container(ctx, j)
}
