package mtest_test

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
	"cke/sabakan/sabakantest"
)

var withSabakan = flag.Bool("sabakan", false, "run the story of a real sabakan server, which is built once and needs root; it takes a quarter of an hour")

// sabakanLimit is that of the whole story, which waits for the shortest periods that a template may have.
const sabakanLimit = 40 * time.Minute

// center is a real sabakan that has the nodes of a lab as machines, two in each rack, and others that no cluster may use.
type center struct {
	*story
	server  *sabakantest.Server
	serials map[string]string // of lab nodes, by name
	mode    cke.InventoryMode
	spares  int
}

// newCenter registers the nodes of a story, which have addresses one after the other.
func newCenter(s *story) *center {
	s.Helper()
	first, err := netip.ParseAddr(s.nodes[0].Address)
	s.must(err)
	c := &center{story: s, server: sabakantest.Run(s.T, sabakantest.Pairs(first)), serials: map[string]string{}, mode: cke.InventoryAuto, spares: 1}
	var machines []cke.Host
	for i, n := range s.nodes {
		c.serials[n.Name] = fmt.Sprintf("m%d", i+1)
		machines = append(machines, cke.Host{ID: c.serials[n.Name], Role: "cs", Rack: i / 2, Labels: map[string]string{"machine-type": "lab"}})
	}
	for i := range 12 { // so many that two bad machines are no quarter of all
		machines = append(machines, cke.Host{ID: fmt.Sprintf("w%02d", i), Role: "worker", Rack: 50 + i/2})
	}
	s.must(c.server.Register(s.ctx, machines...))
	list := strings.Split(s.do("sabakan", "machines", "--url", c.server.URL), "\n")
	for _, n := range s.nodes {
		if !slices.ContainsFunc(list, func(line string) bool {
			f := strings.Fields(line)
			return len(f) > 2 && f[0] == c.serials[n.Name] && f[1] == n.Address && f[2] == "maintenance"
		}) {
			s.Fatalf("%s at %s is not in\n%s", c.serials[n.Name], n.Address, strings.Join(list, "\n"))
		}
	}
	for _, m := range machines {
		c.turns(m.ID, "healthy")
	}
	c.ages(time.Hour)
	return c
}

// turns changes the state of a machine, by way of these states of sabakan.
func (c *center) turns(serial string, states ...string) {
	c.Helper()
	for _, state := range states {
		c.must(c.server.SetState(c.ctx, serial, state))
	}
}

// ages lets each machine have been in its state for longer.
func (c *center) ages(by time.Duration) {
	c.Helper()
	c.must(c.server.Age(c.ctx, by))
}

// follow sets the template.
func (c *center) follow() {
	c.Helper()
	n := c.nodes[0]
	c.do("sabakan", "set-template", c.file("template.yml", fmt.Sprintf(`name: prod
nodes:
  - {control_plane: true, user: %s, ssh: {port: %d}}
options: {etcd: {version: %s}}
inventory:
  mode: %s
  spares: %d
  roles: [cs]
  having: {labels: {machine-type: lab}}
  interval: 5s
  grace: {retiring: 1m, unreachable: 1m, unhealthy: 1m, missing: 1m, maintenance: 1m}
  limits: {settle: 1m}
`, n.User, n.Port, rig.EtcdVersion, c.mode, c.spares)))
}

// node is the lab node that is the machine with a serial.
func (c *center) node(serial string) lab.Node {
	c.Helper()
	for _, n := range c.nodes {
		if c.serials[n.Name] == serial {
			return n
		}
	}
	c.Fatalf("no node is %s", serial)
	return lab.Node{}
}

// beside is the one of some machines that is in the rack of another one: their exchange makes no zone worse, so it needs no confirmation.
func (c *center) beside(serial string, others []string) string {
	c.Helper()
	for _, o := range others {
		if c.rack(o) == c.rack(serial) {
			return o
		}
	}
	c.Fatalf("none of %v is in the rack of %s", others, serial)
	return ""
}

// rack is that of a machine.
func (c *center) rack(serial string) int {
	return slices.IndexFunc(c.nodes, func(n lab.Node) bool { return c.serials[n.Name] == serial }) / 2
}

// clients are the URLs of members.
func (c *center) clients(serials []string) (urls []string) {
	c.Helper()
	for _, serial := range serials {
		urls = append(urls, rig.URL(c.node(serial)))
	}
	return urls
}

