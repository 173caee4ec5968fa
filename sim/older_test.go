package sim_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// replaceAll gives the members of nodes up for fresh ones, one after the other.
func (s *stage) replaceAll(t *testing.T, nodes ...string) {
	t.Helper()
	for _, n := range nodes {
		old := s.join(n).ID
		s.ask(cke.TaskReplace, n, string(old), "")
		if !s.until(convergence, func() bool { return s.join(n).ID != old && s.settled() && s.answered() }) {
			dec, _ := s.latest().now()
			t.Fatalf("%s is not replaced: %s", n, describeDecision(s.latest().Number(), dec))
		}
	}
}

// broughtBack puts a copy in the place of the store, and starts another daemon on it.
func (s *stage) broughtBack(c sim.StoreCopy) {
	s.latest().Kill()
	s.Store().BringBack(c)
	s.daemon()
}

// firstCopy is a copy of the store, once it is made.
type firstCopy struct {
	sim.StoreCopy
	made bool
}

// copiedOnce has the store copied at the first call at which it is so.
func (s *stage) copiedOnce(so func(cke.Identity, sim.Call) bool) *firstCopy {
	c := &firstCopy{}
	s.Judge = func(_ int, call sim.Call) sim.Verdict {
		if !c.made && so(s.Store().Identity(), call) {
			c.StoreCopy, c.made = s.Store().Copy(), true
		}
		return sim.Proceed
	}
	return c
}

// freezesAndServes awaits that the store is found to be older, and that clients are still served an hour later.
func (s *stage) freezesAndServes(t *testing.T) {
	t.Helper()
	if !s.until(convergence, func() bool { return s.frozenFor(cke.FreezeOlderStore) }) {
		dec, _ := s.latest().now()
		t.Fatalf("not frozen: %s", describeDecision(s.latest().Number(), dec))
	}
	s.pass(time.Hour)
	if !s.Write("n2", "an hour later") {
		t.Fatal("the cluster does not serve any more")
	}
}

// reclaims has the memberships put on record again.
func (s *stage) reclaims(t *testing.T) {
	t.Helper()
	s.reclaim(t)
	if !s.until(convergence, func() bool { return s.settled() && s.answered() }) {
		dec, _ := s.latest().now()
		t.Fatalf("not reclaimed: %s\n%v", describeDecision(s.latest().Number(), dec), s.Store().Records())
	}
}

// planReclaim derives what the nodes carry and the store does not have.
func (s *stage) planReclaim() (cke.Reclaim, *cke.Error) {
	d := s.latest()
	d.mu.Lock()
	in := d.input
	d.mu.Unlock()
	return cke.PlanReclaim(in.Spec, in.Identity, in.Seen, in.Backup)
}

// orderReclaim asks for it to be put on record again.
func (s *stage) orderReclaim(r cke.Reclaim) {
	task := cke.NewTask(cke.TaskReclaim, "", "", "eve@host", s.Now())
	task.Reclaim, task.ReclaimChanges = r.IDs(), r.Changes()
	s.Store().Ask("reclaim", func(q *cke.Requests) { q.Tasks = append(q.Tasks, task) })
}

func (s *stage) reclaim(t *testing.T) {
	t.Helper()
	r, why := s.planReclaim()
	if why != nil {
		t.Fatal(why)
	}
	s.orderReclaim(r)
}

func (s *stage) frozenFor(kind cke.FreezeKind) bool {
	f := s.Store().Identity().Freeze
	return f.Active() && f.Kind == kind
}

// Requirement A11: the members that took the place of others since the copy was made serve, and are not on record: nobody stops them.
func TestOlderStore_StopsNobodyAndIsReclaimed(t *testing.T) {
	for name, since := range map[string]func(t *testing.T, s *stage){
		"two members were replaced":  func(t *testing.T, s *stage) { s.replaceAll(t, "n2", "n3") },
		"all members were replaced":  func(t *testing.T, s *stage) { s.replaceAll(t, "n1", "n2", "n3") },
		"one was replaced twice":     func(t *testing.T, s *stage) { s.replaceAll(t, "n2", "n2") },
		"replaced, then other ports": func(t *testing.T, s *stage) { s.replaceAll(t, "n2"); s.portsOf(3379, 3380); s.must("moved", s.changed) },
		"replaced, then another size": func(t *testing.T, s *stage) {
			s.replaceAll(t, "n3")
			s.Store().SetSpec(s.want([]int{2, 3}, false))
			s.must("shrunk", s.changed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFormed(t, 3, func(s *stage) {
				copied := s.Store().Copy()
				since(t, s)
				file := s.Store().Spec().Cluster
				if !s.Write("n2", "acknowledged") {
					t.Fatal("not written")
				}
				s.broughtBack(copied)
				s.freezesAndServes(t)
				s.Store().SetSpec(file)
				s.pass(time.Minute)
				s.reclaims(t)
				if f := s.Store().Identity().Freeze; f.Active() || f.LiftedBy != "eve@host" {
					t.Errorf("%+v", f)
				}
				s.isUnharmed(t)
				s.must("as declared", s.changed)
			})
		})
	}
}

