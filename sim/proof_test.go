package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
	"cke/sim"
)

// mutation takes one safeguard away: from what Decide is given, and from what operations see.
type mutation struct {
	name  string
	blind func(*strategy.Input)
	wrap  func(s *stage, e op.Env) op.Env
	store func(s *stage)
	begin func(n *nemesis)
	// stock takes a safeguard away from what Choose is given; nil: there is no inventory.
	stock *stocked
	// often is what the schedules are about beside what they are by chance.
	often []func(*nemesis, *sim.Node)
	// wants are violations of which one must be noticed.
	wants []string
}

var mutations = []mutation{
	{name: "quorum gate", blind: func(in *strategy.Input) { flatter(in, func(m cke.Member) bool { return !m.Learner && m.Name != "" }) },
		wrap:  func(s *stage, e op.Env) op.Env { e.Etcd = flattering{e.Etcd, s}; return e },
		often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.edit() }, flip((*sim.Node).Freeze, (*sim.Node).Thaw)},
		wants: []string{"takes the quorum away", "takes a healthy voter away while another one does not run", "takes a second voter away"}},
	{name: "one change in flight", blind: func(in *strategy.Input) {
		flatter(in, func(m cke.Member) bool { return m.Learner || m.Name == "" })
		in.Seen.Etcd.Members = grown(in.Seen.Etcd.Members)
	}, wrap: func(s *stage, e op.Env) op.Env { e.Etcd = growing{e.Etcd, s, map[string]bool{}}; return e },
		wants: []string{"while a change of the member list is under way"}},
	{name: "leader's move", wrap: func(_ *stage, e op.Env) op.Env { e.Etcd = unmoving{e.Etcd}; return e },
		wants: []string{"stops the leader though"}},
	{name: "others first", blind: func(in *strategy.Input) { // it does not see the declared nodes that carry nobody yet
		in.Spec.Nodes = slices.DeleteFunc(slices.Clone(in.Spec.Nodes), func(n cke.Node) bool {
			_, carries := in.Identity.On(n)
			return n.ControlPlane && !carries && in.Identity.Incarnation != nil
		})
	}, often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.edit() }},
		wants: []string{"before there are as many others as are declared"}},
	{name: "look for data, with the arguments that back it up", blind: thin{look: true}.blind, wrap: thin{look: true, arguments: true}.wrap, store: func(s *stage) { s.FormedEarlier(); s.KeepAll() },
		often: []func(*nemesis, *sim.Node){func(_ *nemesis, node *sim.Node) { node.StopByHand(); node.RemoveData() }},
		wants: []string{startsEmpty, couldStart, "starts as a new one though the cluster is formed"}},
	{name: "what is wanted was stored", blind: otherDefault(), wants: []string{"stops a member that runs as declared"},
		often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.edit() }, func(n *nemesis, _ *sim.Node) { n.depose() }}},
	{name: "silence is no evidence", blind: func(in *strategy.Input) { // what does not answer is taken for paused
		for i := range in.Seen.Nodes {
			n := &in.Seen.Nodes[i]
			if n.Answered() {
				continue
			}
			n.Problem = nil
			for k := range n.Containers {
				n.Containers[k].State = cke.ContainerPaused
			}
		}
	}, often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.s.Isolate(sim.Management) }},
		wants: []string{"reports a lost quorum while the cluster serves"}},
	{name: "a refusal proves a read, not more", blind: func(in *strategy.Input) {
		for i := range in.Seen.Etcd.Endpoints {
			in.Seen.Etcd.Endpoints[i].Denied = false
		}
	}, often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.authenticate() }},
		wants: []string{"reports a ready cluster in which etcd refuses all that it does"}},
	{name: "cke's own user", wrap: func(_ *stage, e op.Env) op.Env { e.Etcd = trusting{e.Etcd}; return e },
		often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.s.SetAuth(false, false) }, func(n *nemesis, _ *sim.Node) { n.s.ask(cke.TaskAuth, "", cke.AuthOn, "") }},
		wants: []string{"authentication is turned on, and refuses cke"}},
	{name: "interruptions ask first", blind: func(in *strategy.Input) { in.Requests.Interrupt = in.Generation },
		wants: []string{"interrupts service unasked"}, often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.edit() }, func(n *nemesis, _ *sim.Node) { n.edit() }, flip((*sim.Node).PowerOff, (*sim.Node).PowerOn)}},
	{name: "two clusters of one id", blind: func(in *strategy.Input) { in.Before.Etcd = cke.EtcdStatus{} }, // none was seen before
		wants: []string{"while two histories serve under one cluster id"}, often: []func(*nemesis, *sim.Node){func(n *nemesis, node *sim.Node) { n.continueAlone(node) }}},
	{name: "fencing", store: func(s *stage) { s.Store().Unfence() }, wants: []string{"after its term"}},
	{name: "the record", blind: func(in *strategy.Input) {
		in.Identity = ended(in.Identity, in.Identity.Unrecorded(in.Spec.Name, in.Seen.Nodes))
	},
		wrap: func(s *stage, e op.Env) op.Env { e.Ledger = believing{e.Ledger, s}; return e },
		often: []func(*nemesis, *sim.Node){func(n *nemesis, node *sim.Node) {
			n.s.ask(cke.TaskReplace, node.Name(), string(n.s.join(node.Name()).ID), "")
		}, func(n *nemesis, _ *sim.Node) { n.bringBack() }},
		wants: []string{"which is not on record"}},
	{name: "members are asked where their containers were made for", blind: func(in *strategy.Input) { in.Seen.Etcd.Elsewhere = nil },
		wrap: func(s *stage, e op.Env) op.Env { e.Etcd = recordedOnly{e.Etcd, s}; return e },
		often: []func(*nemesis, *sim.Node){func(n *nemesis, node *sim.Node) { n.pursueReclaim(node, n.s.Store().Identity(), true) },
			func(n *nemesis, node *sim.Node) { n.pursueReclaim(node, n.s.Store().Identity(), true) }, func(n *nemesis, _ *sim.Node) { n.unfreeze() },
			flip((*sim.Node).StopByHand, (*sim.Node).StartByHand)},
		wants: []string{"takes the quorum away", "takes a healthy voter away while another one does not run"}},
	{name: "what an older cke does not know is carried over", store: func(s *stage) {
		s.older = func() bool { return true }
		s.Store().DropUnknown()
	}, often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.edit() }, func(n *nemesis, node *sim.Node) { node.DiscardLimits(true) }, func(n *nemesis, _ *sim.Node) { n.depose() }},
		wants: []string{"erases what a later one put on record"}},
	{name: "writes are stopped before the last backup", wrap: func(_ *stage, e op.Env) op.Env { e.Etcd = unarmed{e.Etcd}; return e },
		often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.s.TakeBackup(); n.s.order(toldStored) }, write, write, write, write},
		wants: []string{"the plan of the restore said that it will be"}},
	{name: "what a restore replaces is removed before its members start", store: func(s *stage) { s.TargetRefuses(true) }, // writes are not stopped
		wrap:  func(s *stage, e op.Env) op.Env { e.Machines = keeping{e.Machines, s}; return e },
		often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.s.TakeBackup(); n.s.order(fromBackup) }, startFormer, startFormer, startFormer, startFormer, write, write, write},
		wants: []string{"is acknowledged by what a restore replaces"}},
	{name: "what is called destroyed is asked again", wrap: func(s *stage, e op.Env) op.Env {
		e.Machines, e.Etcd = ungone{e.Machines, s}, ungoneEtcd{e.Etcd, s}
		return e
	}, begin: (*nemesis).callsDestroyed, often: []func(*nemesis, *sim.Node){func(_ *nemesis, node *sim.Node) { node.PowerOn() }}, wants: []string{"two clusters serve under one name"}},
	{name: "what lies beside the backups", blind: func(in *strategy.Input) {
		in.Backup = besideOf(in, func(b *cke.BackupStatus) { b.Lacks = nil })
		if f := in.Identity.Freeze; f != nil {
			known := *f
			known.Lacks, in.Identity.Freeze = nil, &known
		}
	}, wrap: func(s *stage, e op.Env) op.Env { e.Snapshots = accepting{e.Snapshots, s}; return e }, begin: (*nemesis).outrun, often: hides, wants: []string{leftBeside}},
	{name: "what lies beside the backups is compared first", blind: func(in *strategy.Input) {
		in.Backup = besideOf(in, func(b *cke.BackupStatus) { b.Compared = true })
	}, wrap: func(s *stage, e op.Env) op.Env { e.Snapshots = accepting{e.Snapshots, s}; return e }, begin: (*nemesis).outrun, often: hides, wants: []string{leftBeside}},
	{name: "a restore compares what it reads", wrap: func(s *stage, e op.Env) op.Env { e.Snapshots = accepting{e.Snapshots, s}; return e },
		begin: func(n *nemesis) { n.outrun(); n.s.DamageBeside() }, often: hides, wants: []string{leftBeside}},
	{name: "marks where a cluster is declared", blind: func(in *strategy.Input) {
		if id := in.Identity; id.NeedsDeleted() && id.Incarnation != nil {
			unmarked(in)
		}
	}, begin: func(n *nemesis) {
		if _, moved := n.moveAway(); moved {
			n.s.order(fromBackup)
			n.s.until(time.Hour, n.s.restored)
		}
	}, wants: []string{"two clusters serve under one name"}},
	{name: "a declaration that is deleted deletes nothing", blind: func(in *strategy.Input) {
		if len(in.Identity.GaveUp) > 0 || in.Identity.Incarnation == nil {
			unmarked(in)
		}
	}, begin: func(n *nemesis) {
		if beside, moved := n.moveAway(); moved && n.s.declareAgain(beside, cke.Identity{}) {
			n.s.until(time.Hour, n.s.settled)
		}
	}, wants: []string{"two clusters serve under one name"}},
	oneAtATime(cke.RebootQueue, (*stage).addReboots),
	oneAtATime(cke.RepairQueue, (*stage).addRepairs),
	{name: "so many repairs a day", blind: func(in *strategy.Input) { in.Requests.Repairs.History = nil },
		often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.s.addRepairs(n.s.everyNode()...) }}, wants: []string{"repairs were started in a day"}},
	{name: "machines with members of other clusters", blind: func(in *strategy.Input) {
		in.Seen.Nodes = slices.Clone(in.Seen.Nodes)
		for i := range in.Seen.Nodes {
			in.Seen.Nodes[i].Neighbors = nil
		}
	}, often: []func(*nemesis, *sim.Node){func(_ *nemesis, node *sim.Node) {
		node.AddNeighbor(sim.Neighbor{Cluster: "other", ClientPort: 4379, PeerPort: 4380})
	}, func(n *nemesis, _ *sim.Node) { n.s.addReboots(n.s.everyNode()...) }}, wants: []string{"where a member of cluster other runs"}},
	{name: "members on record at another address, in a queue", blind: onlyOnRecord, wrap: func(_ *stage, e op.Env) op.Env { e.Machines = settledMachines{e.Machines}; return unaddressing(e) },
		often: slices.Repeat([]func(*nemesis, *sim.Node){func(n *nemesis, node *sim.Node) { n.move(node) }, func(n *nemesis, _ *sim.Node) { n.s.addReboots(n.s.everyNode()...) }}, 8),
		wants: []string{"and takes the quorum away"}},
	{name: "guard before each request", store: func(s *stage) { s.Store().GuardOncePerMethod() }, wants: []string{"after its term"}},
	{name: "ports of other clusters", blind: func(in *strategy.Input) {
		in.Seen.Nodes = slices.Clone(in.Seen.Nodes)
		for i := range in.Seen.Nodes {
			n := &in.Seen.Nodes[i]
			n.Neighbors, n.ClientPort, n.PeerPort = nil, cke.PortClosed, cke.PortClosed
		}
	}, store: func(s *stage) { s.IgnoreNeighbors() }, often: []func(*nemesis, *sim.Node){func(n *nemesis, node *sim.Node) { n.neighbor(node) }, func(n *nemesis, _ *sim.Node) { n.ported = !n.ported; n.edit() }},
		wants: []string{"share a port"}},
	{name: "learner's data", blind: thin{look: true}.blind, wrap: thin{look: true}.wrap, wants: []string{"lets a learner vote whose data was removed"},
		often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.edit() }, func(_ *nemesis, node *sim.Node) { node.Unlink() }}},
	{name: "learner's lag", blind: func(in *strategy.Input) {
		for i := range in.Seen.Etcd.Endpoints {
			in.Seen.Etcd.Endpoints[i].RaftApplied = 1 << 40
		}
	}, wrap: func(_ *stage, e op.Env) op.Env { e.Etcd = hurrying{e.Etcd}; return e }, wants: []string{"lets a learner vote that is far behind"},
		often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.edit() }, func(_ *nemesis, node *sim.Node) { node.Trickle(true) }}},
}