// spare waits until a node without a member answers, and returns its serial.
func (c *center) spare() string {
	c.Helper()
	serial := ""
	c.await("a spare", readyLimit, func(st cke.Status) bool {
		i := slices.IndexFunc(st.Nodes, func(n cke.NodeStatus) bool { return !n.Node.ControlPlane && n.Answered() })
		if i >= 0 {
			serial = st.Nodes[i].Node.Name()
		}
		return i >= 0 && rig.Ready(st)
	})
	return serial
}

// override waits until the exchange of a machine waits for a confirmation in spite of the limit of a day, and returns its hash; empty: it was
// stored, because fewer parts of the story were run.
func (c *center) override(cause cke.InventoryCause, old string) (hash string) {
	c.Helper()
	st := c.await(fmt.Sprintf("the exchange of %s, which is %s, to be offered", old, cause), readyLimit, func(st cke.Status) bool {
		i := st.Inventory
		return i != nil && (i.Stop == "per-day" && i.Override != nil && i.Override.Cause == cause || exchanged(i, old))
	})
	if exchanged(st.Inventory, old) {
		return ""
	}
	return st.Inventory.Override.Hash
}

// exchanged reports whether a machine has lost its member today.
func exchanged(i *cke.InventoryStatus, old string) bool {
	return slices.ContainsFunc(i.Log.Changes, func(c cke.InventoryChange) bool { return c.Old == old && c.Cause.Moves() })
}

// unread waits until reads fail for longer than some intervals, lets the inventory be read again, and compares what is declared.
func (c *center) unread(again func()) {
	c.Helper()
	before, gone := c.now(), time.Now()
	const away = 45 * time.Second
	c.awaitProblem("", cke.CodeInventory)
	st := c.await("the age of the last read to show", seenLimit, func(st cke.Status) bool {
		return st.Inventory != nil && st.Inventory.Failures > 0 && st.ObservedAt.After(gone.Add(away)) // a new leader has to start with it
	})
	if i := st.Inventory; i.Stop != "read" || i.Change != nil || i.Override != nil || st.ObservedAt.Sub(i.ReadAt) < away-2*5*time.Second || !strings.Contains(i.Reason, "no whole answer within 5s") {
		c.Errorf("%+v", i)
	}
	if st.Generation != before.Generation || !slices.Equal(sortedNames(st), sortedNames(before)) {
		c.Errorf("revision %d, was %d: %s", st.Generation, before.Generation, st.Summary)
	}
	again()
	c.await("it to be read again", seenLimit, func(st cke.Status) bool {
		_, told := problemOf(st, "", cke.CodeInventory)
		return !told && st.Inventory != nil && st.Inventory.Failures == 0 && st.Inventory.Stop != "read"
	})
}

