package sim_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
	"cke/sim"
)

// wrongWord is what a schedule may be about: an operator calls machines destroyed that are not, and they come back.
const wrongWord = "wrong-word"

// said is what operators say of machines that cke does not see.
type said struct {
	nodes []string
	at    int // the call at which they say it; 0: they have
}

// pursueWord lets an operator lose sight of machines, call them destroyed, and see them again, in any phase of what was ordered.
func (n *nemesis) pursueWord() {
	s := n.s
	inc := s.Store().Identity().Incarnation
	switch {
	case n.said.nodes == nil:
		if s.settled() && inc.State == cke.Formed && !s.Store().Spec().Deleting() {
			n.losesSight()
		}
	case n.said.at > s.Calls():
	case n.said.at > 0:
		n.saysDestroyed()
	case n.IntN(24) == 0 && inc.State == cke.Formed && !s.asks(cke.TaskRestore) && !s.Store().Spec().Deleting(): // it is over
		for _, name := range n.said.nodes {
			n.isBack(s.Node(name))
		}
		n.said = said{}
	default:
		n.comesOrGoes()
	}
}

// losesSight lets most members fall silent: without power, without a network, or only cut off from the management hosts.
func (n *nemesis) losesSight() {
	joins := n.s.Store().Identity().Joins
	if len(joins) < 2 {
		return
	}
	n.s.TakeBackup()
	n.Shuffle(len(joins), func(i, j int) { joins[i], joins[j] = joins[j], joins[i] })
	least := len(joins) - len(joins)/2 // the others are no quorum
	for _, j := range joins[:least+n.IntN(len(joins)-least)] {
		node := n.s.MachineOf(j)
		n.said.nodes = append(n.said.nodes, node.Name())
		switch n.IntN(4) {
		case 0:
			n.s.Isolate(node.Name())
		case 1:
			n.s.Cut(sim.Management, node.Name())
		default:
			node.PowerOff()
		}
	}
	n.said.at = n.s.Calls() + 20 + n.IntN(40)
}

// saysDestroyed orders what does not wait for these machines; sometimes nothing is done about that before a pause ends.
func (n *nemesis) saysDestroyed() {
	n.said.at = 0
	if n.IntN(3) == 0 {
		n.pause(true)
	}
	o := n.fromBackup()
	if n.IntN(2) == 0 {
		for _, node := range n.s.Nodes() {
			if _, carries := n.s.Store().Identity().On(node.Declared()); carries && !slices.Contains(n.said.nodes, node.Name()) {
				o = cke.RestoreOrder{Survivor: node.Name()}
			}
		}
	}
	o.Destroyed = slices.Clone(n.said.nodes)
	n.s.order(o)
}

// comesOrGoes lets machines that were called destroyed come back, whole or in part, or go again; or what the order does wait for another machine.
func (n *nemesis) comesOrGoes() {
	s := n.s
	nodes := n.said.nodes
	if n.IntN(3) == 0 {
		nodes = []string{nodes[n.IntN(len(nodes))]}
	}
	how := n.IntN(9)
	for _, name := range nodes {
		node := s.Node(name)
		switch how {
		case 0:
			n.isBack(node)
		case 1: // only etcd answers
			node.RefuseKey(true)
			n.powers(node)
		case 2: // they serve, and no management host sees it
			n.powers(node)
			s.Cut(sim.Management, name)
		case 3:
			node.PowerOff()
		case 4:
			s.Cut(sim.Management, name)
		case 5:
			node.FilterClientPort(true)
		}
	}
	switch how {
	case 6:
		n.write()
	case 7:
		n.pause(false)
	case 8:
		for _, node := range s.Nodes() {
			if !slices.Contains(n.said.nodes, node.Name()) {
				[]func(){node.PowerOff, node.PowerOn, node.PowerOn, node.FillDisk, node.FreeDisk, node.FreeDisk}[n.IntN(6)]()
			}
		}
	}
}