// Requirement A11: a cluster of the same name that another store has on one of our nodes is reported, and never touched; nobody is added
// beside it.
func TestNotOnRecord_AnotherStoresClusterIsNeverTouched(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.declare(s.Nodes()[:3]...)
		s.daemon()
		if !s.until(convergence, s.settled) {
			t.Fatal("does not form")
		}
		n4 := s.Node("n4")
		n4.AddNeighbor(sim.Neighbor{Cluster: clusterName, ClientPort: 4379, PeerPort: 4380})
		s.declare(s.Nodes()...)
		s.pass(time.Hour)
		dec, status := s.latest().now()
		if !slices.ContainsFunc(status.Problems, func(p cke.Problem) bool { return p.Code == cke.CodeNotOnRecord && p.Node == "n4" && p.Remedy != "" }) {
			t.Errorf("not reported: %+v\n%s", status.Problems, describeDecision(1, dec))
		}
		if len(s.Store().Identity().Joins) != 3 {
			t.Error("a member was added beside it")
		}
		if v := s.Violations(); v != nil {
			t.Error(v)
		}
		n4.RemoveNeighbor(clusterName)
		s.must("grown once it is gone", s.changed)
	})
}

// reclaim asks for what nodes carry and the store lost, as far as that can be told.
func (n *nemesis) reclaim() (asked bool) {
	r, why := n.s.planReclaim()
	refused := slices.ContainsFunc(n.s.Store().Records(), func(r cke.Record) bool {
		return r.Operation == string(cke.TaskReclaim) && r.Refused && r.StartedAt.After(n.healed)
	})
	if why != nil || refused && len(r.IDs())+len(r.Ends)+len(r.Apart) == 0 {
		return false
	}
	n.s.orderReclaim(r)
	return true
}

// neighbor lets another cluster, or one of this name that another store has, come to a node, stop, start and go.
func (n *nemesis) neighbor(node *sim.Node) {
	ports := 2379 + 1000*n.IntN(2)
	b := sim.Neighbor{Cluster: []string{"other", "other", clusterName}[n.IntN(3)], ClientPort: ports, PeerPort: ports + 1}
	switch n.IntN(5) {
	case 0:
		node.StopNeighbor(b.Cluster)
	case 1:
		node.StartNeighbor(b.Cluster)
	case 2:
		node.RemoveNeighbor(b.Cluster)
	default:
		if len(n.s.drivers) > 0 && n.s.settled() {
			node.AddNeighbor(b)
		}
	}
}

// bringBack takes a copy of the store while all is as declared, and puts it in the store's place later on. Nothing is put
// back over a restore or the replacement of an authority: no copy from before those has a way back.
func (n *nemesis) bringBack() {
	if n.copied == nil || n.IntN(3) == 0 {
		n.copy()
	} else {
		n.putBack()
	}
}

func (n *nemesis) copy() {
	s := n.s.Store()
	id := s.Identity()
	if c := s.Copy(); !n.twins && len(n.s.drivers) > 0 && n.s.settled() && id.Incarnation != nil && id.Incarnation.State == cke.Formed {
		n.copied = &c
	}
}

func (n *nemesis) putBack() (done bool) {
	if n.copied == nil {
		return false
	}
	s := n.s.Store()
	id, was := s.Identity(), n.copied.Identity()
	if id.Incarnation == nil || !id.Incarnation.Life(was.Incarnation.ID) || id.Incarnation.State != cke.Formed || !reflect.DeepEqual(id.Authorities, was.Authorities) || s.Deleted() {
		return false
	}
	n.s.latest().Kill()
	f := id.Freeze
	if found := f.Active() && f.Kind == cke.FreezeOlderStore; n.newer == nil || !found && !isOlder(id, n.newer.Identity()) {
		c := s.Copy()
		n.newer = &c
	}
	s.BringBack(n.ofAnAddition(*n.copied))
	return true
}

