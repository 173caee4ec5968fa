package sim_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// moveTo gives n2 another address, and declares that.
func (s *stage) moveTo(address string) {
	s.Node("n2").Readdress(address)
	s.declare(s.Nodes()...)
}

// movedTo reports whether n2's member serves at an address, with its id and its volume.
func (s *stage) movedTo(address string, before cke.Join) bool {
	id := s.Store().Identity()
	for _, j := range id.Joins {
		if j.ID == before.ID && j.MemberID == before.MemberID && j.Volume == before.Volume && j.Node.Address == address && j.ClientPort == s.ports() {
			return s.settled() && s.Write("n2", fmt.Sprintf("at %s %v", address, time.Now().UnixNano()))
		}
	}
	return false
}

func (s *stage) ports() int { return s.Store().Spec().Wanted().Options.Etcd.ClientPort }

func TestAddress_AMachineThatMovedKeepsItsMember(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 5} {
		inFormed(t, nodes, func(s *stage) {
			if nodes < 3 {
				return // without it there is no quorum, so nobody can be told the new address
			}
			before := s.Store().Identity().Joins[1]
			s.moveTo("10.0.7.2")
			if !s.until(convergence, func() bool { return s.movedTo("10.0.7.2", before) }) {
				dec, _ := s.latest().now()
				t.Fatal(describeDecision(1, dec))
			}
			if id := s.Store().Identity(); len(id.Joins) != nodes || len(id.Ended) != 0 {
				t.Errorf("%+v", id)
			}
		})
	}
}

func TestAddress_AnotherMachineOfTheSameNameIsANewNode(t *testing.T) {
	inFormed(t, 3, func(s *stage) {
		before := s.Store().Identity().Joins[1]
		s.Node("n2").Blank()
		s.moveTo("10.0.7.2")
		if !s.until(convergence, func() bool { return s.settled() && len(s.Store().Identity().Ended) == 1 }) {
			dec, _ := s.latest().now()
			t.Fatal(describeDecision(1, dec))
		}
		if id := s.Store().Identity(); id.Ended[0].ID != before.ID || len(id.Joins) != 3 {
			t.Errorf("%+v", id)
		}
	})
}

// portsOf declares other ports.
func (s *stage) portsOf(client, peer int) {
	c := s.cluster(s.Nodes())
	c.Options.Etcd.ClientPort, c.Options.Etcd.PeerPort = client, peer
	s.Store().SetSpec(c)
}

func TestAddress_MovesFromEveryCrashPoint(t *testing.T) {
	verdicts := []sim.Verdict{sim.KillBefore, sim.KillHalfway, sim.KillAfter, sim.KillLate, sim.Linger, sim.LoseAnswer, sim.Freeze}
	for name, change := range map[string]struct {
		do      func(s *stage)
		address string
		calls   int
	}{
		"another address": {func(s *stage) { s.moveTo("10.0.7.2") }, "10.0.7.2", 90},
		"other ports":     {func(s *stage) { s.portsOf(3379, 3380) }, "10.0.0.2", 220},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for k := range points(change.calls, 3, len(name)) {
				for i := range points(len(verdicts), len(verdicts), k) {
					v := verdicts[i-1]
					inFormed(t, 3, func(s *stage) {
						before := s.Store().Identity().Joins[1]
						change.do(s)
						begin := s.Calls()
						s.Pick = rand.New(rand.NewPCG(uint64(k), 0)).IntN
						s.Judge = func(n int, _ sim.Call) sim.Verdict {
							if n == begin+k+25 {
								s.Land()
							}
							if n == begin+k {
								return v
							}
							return sim.Proceed
						}
						ok := s.until(4*convergence, func() bool { s.succeed(); return s.movedTo(change.address, before) })
						s.Land()
						for _, d := range s.drivers {
							d.Wake()
						}
						if !ok || !s.until(convergence, func() bool { return s.movedTo(change.address, before) }) {
							dec, _ := s.latest().now()
							t.Fatalf("%v at call %d: %s\n%s", v, k, describeDecision(s.latest().Number(), dec), s.World)
						}
					})
				}
			}
		})
	}
}

// A daemon dies when other ports are on record, and a person starts the container that was made for the former ones: nobody
// reaches its member. It is made anew, also where that member alone is the quorum.
func TestAddress_AContainerThatAPersonStartedWhereNobodyReachesItIsMadeAnew(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		inFormed(t, nodes, func(s *stage) {
			s.once(sim.KillAfter, func(c sim.Call) bool { return c.Name == "PutJoins" })
			c := s.cluster(s.Nodes())
			c.Options.Etcd.ClientPort, c.Options.Etcd.PeerPort = 3379, 3380
			s.Store().SetSpec(c)
			s.until(convergence, func() bool { return s.latest().Dead() })
			for _, n := range s.Nodes() {
				n.StartByHand()
			}
			s.must("as declared", s.changed)
			s.isUnharmed(t)
		})
	}
}