// powers lets a machine run, and reach all.
func (n *nemesis) powers(node *sim.Node) {
	node.PowerOn()
	n.s.Rejoin(node.Name())
	node.FilterClientPort(false)
}

// isBack lets a machine come back.
func (n *nemesis) isBack(node *sim.Node) {
	node.RefuseKey(false)
	n.powers(node)
}

// callsDeleted lets an operator lose sight of machines, and call them destroyed in a deletion.
func (n *nemesis) callsDeleted() {
	if n.losesSight(); n.said.nodes != nil {
		n.said.at = 0
		n.s.destroy(n.said.nodes...)
	}
}

// callsGone lets an operator name foreign members that a deletion waits for as destroyed, once no machine runs any member, or
// if these were never started.
func (n *nemesis) callsGone() {
	var gone []string
	never := true // those that it waits for were never started
	dec, _ := n.s.latest().now()
	for _, p := range dec.Blockers {
		switch {
		case p.Code == cke.CodeStranger && p.Node != "":
			gone, never = append(gone, p.Node), false
		case p.Code == cke.CodeStranger: // the deletion has asked
			for _, flag := range strings.Split(p.Message, "--destroyed ")[1:] {
				id := strings.Fields(flag)[0]
				gone, never = append(gone, id), never && strings.Contains(p.Message, "not started ("+id+")")
			}
		}
	}
	runs := slices.ContainsFunc(n.s.Nodes(), func(node *sim.Node) bool {
		containers, _ := node.Look()
		return slices.ContainsFunc(containers, cke.Container.Running)
	})
	if spec := n.s.Store().Spec(); gone != nil && (never || !runs) && spec.Deleting() {
		n.s.destroy(append(slices.Clone(spec.Destroyed), gone...)...)
	}
}

// regains lets an operator cancel a deletion that stopped members and waits for foreign ones that run, as its error says: cke starts its members, the
// foreign ones are removed, and the deletion is requested again. It reports whether that is under way.
func (n *nemesis) regains() bool {
	dec, _ := n.s.latest().now()
	waits := slices.ContainsFunc(dec.Blockers, func(p cke.Problem) bool {
		return p.Code == cke.CodeStranger && strings.Contains(p.Message, "--cancel starts them again")
	})
	foreign := n.s.ForeignMembers()
	switch deleting := n.s.Store().Spec().Deleting(); {
	case deleting && waits && foreign < 0 && time.Since(n.healed) > 10*time.Minute:
		n.s.Store().CancelDelete()
		n.regained = time.Now()
	case deleting || n.regained.IsZero() || foreign == 0 || time.Since(n.regained) > 10*time.Minute:
		n.regained = time.Time{}
		return false
	case foreign > 0:
		n.s.Expel()
	}
	return true
}

// reinstalls is what operators do with machines that they called destroyed in a deletion, and that are back.
func (n *nemesis) reinstalls() {
	for _, name := range n.said.nodes {
		n.s.Node(name).Blank()
	}
}

// blindTo is without what is seen of machines that an order calls destroyed, where it is one of some.
func blindTo(in *strategy.Input, nodes []string) {
	silent := cke.Problem{Code: cke.CodeUnreachable, Message: "no answer from sshd"}
	in.Seen.Nodes = slices.Clone(in.Seen.Nodes)
	for i := range in.Seen.Nodes {
		if node := &in.Seen.Nodes[i]; slices.Contains(nodes, node.Node.Name()) {
			p := silent
			p.Node = node.Node.Name()
			node.Problem = &p
		}
	}
	in.Seen.Etcd.Endpoints = slices.Clone(in.Seen.Etcd.Endpoints)
	for i := range in.Seen.Etcd.Endpoints {
		e := &in.Seen.Etcd.Endpoints[i]
		if j, known := in.Identity.Join(e.Join); known && slices.Contains(nodes, j.Node.Name()) {
			*e = cke.EndpointStatus{URL: e.URL, Join: e.Join, Problem: "no answer"}
		}
	}
}

