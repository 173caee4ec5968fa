package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/sim"
)

// persons are what people do by chance, wisely or not.
var persons = []event{
	{weight: 2, do: func(n *nemesis, node *sim.Node) { n.drain(node.Name()) }},
	{weight: 1, do: func(n *nemesis, _ *sim.Node) { n.s.Store().Ask("undrain", func(r *cke.Requests) { r.Drains = nil }) }},
	{weight: 1, do: func(n *nemesis, node *sim.Node) { n.s.ask(cke.TaskMoveLeader, node.Name(), "", "") }},
	{weight: 1, do: func(n *nemesis, node *sim.Node) { n.s.ask(cke.TaskDefragment, node.Name(), "", "") }},
	{weight: 1, do: func(n *nemesis, _ *sim.Node) { n.s.ask(cke.TaskCompare, "", "", "") }},
	{weight: 1, do: func(n *nemesis, node *sim.Node) {
		n.s.ask(cke.TaskReplace, node.Name(), string(n.s.join(node.Name()).ID), "")
	}},
	{weight: 1, do: func(n *nemesis, node *sim.Node) { n.s.adopt(node) }},
	{weight: 1, do: func(n *nemesis, _ *sim.Node) { n.volume(cke.TaskPurge) }},
	{weight: 1, do: func(n *nemesis, _ *sim.Node) { n.volume(cke.TaskUndelete) }},
	{weight: 1, do: func(n *nemesis, _ *sim.Node) { n.unfreeze() }},
	{weight: 1, do: func(n *nemesis, _ *sim.Node) { n.hibernate(n.IntN(3) == 0) }},
	{weight: 1, do: func(n *nemesis, _ *sim.Node) { n.pause(n.IntN(3) == 0) }},
	{weight: 2, do: func(n *nemesis, _ *sim.Node) { n.apply() }},
	{weight: 1, do: func(n *nemesis, node *sim.Node) { n.addByHand(node) }},
	{weight: 1, do: func(n *nemesis, node *sim.Node) { n.corrupt(node) }},
	{weight: 1, do: func(n *nemesis, _ *sim.Node) { n.s.NoticeCorruption() }},
	{weight: 1, do: func(n *nemesis, _ *sim.Node) { n.s.ask(cke.TaskDisarm, "", "", "") }},
	{weight: 1, do: func(n *nemesis, node *sim.Node) { n.move(node) }},
	{weight: 1, do: func(n *nemesis, node *sim.Node) { n.restore(node) }},
	{weight: 1, do: func(n *nemesis, _ *sim.Node) { n.rotate() }},
}

// rotate asks for an authority to be replaced, or says that clients are ready once they are.
func (n *nemesis) rotate() {
	name := cke.AuthorityNames()[n.IntN(3)]
	if r := n.s.Store().Identity().Authorities; r.WaitsForPerson(name) {
		n.s.clientsAreReady(name)
		return
	}
	n.s.ask(cke.TaskRotate, "", string(name), "")
}

func (n *nemesis) drain(node string) {
	t := cke.NewTask(cke.TaskDrain, node, "", "eve@host", n.s.Now())
	t.For, t.Accepted = cke.Duration(time.Duration(1+n.IntN(60))*time.Minute), n.IntN(2) == 0
	n.s.Store().Ask("drain "+node, func(r *cke.Requests) { r.Tasks = append(r.Tasks, t) })
}

// volume asks for something to be done to an archived volume, or to one in use.
func (n *nemesis) volume(kind cke.TaskKind) {
	id := n.s.Store().Identity()
	joins := append(id.Ended, id.Joins...)
	if len(joins) > 0 {
		n.s.ask(kind, "", joins[n.IntN(len(joins))].Volume, "")
	}
}

func (n *nemesis) unfreeze() {
	if f := n.s.freeze(); f.Active() {
		n.s.ask(cke.TaskUnfreeze, "", f.ID, "judged")
	}
}