// isOlder reports whether a record lacks memberships that another one of the same life has, and has none that the other one lacks. People who put
// an older copy in the place of a store keep that store, whether or not any daemon found out that the copy is older.
func isOlder(id, newer cke.Identity) bool {
	lacks := func(a, b cke.Identity) bool {
		return slices.ContainsFunc(slices.Concat(b.Joins, b.Ended), func(j cke.Join) bool { return !a.Has(j.ID) })
	}
	return newer.Incarnation.Life(id.Incarnation.ID) && lacks(id, newer) && !lacks(newer, id)
}

// bringNewer brings the store back as it was before an older copy took its place, where nothing can be put on record without a quorum,
// or what serves is not on record. Once other members were started since, that store is an older one itself.
func (n *nemesis) bringNewer() bool {
	s := n.s.Store()
	if n.newer == nil || n.s.ForeignMembers() == 0 {
		return false
	}
	id, was := s.Identity(), n.newer.Identity()
	if slices.ContainsFunc(id.Joins, func(j cke.Join) bool { return !j.StartedAt.IsZero() && !was.Has(j.ID) }) {
		return false
	}
	if id.Incarnation == nil || !id.Incarnation.Life(was.Incarnation.ID) || id.Incarnation.State != was.Incarnation.State || !reflect.DeepEqual(id.Authorities, was.Authorities) {
		return false
	}
	n.s.latest().Kill()
	s.BringBack(*n.newer)
	n.newer = nil
	n.apply() // its revision of the file is another one
	return true
}

// ofAnAddition is a copy as it would be had it been made while one of the members that last was added, now and then.
func (n *nemesis) ofAnAddition(c sim.StoreCopy) sim.StoreCopy {
	id := c.Identity()
	for i := range id.Joins {
		j := &id.Joins[i]
		founded := slices.ContainsFunc(id.Incarnation.Founders, func(f cke.Join) bool { return f.ID == j.ID })
		if _, lasts := n.s.Store().Identity().Join(j.ID); !lasts || founded || n.focus != "record-start" && n.IntN(4) > 0 {
			continue
		}
		if j.StartedAt = (time.Time{}); n.IntN(2) == 0 {
			j.MemberID = ""
		}
		return c.With(id)
	}
	return c
}

// The store is brought back from a copy that was made while the cluster was bootstrapped: it serves on, and no second one takes its
// place, also where its members did not run or answer meanwhile.
func TestOlderStore_OfABootstrap(t *testing.T) {
	t.Parallel()
	harms := map[string]struct{ harm, heal func(s *stage) }{
		"all serve":       {func(*stage) {}, func(*stage) {}},
		"all stopped":     {func(s *stage) { s.eachNode((*sim.Node).StopByHand) }, func(s *stage) { s.eachNode((*sim.Node).StartByHand) }},
		"all silent":      {func(s *stage) { s.Isolate(sim.Management) }, (*stage).HealNetwork},
		"all off":         {func(s *stage) { s.eachNode((*sim.Node).PowerOff) }, func(s *stage) { s.eachNode((*sim.Node).PowerOn) }},
		"one has no disk": {func(s *stage) { s.Node("n3").Blank(); s.Node("n2").StopByHand() }, func(s *stage) { s.Node("n2").StartByHand() }},
		"all hibernate, one silent": {func(s *stage) {
			s.hibernates()
			s.Isolate("n3")
		}, func(s *stage) { s.HealNetwork(); s.eachNode((*sim.Node).StartByHand) }},
	}
	for name, h := range harms {
		for _, started := range []bool{false, true} {
			play(t, 3, func(s *stage) {
				copied := s.copiedOnce(func(id cke.Identity, c sim.Call) bool {
					return id.Incarnation != nil && id.Incarnation.State == cke.Forming && id.Started() == started && c.Port == "node"
				})
				s.daemon()
				if !s.until(convergence, s.settled) || !s.Write("n1", "acknowledged") || !copied.made {
					t.Fatal("no cluster")
				}
				life := s.Store().Identity().Incarnation.ID
				s.pass(2 * time.Minute)
				h.harm(s)
				s.broughtBack(copied.StoreCopy)
				if started { // with the newest cluster file
					c := s.cluster(s.Nodes())
					c.Options.Etcd.ExtraArgs = []string{"--quota-backend-bytes=4000000000"}
					s.Store().SetSpec(c)
				}
				s.pass(5 * time.Minute)
				h.heal(s)
				s.pass(5 * time.Minute)
				if id := s.Store().Identity(); id.Incarnation.ID != life || !s.Write("n1", "afterwards") {
					t.Errorf("%s, start in the copy %v: life %s became %s, %s; %s", name, started, life, id.Incarnation.ID, id.Incarnation.State, s.latest().decision.Reason)
				}
				for _, v := range s.Violations() {
					t.Errorf("%s: %s", name, v)
				}
			})
		}
	}
}