// forgetful of what fell silent again: what is on record of machines that an order calls destroyed does not count for Decide, where is says so.
func forgetsSilent(is func(cke.Identity) bool) func(*strategy.Input) {
	return func(in *strategy.Input) {
		inc := in.Identity.Incarnation
		if inc == nil || inc.Restore == nil || inc.Restore.Returned == nil || !is(in.Identity) {
			return
		}
		known, r := *inc, *inc.Restore
		r.Returned = slices.DeleteFunc(slices.Clone(r.Returned), func(name string) bool {
			shows := slices.ContainsFunc(in.Seen.Nodes, func(n cke.NodeStatus) bool { return n.Node.Name() == name && n.Answered() })
			return !shows && !slices.ContainsFunc(in.Identity.Superseded(), func(j cke.Join) bool {
				return j.Node.Name() == name && slices.ContainsFunc(in.Seen.Etcd.Superseded, func(e cke.EndpointStatus) bool { return e.Join == j.ID && e.Problem == "" })
			})
		})
		known.Restore, in.Identity.Incarnation = &r, &known
	}
}

// comes lets what a mutation called destroyed come back and go again.
var comes = slices.Repeat([]func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) {
	if n.said.nodes != nil {
		n.comesOrGoes()
	}
}}, 4)

// wrongOf calls most machines destroyed in an order; while that waits for the rest, as when says, they come back and are cut off again.
func wrongOf(when func(cke.Identity) bool) func(*nemesis) {
	return func(n *nemesis) {
		s := n.s
		if n.losesSight(); n.said.nodes == nil {
			return
		}
		s.pass(time.Minute)
		n.said.at = 0
		o := n.fromBackup()
		o.Destroyed = slices.Clone(n.said.nodes)
		others := func(do func(*sim.Node)) {
			s.eachNode(func(node *sim.Node) {
				if !slices.Contains(n.said.nodes, node.Name()) {
					do(node)
				}
			})
		}
		waits := when == nil
		if n.pause(waits); !waits {
			s.Judge = func(int, sim.Call) sim.Verdict {
				if id := s.Store().Identity(); !waits && id.Incarnation.State == cke.Restoring && when(id) {
					waits = true
					others((*sim.Node).PowerOff)
				}
				return sim.Proceed
			}
		}
		s.order(o)
		s.until(10*time.Minute, func() bool { return waits })
		s.pass(time.Minute)
		whole := n.IntN(2) == 0
		for _, name := range n.said.nodes {
			s.Node(name).RefuseKey(!whole)
			n.powers(s.Node(name))
		}
		s.pass(2 * time.Minute)
		for _, name := range n.said.nodes {
			s.Cut(sim.Management, name)
			others(func(node *sim.Node) { s.Cut(node.Name(), name) })
		}
		s.pass(time.Minute)
		others((*sim.Node).PowerOn)
		n.pause(false)
		s.pass(10 * time.Minute)
	}
}

// record stores what an observation shows of machines that an order calls destroyed.
func (d *driver) record(ctx context.Context, in *strategy.Input) error {
	if d.stage.forgetful {
		return nil
	}
	return d.sightings.Record(ctx, d.Term(), in)
}

// forgetting takes away the store's memory of what is seen: two safeguards are behind each other.
func forgetting(begin func(*nemesis)) func(*nemesis) {
	return func(n *nemesis) {
		n.s.forgetful = true
		begin(n)
	}
}

// always is whatever is on record.
func always(cke.Identity) bool { return true }

// twoServe is what the checker says of two clusters that serve.
var twoServe = []string{"two clusters serve under one name", "another cluster serves", "while a member of the one before runs"}

