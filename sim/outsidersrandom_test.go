package sim_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// outsiders are operators who add and remove members with etcdctl while they restore, recover, reclaim and delete the cluster. What they say is
// true: machines that they call destroyed never come back. Nothing is known of members only if nobody could read of them.
type outsiders struct {
	*rand.Rand
	s *stage
	// gone are the machines that are never switched on again.
	gone map[string]bool
	// joined are the names of members that operators added, by node.
	joined map[string]string
	copied *sim.StoreCopy
	// past is the store at an earlier time.
	past *sim.StoreCopy
}

func (o *outsiders) node() *sim.Node { return o.s.Nodes()[o.IntN(len(o.s.Nodes()))] }

// join adds a member on a machine without one, under a name that may be that of another one.
func (o *outsiders) join() {
	n := o.node()
	if containers, _ := n.Look(); len(containers) > 0 || o.gone[n.Name()] || !n.Reaches() {
		return
	}
	name := []string{"hand-" + n.Name(), "default", o.node().Name(), "hand-" + o.node().Name()}[o.IntN(4)]
	joined := false
	if o.IntN(4) == 0 {
		joined = n.JoinAs(name, n.Declared().Address)
	} else {
		joined = joinsKept(n, name)
	}
	if joined {
		o.joined[n.Name()] = name
	}
}

// leave removes a member that operators added, and mostly stops it.
func (o *outsiders) leave() {
	n := o.node()
	if name := o.joined[n.Name()]; name != "" && n.Leave(name) {
		delete(o.joined, n.Name())
		if o.IntN(3) > 0 && !o.gone[n.Name()] {
			n.SwitchRestartsOff()
			n.StopByHand()
		}
	}
}

// hide cuts a machine off from cke or from the others, or its clients from its members.
func (o *outsiders) hide() {
	n := o.node()
	switch o.IntN(3) {
	case 0:
		o.s.Cut(sim.Management, n.Name())
	case 1:
		n.FilterClientPort(true)
	default:
		for _, other := range o.s.Nodes() {
			if other != n {
				o.s.Cut(n.Name(), other.Name())
			}
		}
	}
}

func (o *outsiders) show(n *sim.Node) {
	o.s.Rejoin(n.Name())
	n.FilterClientPort(false)
	if !o.gone[n.Name()] {
		n.PowerOn()
	}
}

// shown lets cke see all that is not gone, for a minute.
func (o *outsiders) shown() {
	for _, n := range o.s.Nodes() {
		o.show(n)
	}
	o.s.succeed()
	o.s.pass(time.Minute)
}

// lose lets a machine be destroyed, or exchanged for a blank one.
func (o *outsiders) lose() {
	n := o.node()
	o.shown()
	if o.IntN(3) == 0 {
		n.Blank()
		return
	}
	o.gone[n.Name()] = true
	n.PowerOff()
}

// destroyed are the names and ids of what is on the machines that are gone, where a name means nothing else.
func (o *outsiders) destroyed() (names []string) {
	for _, n := range o.s.Nodes() {
		if o.gone[n.Name()] {
			names = append(names, n.Name())
		}
		for _, m := range o.s.told().Etcd.Members {
			if name := o.joined[n.Name()]; o.gone[n.Name()] && name != "" && m.At(n.Declared().Address) {
				names = append(names, []string{m.ID, name}[o.IntN(2)])
			}
		}
	}
	if o.IntN(4) == 0 {
		return nil
	}
	return names
}

func (o *outsiders) restore() {
	r := fromBackup
	r.Destroyed = o.destroyed()
	o.s.order(r)
}

// recover continues from what the member of one node has, mostly after the machines of others were destroyed.
func (o *outsiders) recover() {
	id := o.s.Store().Identity()
	if len(id.Joins) == 0 {
		return
	}
	survivor := id.Joins[o.IntN(len(id.Joins))].Node.Name()
	if o.IntN(3) > 0 && !o.gone[survivor] {
		o.shown()
		for _, n := range o.s.Nodes() {
			_, ours := id.On(n.Declared())
			if n.Name() != survivor && (ours || o.IntN(2) == 0) && o.IntN(5) > 0 {
				o.gone[n.Name()] = true
				n.PowerOff()
			}
		}
		o.s.pass(time.Minute)
	}
	o.s.order(cke.RestoreOrder{Survivor: survivor, Named: o.IntN(2) == 0, Destroyed: o.destroyed()})
}

// older lets an older copy of the store take its place, or has the memberships that it lacks put on record.
func (o *outsiders) older() {
	inc := o.s.Store().Identity().Incarnation
	switch {
	case o.past == nil || o.IntN(4) == 0:
		c := o.s.Store().Copy()
		o.past = &c
	case inc != nil && o.past.Identity().Incarnation != nil && inc.ID == o.past.Identity().Incarnation.ID:
		o.s.broughtBack(*o.past)
		o.past = nil
	}
}

func (o *outsiders) reclaim() {
	if r, why := o.s.planReclaim(); why == nil {
		o.s.orderReclaim(r)
	}
}

func (o *outsiders) replace() { o.s.ask(cke.TaskReplace, o.node().Name(), "", "") }

