package sabakan_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/quorum"
	"cke/sabakan"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// racks is how many racks the machines of a world stand in.
const racks = 4

// world is an input, and how it would end.
type world struct {
	sabakan.Input
	ends *sabakan.Simulated // nil: as the arithmetic of voters says
	err  error
}

// blank has so many healthy machines s1, s2 …, in racks in turn, and no cluster.
func blank(hosts int) *world {
	w := &world{}
	w.Template = cke.Template{Name: "prod", Nodes: []cke.Node{{ControlPlane: true, User: "cke"}},
		Inventory: cke.InventoryOptions{Roles: []string{"cs"}, Mode: cke.InventoryAuto}}.Filled()
	w.Now, w.Read.ReadAt, w.Past.ReadAt = noon, noon, noon.Add(-30*time.Second)
	w.Past.Hosts, w.Past.Serials = map[string]sabakan.HostPast{}, map[string]string{}
	w.Checks = map[string]sabakan.Check{}
	for i := 1; i <= hosts; i++ {
		h := cke.Host{ID: fmt.Sprintf("s%d", i), Addresses: []string{fmt.Sprintf("10.0.0.%d", i)}, Role: "cs", Rack: (i-1)%racks + 1,
			State: cke.HostHealthy, For: 100 * time.Hour}
		w.Read.Hosts = append(w.Read.Hosts, h)
		w.Past.Hosts[h.ID] = sabakan.HostPast{State: h.State, Address: h.Addresses[0], Reads: 100, Watched: cke.Duration(time.Hour), Accepted: h.State}
		w.Checks[h.ID] = sabakan.Check{At: noon, Address: h.Addresses[0]}
	}
	w.Simulate = func(c cke.Cluster) (sabakan.Simulated, error) {
		if w.ends != nil {
			return *w.ends, w.err
		}
		return w.arithmetic(c), w.err
	}
	return w
}

// formed has a cluster on the first machines.
func formed(members, hosts int) *world {
	w := blank(hosts)
	w.Spec = cke.Spec{Cluster: cke.Cluster{Name: "prod"}, Generation: 7}
	w.Status = cke.Status{Cluster: "prod", Generation: 7, ObservedGeneration: 7, ObservedAt: noon, Health: cke.HealthReady, Etcd: cke.EtcdStatus{Quorate: true}}
	for i := 1; i <= members; i++ {
		n := w.declare(i, true)
		role := "follower"
		if i == 1 {
			role = "leader"
		}
		w.Status.Members = append(w.Status.Members, cke.MemberStatus{Name: n.Name(), Address: n.Address, Join: cke.JoinID("join-" + n.Name()), Role: role,
			State: "healthy", Ready: true, Watched: cke.Duration(50 * time.Hour)})
	}
	w.Status.Tolerance = members - quorum.Of(members)
	w.Template.Inventory.ControlPlane = members
	return w
}

// declare declares machine i as its template says.
func (w *world) declare(i int, controlPlane bool) cke.Node {
	h := w.host(i)
	n := cke.Node{Address: h.Addresses[0], Hostname: h.ID, User: "cke", ControlPlane: controlPlane, Zone: fmt.Sprintf("rack%d", h.Rack),
		Labels: map[string]string{cke.LabelRole: "cs"}, Annotations: map[string]string{cke.AnnotationSerial: h.ID}}
	w.Spec.Cluster.Nodes = append(w.Spec.Cluster.Nodes, n)
	w.Status.Nodes = append(w.Status.Nodes, cke.NodeStatus{Node: n, SeenAt: noon})
	w.Past.Serials[n.Address] = h.ID
	return n
}

func (w *world) index(i int) int {
	return slices.IndexFunc(w.Read.Hosts, func(h cke.Host) bool { return h.ID == fmt.Sprintf("s%d", i) })
}

// host is machine i of the read.
func (w *world) host(i int) *cke.Host { return &w.Read.Hosts[w.index(i)] }

func (w *world) member(i int) *cke.MemberStatus {
	return &w.Status.Members[slices.IndexFunc(w.Status.Members, func(m cke.MemberStatus) bool { return m.Name == fmt.Sprintf("s%d", i) })]
}

// now gives machine i a state in this read; the read before had another one.
func (w *world) now(i int, s cke.HostState, d time.Duration) *world {
	h := w.host(i)
	h.State, h.For = s, d
	return w
}

// lasts gives machine i a state that earlier reads had, too.
func (w *world) lasts(i int, s cke.HostState, d time.Duration) *world {
	w.now(i, s, d)
	p := w.Past.Hosts[w.host(i).ID]
	p.State, p.Reads, p.Watched = s, 20, cke.Duration(d)
	if d >= 10*time.Minute {
		p.Accepted = s
	}
	w.Past.Hosts[w.host(i).ID] = p
	return w
}

// lacks takes machine i from this read.
func (w *world) lacks(i int) *world {
	w.Read.Hosts = slices.Delete(w.Read.Hosts, w.index(i), w.index(i)+1)
	return w
}