// wordMutations take away what keeps the word of an operator from counting for more than what was seen.
var wordMutations = []mutation{
	{name: "what is seen of a destroyed node stays on record", blind: forgetsSilent(always), begin: forgetting(wrongOf(always)), often: comes, wants: twoServe},
	{name: "and counts after the start is on record", blind: forgetsSilent(cke.Identity.Started), begin: forgetting(wrongOf(cke.Identity.Started)), often: comes, wants: twoServe},
	{name: "members on destroyed nodes are asked while a restore waits", blind: func(in *strategy.Input) { in.Seen.Etcd.Superseded = nil },
		begin: forgetting(wrongOf(always)), often: comes, wants: twoServe},
	{name: "what is seen of destroyed nodes counts while an order waits", blind: func(in *strategy.Input) {
		if inc := in.Identity.Incarnation; in.Requests.Hold != nil && inc != nil && inc.State == cke.Formed {
			for _, t := range in.Requests.Tasks {
				if t.Restore != nil {
					blindTo(in, t.Restore.Destroyed)
				}
			}
		}
	}, begin: forgetting(wrongOf(nil)), often: comes, wants: twoServe},
	{name: "what a deletion calls destroyed is asked again", wrap: func(s *stage, e op.Env) op.Env {
		if s.Store().Spec().Deleting() {
			e.Etcd = unanswered{e.Etcd, s}
			e.Machines = believed{e.Machines, s}
		}
		return e
	}, begin: func(n *nemesis) {
		for _, node := range n.s.Nodes()[1:] {
			node.RefuseKey(true)
			node.PowerOff()
			n.said.nodes = append(n.said.nodes, node.Name())
		}
		n.s.pass(time.Minute)
		n.s.destroy(n.said.nodes...)
		n.s.Store().RequestDelete()
	}, often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.s.eachNode(n.powers) }}, wants: []string{"a deleted cluster serves"}},
}

// unanswered is an etcd, and believed are machines, of which a deletion believes that they are gone if it was said so.
type unanswered struct {
	cke.Etcd
	s *stage
}

func (u unanswered) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	for _, name := range u.s.Store().Spec().Destroyed {
		if strings.Contains(url, u.s.Node(name).Declared().Address+":") {
			return cke.EndpointStatus{URL: url, Problem: "it is taken for gone"}
		}
	}
	return u.Etcd.Endpoint(ctx, url)
}

type believed struct {
	cke.Machines
	s *stage
}

func (u believed) Machine(n cke.Node) cke.Machine {
	if slices.Contains(u.s.Store().Spec().Destroyed, n.Name()) {
		return goneMachine{u.Machines.Machine(n)}
	}
	return u.Machines.Machine(n)
}

// That machines are called destroyed which come back once what took their place serves is no fault of cke, which stops their members.
func TestChecker_ExcusesWhatNobodyCouldKnow(t *testing.T) {
	play(t, 3, func(s *stage) {
		down := calledDestroyed(t, s, refuseKey)
		s.order(destroyedOrders["restore"])
		if !s.until(convergence, s.restored) {
			t.Fatal("not restored")
		}
		for _, n := range down {
			n.PowerOn()
		}
		s.pass(time.Minute)
		s.unbroken(t)
		for _, n := range down {
			n.RefuseKey(false)
		}
		if s.Marks()[sim.ReturnServes] == 0 || !s.until(convergence, s.settled) {
			t.Errorf("%v: %v", s.Marks(), s.World)
		}
	})
}

// A daemon that saw them, and starts what takes their place all the same, does what no daemon may.
func TestChecker_NoticesARestoreBesideWhatWasSeen(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.blind = forgetsSilent(always)
		down := calledDestroyed(t, s, refuseKey)
		s.order(destroyedOrders["restore"])
		s.onceStarted(t, s.Node("n1").PowerOff)
		s.serveLate(t, down)
		for _, n := range down {
			n.FilterClientPort(true)
		}
		s.Node("n1").PowerOn()
		s.pass(30 * time.Minute)
		s.mustViolate(t, twoServe...)
	})
}