// otherDefault takes for wanted what a cke of another default version would, where the file names none.
func otherDefault() func(*strategy.Input) {
	return func(in *strategy.Input) {
		if o := &in.Spec.Options.Etcd; o.Version == "3.6.16" {
			o.Version, o.Image = "3.6.17", cke.DefaultImage+":v3.6.17"
		}
	}
}

// trusting takes for granted that cke's user is there.
type trusting struct{ cke.Etcd }

func (t trusting) AdmitSelf(context.Context, string) error { return nil }

func (t trusting) Auth(ctx context.Context, url string) (cke.AuthState, error) {
	s, err := t.Etcd.Auth(ctx, url)
	s.Admitted = true
	return s, err
}

// keeping are machines on which a restore removes nothing that it replaces.
type keeping struct {
	cke.Machines
	s *stage
}

func (k keeping) Machine(n cke.Node) cke.Machine { return keepingMachine{k.Machines.Machine(n), k.s} }

type keepingMachine struct {
	cke.Machine
	s *stage
}

func (k keepingMachine) RemoveContainer(ctx context.Context, j cke.Join) error {
	if _, step := k.s.Store().Running(); step == "remove-replaced" {
		return nil
	}
	return k.Machine.RemoveContainer(ctx, j)
}

// startFormer ends the daemon that restores once it has stopped what it replaces, or cuts it off, and starts that.
func startFormer(n *nemesis, _ *sim.Node) {
	if operation, step := n.s.Store().Running(); operation != "restore" || !slices.Contains(afterFence, step) {
		return
	}
	if n.IntN(2) == 0 {
		n.s.latest().Kill()
	} else {
		n.s.Isolate(sim.Management)
	}
	n.s.eachNode((*sim.Node).StartByHand)
}