// TestLabSabakan_KeepsAClusterOnItsMachines is the life of a cluster whose machines a real sabakan server lists: it is bootstrapped from a
// template; sabakan and its etcd are away; machines retire, become unreachable and become unhealthy, and each is exchanged for a spare; and
// a machine that is replaced gets a successor at its address.
func TestLabSabakan_KeepsAClusterOnItsMachines(t *testing.T) {
	if !*withSabakan {
		t.Skip("make inventory-live (-sabakan) runs it")
	}
	s := newStory(t, 6)
	ctx, cancel := context.WithTimeout(t.Context(), sabakanLimit)
	t.Cleanup(cancel)
	s.ctx = ctx
	s.daemon("cke1")
	s.setKey()
	c := newCenter(s)
	var founded cke.Status
	members := []string{"m1", "m3", "m5"} // one in each rack, of those that are healthy for as long the first
	s.part("a cluster is bootstrapped from a template", func(s *story) {
		c := c.in(s)
		c.follow()
		s.do("sabakan", "set-url", c.server.URL)
		s.do("sabakan", "enable")
		s.refused(6, []string{"a bootstrap is always confirmed"}, "sabakan", "apply")
		s.do("sabakan", "apply", "--yes")
		founded = s.await("the inventory to be followed", readyLimit, func(st cke.Status) bool {
			return rig.Ready(st) && st.Inventory != nil && st.Inventory.Hosts[cke.HostHealthy] == 18
		})
		members = sortedNames(founded)
		zones := map[string]bool{}
		for _, z := range founded.Spread.Zones {
			zones[z.Name] = z.CanBeLost
		}
		if len(members) != 3 || len(zones) != 3 || !zones["rack0"] || !zones["rack1"] || !zones["rack2"] {
			s.Errorf("members %v in %+v", members, founded.Spread)
		}
	})
	// exchange replaces a member by the spare. killed: what is done kills the member.
	exchange := func(c *center, old string, killed bool, confirm func(), do func()) {
		c.Helper()
		spare, stay := c.spare(), slices.DeleteFunc(slices.Clone(members), func(m string) bool { return m == old })
		defer func() {
			if c.Failed() {
				c.Logf("the inventory: %+v", c.now().Inventory)
			}
		}()
		c.Logf("%s is to take the place of %s", spare, old)
		want := append(slices.Clone(stay), spare)
		st := c.exchangedUnderLoad(c.clients(stay), want, founded.ClusterID, killed, func() { do(); confirm() })
		members = sortedNames(st)
	}
	byItself := func() {}
	s.part("sabakan hangs", func(s *story) {
		c := c.in(s)
		c.spare()
		resume, err := c.server.Suspend()
		s.must(err)
		c.unread(resume)
	})
	s.part("the etcd of sabakan is gone", func(s *story) {
		c := c.in(s)
		c.server.StopEtcd()
		c.unread(func() { s.must(c.server.StartEtcd()) })
	})
	s.part("a machine is retired", func(s *story) {
		c := c.in(s)
		old := c.beside(c.spare(), members)
		exchange(c, old, false, byItself, func() { c.turns(old, "retiring", "retired") })
		if log := s.do("cluster", "log", "-o", "json"); !strings.Contains(log, `"cause": "retired"`) {
			s.Errorf("no revision names the cause: %s", log)
		}
	})
	s.part("a machine becomes unreachable", func(s *story) {
		c := c.in(s)
		old := c.beside(c.spare(), members)
		spare := c.spare()
		c.turns(old, "unreachable")
		s.awaitProblem(old, cke.CodeHostDisagrees) // its member serves
		exchange(c, old, true, byItself, func() { s.must(s.Lab.Kill(s.ctx, c.node(old).Name)) })
		if !slices.Contains(members, spare) {
			s.Errorf("members %v, the spare was %s", members, spare)
		}
		s.must(s.Lab.Start(s.ctx, c.node(old).Name)) // and is repaired
		c.turns(old, "healthy")
		c.ages(time.Hour)
	})
	s.part("a machine becomes unhealthy, after as many changes as are allowed in a day", func(s *story) {
		c := c.in(s)
		old := c.beside(c.spare(), members)
		exchange(c, old, false, func() {
			if hash := c.override(cke.CauseUnhealthy, old); hash != "" {
				s.refused(6, []string{"sabakan apply " + hash + ", which overrides that"}, "sabakan", "apply")
				s.do("sabakan", "apply", hash, "--yes")
			}
		}, func() { c.turns(old, "unhealthy") })
		if file := s.do("cluster", "get"); strings.Contains(file, c.node(old).Address+"\n") {
			s.Errorf("%s is declared still:\n%s", old, file)
		}
	})
	s.part("a successor at the address of a member", func(s *story) {
		c, next := c.in(s), "x1"
		old := c.beside(c.spare(), members)
		n := c.node(old)
		spare := c.spare()
		for _, m := range c.serials { // only the successor is left then
			if !slices.Contains(members, m) && m != spare {
				_ = c.server.SetState(s.ctx, m, "updating") // one that is retired stays so
			}
		}
		exchange(c, old, true, func() {
			if hash := c.override(cke.CauseSuccessor, old); hash != "" {
				s.do("sabakan", "apply", hash, "--yes")
			}
		}, func() {
			s.must(s.Lab.Wipe(s.ctx, n.Name, lab.WipeOptions{})) // it is another machine: another host key, and nothing on its disk
			c.turns(old, "retiring", "retired")
			s.must(c.server.Delete(s.ctx, old))
			s.must(c.server.Register(s.ctx, cke.Host{ID: next, Role: "cs", Rack: c.rack(old), Labels: map[string]string{"machine-type": "lab"}}))
			c.turns(next, "healthy")
			c.ages(time.Hour)
		})
		c.serials[n.Name] = next
		st := s.await("the successor to be proposed as the spare", readyLimit, func(st cke.Status) bool {
			i := st.Inventory
			return i != nil && i.Change != nil && i.Change.Cause == cke.CauseSpare && i.Change.New == next
		})
		p := st.Inventory.Change
		if p.Auto || !slices.Equal(p.Forget, []string{n.Address}) || len(p.Confirm) == 0 {
			s.Errorf("%+v", p)
		}
		s.refused(6, []string{"was not confirmed"}, "sabakan", "apply", p.Hash)
		s.do("sabakan", "apply", p.Hash, "--yes")
		if spare := c.spare(); spare != next {
			s.Errorf("the spare is %s", spare)
		}
	})
	s.Logf("members %v", members)
}

// in is the same center for a part of the story.
func (c *center) in(s *story) *center {
	of := *c
	of.story = s
	return &of
}