// As TestOlderStore_OfABootstrap, but all that operators did since has no revision: users, roles and leases.
func TestOlderStore_OfABootstrapBeforeUsers(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(s *stage){
		"all serve":                    func(*stage) {},
		"one node is silent":           func(s *stage) { s.Isolate("n3") },
		"one member is stopped":        func(s *stage) { s.Node("n3").StopByHand() },
		"two members are stopped":      func(s *stage) { s.Node("n2").StopByHand(); s.Node("n3").StopByHand() },
		"cke may not read":             func(s *stage) { s.SetAuth(true, false) },
		"an engine's restarts are off": func(s *stage) { s.Node("n3").SwitchRestartsOff() },
	} {
		play(t, 3, func(s *stage) {
			copied := s.copiedOnce(func(id cke.Identity, c sim.Call) bool {
				return id.Incarnation != nil && id.Incarnation.State == cke.Forming && id.Started() && c.Port == "node"
			})
			s.daemon()
			if !s.until(convergence, s.settled) || !copied.made || !s.AddUser("n1", "app") {
				t.Fatal("no cluster")
			}
			life := s.Store().Identity().Incarnation.ID
			s.pass(2 * time.Minute)
			harm(s)
			s.broughtBack(copied.StoreCopy)
			c := s.cluster(s.Nodes())
			c.Options.Etcd.ExtraArgs = []string{"--quota-backend-bytes=4000000000"}
			s.Store().SetSpec(c)
			s.pass(10 * time.Minute)
			id := s.Store().Identity()
			if dec, _ := s.latest().now(); id.Incarnation.ID != life || !id.Incarnation.AbandonedAt.IsZero() || len(dec.Blockers) == 0 {
				t.Errorf("%s: incarnation %s became %s, %s: %s", name, life, id.Incarnation.ID, id.Incarnation.State, describeDecision(2, dec))
			}
			for _, v := range s.Violations() {
				t.Errorf("%s: %s", name, v)
			}
			for _, j := range id.Joins {
				if !s.Node(j.Node.Name()).Holds(j.Volume) {
					t.Errorf("%s: %s has lost its volume", name, j.Node.Name())
				}
			}
		})
	}
}

// The store is brought back from a copy from before a change of ports: members that serve where they are not on record are not
// stopped, whoever else is down, and an operator puts them on record.
func TestOlderStore_FromBeforeAChangeOfPorts(t *testing.T) {
	for name, harm := range map[string]func(s *stage){
		"all serve":           func(*stage) {},
		"one node is down":    func(s *stage) { s.Node("n3").PowerOff() },
		"one member is down":  func(s *stage) { s.Node("n3").StopByHand() },
		"one node is cut off": func(s *stage) { s.Isolate("n3") },
	} {
		t.Run(name, func(t *testing.T) {
			inFormed(t, 3, func(s *stage) {
				copied := s.Store().Copy()
				s.portsOf(3379, 3380)
				s.must("moved", func() bool { return s.changed() && s.join("n1").ClientPort == 3379 })
				file := s.Store().Spec().Cluster
				harm(s)
				s.broughtBack(copied)
				s.freezesAndServes(t)
				s.Node("n3").PowerOn()
				s.Node("n3").StartByHand()
				s.HealNetwork()
				s.Store().SetSpec(file)
				s.pass(time.Minute)
				s.reclaims(t)
				s.isUnharmed(t)
				s.must("as declared", s.changed)
			})
		})
	}
}

// The store is brought back from a copy that was made between the order to make the cluster and its bootstrap: nobody is told to
// remove a member that serves, nor its data.
func TestOlderStore_OfBeforeTheBootstrap(t *testing.T) {
	play(t, 3, func(s *stage) {
		c := s.Store().Copy()
		s.daemon()
		if !s.until(convergence, s.settled) || !s.Write("n1", "kept") {
			t.Fatal("no cluster")
		}
		s.broughtBack(c)
		s.pass(time.Hour)
		dec, _ := s.latest().now()
		for _, n := range s.Nodes() {
			if !named(dec.Blockers, n.Name(), cke.CodeOlderStore) {
				t.Errorf("%s is not named: %+v", n.Name(), dec.Blockers)
			}
		}
		for _, p := range dec.Blockers {
			if strings.Contains(p.Remedy, "docker") {
				t.Errorf("%s: %s", p.Node, p.Remedy)
			}
		}
		for _, n := range s.Nodes() {
			if s.runningOn(n.Name()) != 1 {
				t.Errorf("the member on %s does not run any more", n.Name())
			}
		}
	})
}