// afterFence are the steps of a restore in which what it replaces is stopped, and none of its members is started.
var afterFence = []string{"check-fence", "remove-replaced", "record-start", "mark-over"}

// accepting are snapshots that are restored whatever lies beside the backups.
type accepting struct {
	cke.Snapshots
	s *stage
}

func (a accepting) Fetch(ctx context.Context, id string, o cke.RestoreOrder, survivor *cke.Join, progress func(string)) (cke.Snapshot, error) {
	o.Accepted = a.s.UnreadBeside()
	if store := a.s.Store().Identity(); store.Incarnation != nil {
		life := store.BackedUp().Incarnation.ID
		there, _ := a.s.Beside(life)
		for _, l := range store.LacksBeside(cke.Beside{Incarnation: life, Identity: there}) {
			o.Accepted = append(o.Accepted, l.ID)
		}
	}
	return a.Snapshots.Fetch(ctx, id, o, survivor, progress)
}

// unarmed is an etcd that takes an alarm and raises none.
type unarmed struct{ cke.Etcd }

func (unarmed) Arm(context.Context, string, cke.Alarm) error { return nil }

func write(n *nemesis, node *sim.Node) { n.s.Write(node.Name(), fmt.Sprintf("write %d", n.Int64())) }

// flatter makes members look healthy.
func flatter(in *strategy.Input, which func(cke.Member) bool) {
	seen := &in.Seen.Etcd
	seen.Endpoints = slices.Clone(seen.Endpoints)
	for _, m := range seen.Members {
		for _, j := range in.Identity.Joins {
			for i := range seen.Endpoints {
				if e := &seen.Endpoints[i]; which(m) && e.Join == j.ID && m.Of(j) {
					e.Problem, e.Errors, e.Serializable, e.Linearizable, e.MemberID = "", nil, true, true, m.ID
				}
			}
		}
	}
}

