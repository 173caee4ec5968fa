package sim_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server"
	"cke/sim"
)

// mutation takes one safeguard away: from what Decide is given, and from what operations see.
type mutation struct {
	name  string
	blind func(*server.Input)
	wrap  func(s *stage, e op.Env) op.Env
	store func(s *stage)
	// often is what the schedules are about beside what they are by chance.
	often []func(*nemesis, *sim.Node)
	// wants are violations of which one must be noticed.
	wants []string
}

var mutations = []mutation{
	{name: "quorum gate", blind: func(in *server.Input) { flatter(in, func(m cke.Member) bool { return !m.Learner && m.Name != "" }) },
		wrap:  func(s *stage, e op.Env) op.Env { e.Etcd = flattering{e.Etcd, s}; return e },
		often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.edit() }, flip((*sim.Node).Freeze, (*sim.Node).Thaw)},
		wants: []string{"takes the quorum away", "takes a healthy voter away while another one does not run", "takes a second voter away"}},
	{name: "one change in flight", blind: func(in *server.Input) {
		flatter(in, func(m cke.Member) bool { return m.Learner || m.Name == "" })
		in.Seen.Etcd.Members = grown(in.Seen.Etcd.Members)
	}, wrap: func(s *stage, e op.Env) op.Env { e.Etcd = growing{e.Etcd, s, map[string]bool{}}; return e },
		wants: []string{"while a change of the member list is under way"}},
	{name: "leader's move", wrap: func(_ *stage, e op.Env) op.Env { e.Etcd = unmoving{e.Etcd}; return e },
		wants: []string{"stops the leader though"}},
	{name: "others first", blind: func(in *server.Input) { // it does not see the declared nodes that carry nobody yet
		in.Spec.Nodes = slices.DeleteFunc(slices.Clone(in.Spec.Nodes), func(n cke.Node) bool {
			_, carries := in.Identity.On(n)
			return n.ControlPlane && !carries && in.Identity.Incarnation != nil
		})
	}, often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.edit() }},
		wants: []string{"before there are as many others as are declared"}},
	{name: "look for data, with the arguments that back it up", blind: thin{look: true}.blind, wrap: thin{look: true, arguments: true}.wrap,
		often: []func(*nemesis, *sim.Node){func(_ *nemesis, node *sim.Node) { node.StopByHand(); node.RemoveData() }},
		wants: []string{startsEmpty, "starts anew though the cluster is formed"}},
	{name: "fencing", store: func(s *stage) { s.Store().Unfence() }, wants: []string{"after its term"}},
	{name: "learner's lag", blind: func(in *server.Input) {
		for i := range in.Seen.Etcd.Endpoints {
			in.Seen.Etcd.Endpoints[i].RaftApplied = 1 << 40
		}
	}, wrap: func(_ *stage, e op.Env) op.Env { e.Etcd = hurrying{e.Etcd}; return e }, wants: []string{"lets a learner vote that is far behind"},
		often: []func(*nemesis, *sim.Node){func(n *nemesis, _ *sim.Node) { n.edit() }, func(_ *nemesis, node *sim.Node) { node.Trickle(true) }}},
}

// flatter makes members look healthy.
func flatter(in *server.Input, which func(cke.Member) bool) {
	seen := &in.Seen.Etcd
	seen.Endpoints = slices.Clone(seen.Endpoints)
	for _, m := range seen.Members {
		for _, j := range in.Identity.Joins {
			for i := range seen.Endpoints {
				if e := &seen.Endpoints[i]; which(m) && e.Join == j.ID && op.Is(m, j) {
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
	play(t, 3+int(seed%3), func(s *stage) {
		n := &nemesis{Rand: r, s: s, rate: []float64{0.01, 0.03, 0.1}[r.IntN(3)]}
		n.edit()
		s.daemon()
		if !s.until(convergence, s.settled) {
			return
		}
		s.blind = m.blind
		if m.wrap != nil {
			s.wrap = func(e op.Env) op.Env { return m.wrap(s, e) }
		}
		if m.store != nil {
			m.store(s)
		}
		n.choose(slices.Concat(disasters, persons))
		for range 12 {
			n.about = append(n.about, m.often...)
		}
		s.Pick, s.Judge = r.IntN, n.judge
		last := s.Calls() + 800
		s.until(time.Hour, func() bool { s.succeed(); return s.Calls() > last })
		violations = s.Violations()
	})
	return violations
}

// Without any one of its safeguards the proof fails, within a bounded number of schedules.
func TestProof_FailsWithoutEachSafeguard(t *testing.T) {
	if race && testing.Short() {
		t.Skip("too slow with the race detector")
	}
	const limit = 2000
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= limit; seed++ {
				for _, v := range mutant(t, m, seed) {
					if slices.ContainsFunc(m.wants, func(want string) bool { return strings.Contains(v, want) }) {
						t.Logf("noticed by schedule %d: %s", seed, v)
						return
					}
				}
			}
			t.Error("not noticed")
		})
	}
}