// gone takes machine i from the reads of a time.
func (w *world) gone(i int, d time.Duration) *world {
	id := w.host(i).ID
	p := w.Past.Hosts[id]
	p.State, p.Reads, p.Watched = "missing", 20, cke.Duration(d)
	if d >= 10*time.Minute {
		p.Accepted = p.State
	}
	w.Past.Hosts[id] = p
	return w.lacks(i)
}

// without takes machines from the inventory as if they had never been there.
func (w *world) without(hosts ...int) *world {
	for _, i := range hosts {
		delete(w.Past.Hosts, w.host(i).ID)
		w.lacks(i)
	}
	return w
}

// silent stops the member of machine i, or its node if it has no member.
func (w *world) silent(i int, d time.Duration) *world {
	name := fmt.Sprintf("s%d", i)
	for k := range w.Status.Nodes {
		if n := &w.Status.Nodes[k]; n.Node.Name() == name {
			n.SeenAt, n.Problem = noon.Add(-d), &cke.Problem{Message: "no answer"}
			p := w.Past.Hosts[name]
			p.Silent = cke.Duration(d)
			w.Past.Hosts[name] = p
		}
	}
	if slices.ContainsFunc(w.Status.Members, func(m cke.MemberStatus) bool { return m.Name == name }) {
		m := w.member(i)
		m.Ready, m.State, m.Watched = false, "unreachable", cke.Duration(d)
		w.Status.Tolerance--
	}
	return w
}

// successor registers another machine at the address of machine i, which is gone.
func (w *world) successor(i int) *world {
	h := cke.Host{ID: fmt.Sprintf("t%d", i), Addresses: []string{fmt.Sprintf("10.0.0.%d", i)}, Role: "cs", Rack: (i-1)%racks + 1, State: cke.HostHealthy, For: time.Hour}
	w.Read.Hosts = append(w.Read.Hosts, h)
	w.Past.Hosts[h.ID] = sabakan.HostPast{State: h.State, Address: h.Addresses[0], Reads: 20, Accepted: h.State}
	w.Checks[h.ID] = sabakan.Check{At: noon, Address: h.Addresses[0]}
	return w
}

// addressed gives machine i another address, in earlier reads, too.
func (w *world) addressed(i int, address string) *world {
	h := w.host(i)
	h.Addresses = []string{address}
	p := w.Past.Hosts[h.ID]
	p.Address = address
	w.Past.Hosts[h.ID] = p
	return w
}

// check checks machine i at the address that it has now.
func (w *world) check(i int, problem string) {
	h := w.host(i)
	w.Checks[h.ID] = sabakan.Check{At: noon, Address: h.Addresses[0], Problem: problem}
}

// changed puts a change into the past that exchanged machine i, 0: none.
func (w *world) changed(i int, ago time.Duration) *world {
	a := sabakan.Applied{Generation: 6, At: noon.Add(-ago), ConvergedAt: noon.Add(-ago), Cause: cke.CauseUnreachable, Old: fmt.Sprintf("s%d", i)}
	w.Past.Changes = append(w.Past.Changes, a)
	return w
}

// at declares node i, and its member, at another address of its machine.
func (w *world) at(i int, address string) {
	w.Spec.Cluster.Nodes[i-1].Address, w.Status.Members[i-1].Address, w.Status.Nodes[i-1].Node.Address = address, address, address
}

// clocks is what the nodes' clocks say of that of the daemon's host.
func (w *world) clocks(agree cke.Truth, reason string) {
	w.Status.Conditions = append(w.Status.Conditions, cke.Condition{Type: cke.CondClocksAgree, Status: agree, Reason: reason, Message: "the clocks are as the nodes say"})
}

// ahead sets the clock of the daemon's host ahead. All that it dates from then on is.
func (w *world) ahead(d time.Duration) {
	w.Now = noon.Add(d)
	w.Read.ReadAt, w.Past.ReadAt, w.Status.ObservedAt = w.Now, w.Now.Add(-30*time.Second), w.Now
	for i := range w.Status.Nodes {
		if n := &w.Status.Nodes[i]; n.Answered() {
			n.SeenAt = w.Now
		}
	}
	for serial, k := range w.Checks {
		k.At = w.Now
		w.Checks[serial] = k
	}
}

// arithmetic is how a cluster file would end: a member that is declared no more leaves, and one that is new serves.
func (w *world) arithmetic(c cke.Cluster) sabakan.Simulated {
	healthy, end := 0, sabakan.Simulated{}
	for _, n := range c.ControlPlane() {
		i := slices.IndexFunc(w.Status.Members, func(m cke.MemberStatus) bool { return m.Address == n.Address })
		if i < 0 || w.Status.Members[i].Ready {
			healthy++
		} else {
			end.Blocked = n.Name() + " does not serve"
		}
	}
	end.Tolerance = healthy - quorum.Of(len(c.ControlPlane()))
	end.Least = min(w.Status.Tolerance, end.Tolerance)
	return end
}

var errSimulation = errors.New("the status has no observation")