// flattering is an etcd all of whose members answer.
type flattering struct {
	cke.Etcd
	s *stage
}

func (f flattering) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	e := f.Etcd.Endpoint(ctx, url)
	for _, j := range f.s.Store().Identity().Joins {
		if j.ClientURL() == url && !e.Learner {
			e.Problem, e.Errors, e.Serializable, e.Linearizable, e.MemberID = "", nil, true, true, j.MemberID
			e.ClusterID = f.s.Store().Identity().Incarnation.ClusterID
		}
	}
	return e
}

// grown are members none of which is new.
func grown(members []cke.Member) []cke.Member {
	members = slices.Clone(members)
	for i := range members {
		members[i].Learner = false
		if members[i].Name == "" {
			members[i].Name = "grown"
		}
	}
	return members
}

// growing is an etcd none of whose members is new, and whose new ones answer as the others do.
type growing struct {
	cke.Etcd
	s *stage
	// pending are the ids of those that are new.
	pending map[string]bool
}

func (g growing) Members(ctx context.Context, url string) (string, []cke.Member, error) {
	id, members, err := g.Etcd.Members(ctx, url)
	for _, m := range members {
		g.pending[m.ID] = m.Learner || m.Name == ""
	}
	return id, grown(members), err
}

func (g growing) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	e := g.Etcd.Endpoint(ctx, url)
	for _, j := range g.s.Store().Identity().Joins {
		if inc := g.s.Store().Identity().Incarnation; j.ClientURL() == url && g.pending[j.MemberID] && inc != nil {
			return cke.EndpointStatus{URL: url, MemberID: j.MemberID, ClusterID: inc.ClusterID, Serializable: true, Linearizable: true, RaftApplied: e.RaftApplied}
		}
	}
	return e
}