func (n *nemesis) hibernate(on bool) {
	n.s.Store().Ask(fmt.Sprintf("hibernate: %v", on), func(r *cke.Requests) {
		r.Hibernation = nil
		if on {
			r.Hibernation = &cke.Hibernation{By: "eve@host", Since: time.Now()}
		}
	})
}

func (n *nemesis) pause(on bool) {
	until := n.s.Now().Add(time.Duration(1+n.IntN(60)) * time.Minute)
	n.s.Store().Ask(fmt.Sprintf("pause: %v", on), func(r *cke.Requests) {
		r.Hold = nil
		if on {
			r.Hold = &cke.Hold{Reason: "looking", Until: until}
		}
	})
}

// apply releases the present revision of the file.
func (n *nemesis) apply() {
	generation := n.s.Store().Spec().Generation
	n.s.Store().Ask("apply", func(r *cke.Requests) { r.Applied = generation })
}

// addByHand lets a person add a member with etcdctl while all is well: with fewer voters, or with one dead, that alone
// may be the end of the quorum.
func (n *nemesis) addByHand(node *sim.Node) {
	status := n.s.told()
	carries, _ := node.Look()
	if status.Health == cke.HealthReady && status.Ready >= 3 && len(carries) == 0 && n.s.Serving() == status.Ready {
		n.hand = node.Join("hand", n.IntN(3) > 0) || n.hand
	}
}

func (n *nemesis) corrupt(node *sim.Node) {
	if !n.keepsData {
		node.CorruptData()
	}
}

// move gives a machine another address while all is well, and the file that address.
func (n *nemesis) move(node *sim.Node) {
	status := n.s.told()
	if n.moved[node.Name()] || status.Health != cke.HealthReady || status.Ready < 3 {
		return
	}
	if n.moved == nil {
		n.moved = map[string]bool{}
	}
	n.moved[node.Name()] = true
	n.readdress(node, fmt.Sprintf("10.0.1.%d", len(n.moved)))
}

func (n *nemesis) readdress(node *sim.Node, address string) {
	node.Readdress(address)
	c := n.s.Store().Spec().Cluster
	nodes := append([]cke.Node(nil), c.Nodes...)
	for i := range nodes {
		if nodes[i].Hostname == node.Name() {
			nodes[i].Address = address
		}
	}
	c.Nodes = nodes
	n.s.Store().SetSpec(c)
}

// restore takes a backup, or puts the cluster back to it, or to the data of one node.
func (n *nemesis) restore(node *sim.Node) {
	switch n.IntN(4) {
	case 0:
		n.s.order(fromBackup)
	case 1:
		n.s.order(cke.RestoreOrder{Survivor: node.Name()})
	default:
		n.s.TakeBackup()
	}
}

// content takes back what people asked for that keeps the cluster from being as declared. What was asked for once is to
// be answered.
func (n *nemesis) content() {
	n.hibernate(false)
	n.pause(false)
	n.s.Store().Ask("undrain", func(r *cke.Requests) { r.Drains = nil })
	for _, node := range n.s.Nodes() {
		node.RepairData()
		switch containers, _ := node.Look(); { // its voter may be needed
		case n.restored():
		case slices.ContainsFunc(containers, func(c cke.Container) bool { return c.Name == "hand" }):
			node.StartByHand()
		case len(containers) == 0 && node.Holds("hand"):
			node.PutBack("hand")
		}
	}
	n.correct()
	n.apply()
}

// restored reports whether a restore replaced a life: whoever starts what is left of that starts a second cluster.
func (n *nemesis) restored() bool {
	inc := n.s.Store().Identity().Incarnation
	return inc != nil && inc.Replaced != nil
}