// The machine of a member and a spare one exchange their addresses, and the cluster file stays as it is. The member is not given up while
// its volume is seen; with its address it serves again.
func TestAddress_MachinesThatExchangedTheirAddressesKeepTheirMembers(t *testing.T) {
	play(t, 6, func(s *stage) {
		c := s.cluster(s.Nodes())
		c.Nodes[5].ControlPlane = false
		c.Policies.Replace.Mode = cke.ReplaceAuto
		s.Store().SetSpec(c)
		s.daemon()
		s.must("formed", s.settled)
		n5, n6 := s.Node("n5"), s.Node("n6")
		of5, of6 := n5.Declared().Address, n6.Declared().Address
		exchange := func(a, b string) {
			n5.Readdress("10.0.9.9")
			n6.Readdress(b)
			n5.Readdress(a)
		}
		exchange(of6, of5)
		for range 30 {
			s.pass(time.Minute)
			s.Write("n1", "x")
		}
		if e := s.Store().Identity().Ended; len(e) > 0 {
			t.Errorf("given up: %+v", e)
		}
		exchange(of5, of6)
		s.must("all serve again", s.settled)
	})
}

// The machines of all members get each other's addresses. No data is lost: no restore is accepted that would give up what backups do
// not have, and with their addresses all serve again.
func TestAddress_MachinesThatAllExchangedTheirAddressesAreNotRestored(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		inFormed(t, 3, func(s *stage) {
			if nodes == 1 {
				s.Store().SetSpec(s.want([]int{1}, false))
				s.must("of one member", s.settled)
			}
			s.TakeBackup()
			s.Write("n1", "after the backup")
			var of []string
			for _, n := range s.Nodes() {
				of = append(of, n.Declared().Address)
			}
			address := func(by int) {
				for i, n := range s.Nodes() {
					n.Readdress(fmt.Sprintf("10.0.9.%d", i+1))
				}
				for i, n := range s.Nodes() {
					n.Readdress(of[(i+by)%len(of)])
				}
			}
			address(1)
			s.pass(5 * time.Minute)
			s.order(fromBackup)
			s.must("answered", func() bool { return !s.asks(cke.TaskRestore) })
			if s.Store().Identity().Incarnation.Restore != nil {
				t.Fatalf("%d members: restored", nodes)
			}
			address(0)
			s.must("all serve again", s.settled)
			s.Write("n1", "with their addresses")
		})
	}
}

// A member is put on record where it serves, and its machine is declared elsewhere, in another zone: until it is moved, nothing is said of zones that
// depends on which of both is right.
func TestOlderStore_AMemberThatIsReclaimedWhereItServesIsInNoZone(t *testing.T) {
	play(t, 4, func(s *stage) {
		nodes := slices.Delete(s.Nodes(), 2, 3) // n1 and n4 are in one zone
		s.declare(nodes...)
		s.daemon()
		s.must("formed", s.settled)
		copied := s.Store().Copy()
		s.replaceAll(t, "n4")
		member := s.join("n4")
		s.broughtBack(copied)
		s.freezesAndServes(t)
		s.Node("n4").AddAddress("10.0.7.3")
		s.declare(nodes...)
		s.pass(time.Minute)
		s.reclaims(t)
		s.must("moved", func() bool { return s.movedTo("10.0.7.3", member) })
		s.isUnharmed(t)
	})
}

// The member of a machine that got another address while the store was older is put on record where it serves, and moved afterward.
func TestOlderStore_AMemberIsReclaimedWhereItServes(t *testing.T) {
	for name, move := range map[string]func(n *sim.Node, address string){
		"the machine has both addresses":     (*sim.Node).AddAddress,
		"the machine has another address":    (*sim.Node).Readdress,
		"the former address is dropped then": func(n *sim.Node, address string) { n.AddAddress(address); n.DropAddress() },
	} {
		t.Run(name, func(t *testing.T) {
			inFormed(t, 3, func(s *stage) {
				copied := s.Store().Copy()
				s.replaceAll(t, "n2")
				member := s.join("n2")
				s.broughtBack(copied)
				s.freezesAndServes(t)
				move(s.Node("n2"), "10.0.7.2")
				s.declare(s.Nodes()...)
				s.pass(time.Minute)
				s.reclaims(t)
				if !s.until(convergence, func() bool { return s.movedTo("10.0.7.2", member) }) {
					dec, _ := s.latest().now()
					t.Fatalf("not moved: %s\n%v", describeDecision(s.latest().Number(), dec), s.Store().Records())
				}
				s.isUnharmed(t)
			})
		})
	}
}