// recordedOnly is an etcd whose members answer only where they are on record.
type recordedOnly struct {
	cke.Etcd
	s *stage
}

func (r recordedOnly) onRecord(url string) bool {
	return slices.ContainsFunc(r.s.Store().Identity().Joins, func(j cke.Join) bool { return j.ClientURL() == url })
}

func (r recordedOnly) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	if !r.onRecord(url) {
		return cke.EndpointStatus{URL: url, Problem: "not asked"}
	}
	return r.Etcd.Endpoint(ctx, url)
}

func (r recordedOnly) Members(ctx context.Context, url string) (string, []cke.Member, error) {
	if !r.onRecord(url) {
		return "", nil, cke.ErrUnreachable
	}
	return r.Etcd.Members(ctx, url)
}

// unmoving is an etcd that takes the wish for another leader and does nothing.
type unmoving struct{ cke.Etcd }

func (unmoving) MoveLeader(context.Context, string, string) error { return nil }

// hurrying is an etcd all of whose members have applied everything.
type hurrying struct{ cke.Etcd }

func (h hurrying) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	e := h.Etcd.Endpoint(ctx, url)
	e.RaftApplied = 1 << 40
	return e
}

// mutant plays one random schedule of a formed cluster without a safeguard, and returns what was noticed.
func mutant(t *testing.T, m mutation, seed uint64) (violations []string) {
	r := rand.New(rand.NewPCG(seed, 1))
	play(t, m.stock.nodes(3+int(seed%3)), func(s *stage) {
		n := &nemesis{Rand: r, s: s, rate: []float64{0.01, 0.03, 0.1}[r.IntN(3)]}
		m.stock.begin(n)
		n.edit()
		s.daemon()
		if !s.until(convergence, s.settled) {
			return
		}
		s.blind = m.blind
		m.stock.blinds(s)
		if m.wrap != nil {
			s.wrap = func(e op.Env) op.Env { return m.wrap(s, e) }
		}
		if m.store != nil {
			m.store(s)
		}
		if m.begin != nil {
			m.begin(n)
		}
		n.choose(slices.DeleteFunc(slices.Clone(events), func(e event) bool { return e.name == alone })) // no older store is brought back beside that
		for range 12 {
			for _, do := range m.often {
				n.about = append(n.about, event{do: do})
			}
		}
		s.Pick, s.Judge = r.IntN, n.judge
		last := s.Calls() + 1000
		s.until(time.Hour, func() bool { s.succeed(); return s.Calls() > last })
		violations = s.Violations()
	})
	return violations
}

// ended is an identity that takes what is not on record for memberships that ended.
func ended(id cke.Identity, unknown []cke.Unrecorded) cke.Identity {
	id.Ended = slices.Clone(id.Ended)
	for _, u := range unknown {
		id.Ended = append(id.Ended, cke.Join{ID: u.Join, Incarnation: u.Incarnation, Node: u.Node, Volume: u.Name, EndedAt: time.Now()})
	}
	return id
}

// believing is a ledger that has ended memberships for all that nodes carry.
type believing struct {
	cke.Ledger
	s *stage
}

func (b believing) Identity(ctx context.Context) (cke.Identity, error) {
	id, err := b.Ledger.Identity(ctx)
	var nodes []cke.NodeStatus
	for _, n := range b.s.Nodes() {
		seen := cke.NodeStatus{Node: n.Declared()}
		seen.Containers, seen.Volumes = n.Look()
		nodes = append(nodes, seen)
	}
	return ended(id, id.Unrecorded(clusterName, nodes)), err
}