// correct takes out of the file what cannot work: an argument that etcd does not know, a directory that is not there, a
// version that is too old, or too new to be reached in one step.
func (n *nemesis) correct() {
	c := n.s.Store().Spec().Cluster
	o := sane(c.Options.Etcd)
	if is := n.s.Minor(); is > 0 && (n.tooOld() || !mayFollow(is, c.WithDefaults().Options.Etcd.Version)) {
		n.minor, o.Version = is, map[int]string{5: "3.5.35", 6: "3.6.16", 7: "3.7.3"}[is]
	}
	if o.Equal(c.Options.Etcd) {
		return
	}
	n.etcd, c.Options.Etcd = sane(n.etcd), o
	n.s.Store().SetSpec(c)
	n.apply()
}

// tooOld reports whether people are told that a member was started with a version that is too old for its data: it was
// tried while nobody served who could tell, and cke can name none between that and the file's.
func (n *nemesis) tooOld() bool {
	return slices.ContainsFunc(n.s.told().Problems, func(p cke.Problem) bool {
		return p.Code == cke.CodeEtcdExited && strings.Contains(p.Message, "cannot be downgraded")
	})
}

// mayFollow reports whether a cluster of a minor version may be declared to run a version.
func mayFollow(minor int, version string) bool {
	return strings.HasPrefix(version, fmt.Sprintf("3.%d.", minor)) || strings.HasPrefix(version, fmt.Sprintf("3.%d.", minor+1))
}

// makeRoom is what people do about alarms: they compact, and take CORRUPT back once the data is right.
func (n *nemesis) makeRoom() {
	for _, a := range n.s.Alarms() {
		switch {
		case a.Kind == "NOSPACE":
			n.s.Compact()
		case !n.s.freeze().Active() && !slices.ContainsFunc(n.s.asked(), func(t cke.Task) bool { return t.Kind == cke.TaskDisarm }):
			n.s.ask(cke.TaskDisarm, "", "", "")
		}
	}
}

// attend is what a person does who stands by until the world has come where it can come, at each look.
func (n *nemesis) attend() {
	n.correct()
	if f := n.s.freeze(); f.Active() && len(n.s.asked()) == 0 {
		n.unfreeze()
	}
	n.makeRoom()
	if len(n.s.latest().Term().Requests().Drains) > 0 { // asked for before, done only now
		n.s.Store().Ask("undrain", func(r *cke.Requests) { r.Drains = nil })
	}
	if n.hand {
		n.tidy()
	}
	dec, _ := n.s.latest().now()
	if inc := n.s.Store().Identity().Incarnation; inc != nil && inc.State == cke.Restoring && dec.Operation == nil && dec.Blockers != nil && !slices.ContainsFunc(n.s.asked(), func(t cke.Task) bool { return t.Kind == cke.TaskRestore }) {
		n.s.order(fromBackup)
	}
	if n.moved != nil && !n.back && time.Since(n.healed) > 30*time.Minute {
		n.moveBack()
		n.back = true
	}
}

// moveBack gives machines the addresses again that are on record: without a quorum no member can be told that another
// one moved, and a cluster is deleted where it is on record.
func (n *nemesis) moveBack() {
	id := n.s.Store().Identity()
	for _, node := range n.s.Nodes() {
		joins := append(slices.Clone(id.Joins), id.MayRun()...)
		i := slices.IndexFunc(joins, func(j cke.Join) bool { return j.Node.Name() == node.Name() })
		if i >= 0 && joins[i].Node.Address != node.Declared().Address {
			n.readdress(node, joins[i].Node.Address)
		}
	}
	n.apply()
}

// tidy removes what was added by hand, first from the list, unless cke is to do so.
func (n *nemesis) tidy() {
	switch strangers := n.s.Strangers(); {
	case strangers > 0 && n.s.Store().Spec().Cluster.Policies.Foreign != cke.ForeignRemove:
		n.s.Expel()
	case strangers == 0:
		n.hand = false
		for _, node := range n.s.Nodes() {
			node.Remove("hand")
		}
	}
}