func (o *outsiders) delete() {
	if o.s.Store().Spec().Deleting() {
		o.s.Store().CancelDelete()
		return
	}
	if d := o.destroyed(); d != nil {
		o.s.Store().Destroy(d...)
	}
	o.s.Store().RequestDelete()
}

// burn lets the management host burn; the cluster is declared to be restored on another one, by what was beside the backups once.
func (o *outsiders) burn() {
	o.shown()
	inc := o.s.Store().Identity().Incarnation
	if o.copied == nil || inc == nil || inc.ID != o.copied.Identity().Incarnation.ID { // no copy of before a restore has a way back
		return
	}
	o.s.latest().Kill()
	o.s.declaredFrom(*o.copied)
	o.copied = nil
	o.s.pass(time.Minute)
}

// copy keeps what is beside the backups.
func (o *outsiders) copy() {
	if id := o.s.Store().Identity(); id.Incarnation != nil && id.Incarnation.State == cke.Formed && o.s.settled() {
		o.s.TakeBackup()
		c := o.s.Store().Copy()
		o.copied = &c
	}
}

// declare changes which machines are to have members.
func (o *outsiders) declare() {
	var names []string
	for _, n := range o.s.Nodes() {
		if o.IntN(2) == 0 && !o.gone[n.Name()] {
			names = append(names, n.Name())
		}
	}
	if names != nil && !o.s.Store().Deleted() {
		o.s.Store().SetSpec(o.s.held(names...))
	}
}

// do is what operators or the world do next.
func (o *outsiders) do() {
	switch k := o.IntN(43); {
	case k < 9:
		o.join()
	case k < 12:
		o.leave()
	case k < 16:
		o.hide()
	case k < 19:
		o.show(o.node())
	case k < 21:
		o.s.latest().Kill()
	case k < 23:
		o.lose()
	case k < 26:
		o.restore()
	case k < 28:
		o.delete()
	case k < 29:
		o.burn()
	case k < 30:
		o.copy()
	case k < 31:
		o.declare()
	case k < 34:
		o.recover()
	case k < 37:
		o.older()
	case k < 40:
		o.reclaim()
	case k < 42:
		o.replace()
	default:
		o.s.Write(o.node().Name(), "a write")
	}
}

// mayJoin reports whether what joins at a call can be read before members are stopped: between the last look and a stop are milliseconds in which
// etcd accepts members, and nobody can know of them.
func (o *outsiders) mayJoin(c sim.Call) bool {
	switch operation, step := o.s.Store().Running(); operation {
	case "restore", "finish-restore", "begin-recovery":
		return step != "fence" || c.Name == "Asked"
	case "delete-cluster":
		return c.Name == "Members" || c.Name == "Listed"
	case "begin-restore":
		return true
	}
	return false
}

// within is what happens at a call of an operation.
func (o *outsiders) within() {
	switch o.IntN(8) {
	case 0, 1, 2, 3:
		o.join()
		o.join()
	case 4:
		o.leave()
	case 5:
		o.hide()
	case 6:
		o.show(o.node())
	case 7:
		o.s.latest().Kill()
	}
}

func outsidersPlay(t *testing.T, seed uint64, tell func(string, ...any)) (faults []string) {
	r := rand.New(rand.NewPCG(seed, 7))
	play(t, 4+r.IntN(3), func(s *stage) {
		if tell != nil {
			s.OnTrace(tell)
		}
		o := &outsiders{Rand: r, s: s, gone: map[string]bool{}, joined: map[string]string{}}
		var names []string
		for _, n := range s.Nodes()[:1+r.IntN(3)] {
			names = append(names, n.Name())
		}
		s.keptOn(names...)
		o.copy()
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if o.mayJoin(c) && r.IntN(20) == 0 {
				o.within()
			}
			return sim.Proceed
		}
		for range 6 + r.IntN(20) {
			o.do()
			if !o.s.latest().Dead() || r.IntN(2) == 0 {
				s.succeed()
			}
			s.pass(time.Duration(r.IntN(120)) * time.Second)
		}
		s.Judge = nil
		o.shown()
		s.pass(10 * time.Minute)
		s.succeed()
		for _, n := range s.Nodes() {
			s.Write(n.Name(), "at the end")
		}
		faults = slices.DeleteFunc(s.Violations(), func(v string) bool { return !strings.Contains(v, "serve") || strings.Contains(v, "reports") })
		if tell != nil {
			tell("\n%s", s.World)
		}
	})
	return faults
}

// Whatever members operators add with etcdctl, and whenever, no second cluster serves after a restore, a recovery, a deletion, or with an older store.
func TestOutsiders_NeverBecomeASecondCluster(t *testing.T) {
	if *seedFlag != 0 {
		for _, f := range outsidersPlay(t, *seedFlag, t.Logf) {
			t.Error(f)
		}
		return
	}
	n := *schedules
	if n == 0 {
		n = uint64(some(1000))
	}
	for seed := range n {
		for _, f := range outsidersPlay(t, *firstSeed+seed, nil) {
			t.Errorf("seed %d: %s", *firstSeed+seed, f)
		}
	}
}
