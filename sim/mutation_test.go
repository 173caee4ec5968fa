package sim_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
	"cke/sim"
)

// These tests take a safeguard away and expect the checker to notice. A proof that cannot fail proves nothing.

// mustViolate fails unless an invariant was broken whose text contains one of these.
func (s *stage) mustViolate(t *testing.T, texts ...string) {
	t.Helper()
	if !slices.ContainsFunc(s.Violations(), func(v string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(v, text) })
	}) {
		t.Errorf("not noticed: %q", s.Violations())
	}
}

// leftBeside is what the checker says of members that an older store leaves beside a cluster.
const leftBeside = "which the store lacks and the identity beside the backups has"

// hides leads to an older store which nothing but the identity beside the backups shows.
var hides = slices.Repeat([]func(*nemesis, *sim.Node){(*nemesis).pursueBeside}, 6)

// besideOf is the status of the backups with a change; nil: there is none.
func besideOf(in *strategy.Input, change func(*cke.BackupStatus)) *cke.BackupStatus {
	if in.Backup == nil {
		return nil
	}
	b := *in.Backup
	change(&b)
	return &b
}

// forgetful is a ledger that does not know a certain life.
type forgetful struct {
	cke.Ledger
	life string
}

func (f forgetful) Identity(ctx context.Context) (cke.Identity, error) {
	id, err := f.Ledger.Identity(ctx)
	if id.Incarnation.Life(f.life) {
		return cke.Identity{}, err
	}
	return id, err
}

// Without the rule that a cluster with an incarnation is never bootstrapped, blank nodes get a second cluster.
func TestChecker_NoticesASecondBootstrap(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.daemon()
		if !s.until(convergence, s.settled) || !s.Write("n1", "precious") {
			t.Fatal("does not form")
		}
		life := s.Store().Identity().Incarnation.ID
		s.Store().Unguard()
		s.blind = func(in *strategy.Input) {
			if in.Identity.Incarnation.Life(life) {
				in.Identity = cke.Identity{}
			}
		}
		s.wrap = func(e op.Env) op.Env {
			e.Ledger = forgetful{e.Ledger, life}
			return e
		}
		for _, n := range s.Nodes() {
			n.Blank()
		}
		s.pass(convergence)
		s.mustViolate(t, "the formed incarnation is replaced", "another cluster serves", "is lost")
	})
}

// careless machines make what is missing and do not look for data, as `docker run -v` would.
type careless struct {
	cke.Machines
	authority cke.Authority
	made      map[cke.JoinID]cke.MemberSpec // what containers were made from; guarded by mu
	mu        *sync.Mutex
}

// carelessly lets operations work with careless machines.
func carelessly() func(op.Env) op.Env {
	made, mu := map[cke.JoinID]cke.MemberSpec{}, &sync.Mutex{}
	return func(e op.Env) op.Env { e.Machines = careless{e.Machines, e.Authority, made, mu}; return e }
}

func (c careless) Machine(n cke.Node) cke.Machine { return carelessMachine{c.Machines.Machine(n), c} }

type carelessMachine struct {
	cke.Machine
	careless
}

// StartContainer makes the container anew where it does not run, with certificates.
func (m carelessMachine) StartContainer(ctx context.Context, j cke.Join) error {
	m.mu.Lock()
	spec, made := m.made[j.ID]
	m.mu.Unlock()
	if made && m.RemoveContainer(ctx, j) == nil {
		if err := m.EnsureContainer(ctx, spec); err != nil {
			return err
		}
	}
	return m.Machine.StartContainer(ctx, j)
}

func (m carelessMachine) EnsureContainer(ctx context.Context, s cke.MemberSpec) error {
	m.mu.Lock()
	m.made[s.Join.ID] = s
	m.mu.Unlock()
	if err := m.EnsureVolume(ctx, s); err != nil {
		return err
	}
	s.Mode, s.Peers = sim.StartNew, []cke.Peer{{Name: s.Join.Member, URL: s.Join.PeerURL()}}
	for _, other := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
		if other != s.Join.Node.Address {
			s.Peers = append(s.Peers, cke.Peer{Name: other, URL: "https://" + other + ":2380"})
		}
	}
	slices.SortFunc(s.Peers, func(a, b cke.Peer) int { return strings.Compare(a.URL, b.URL) })
	if err := m.Machine.EnsureContainer(ctx, s); err != nil {
		return err
	}
	return m.PutFiles(ctx, s.Join, sim.CertificatesOf(time.Now()))
}

func (carelessMachine) Data(context.Context, cke.Join) (cke.DataState, error) {
	return cke.DataPresent, nil
}

func (m carelessMachine) Container(ctx context.Context, j cke.Join) (cke.Container, error) {
	c, err := m.Machine.Container(ctx, j)
	c.StartedAt = time.Time{}
	return c, err
}

// noDataCheck lets Decide believe that every member's volume is there and holds its data, and shows it nothing of what is in it.
func noDataCheck(in *strategy.Input) {
	for _, j := range in.Identity.Joins {
		for i := range in.Seen.Nodes {
			n := &in.Seen.Nodes[i]
			if n.Node.Address != j.Node.Address {
				continue
			}
			if _, there := n.VolumeOf(j); !there {
				n.Volumes = append(n.Volumes, cke.Volume{Name: j.Volume, Cluster: in.Spec.Name, Incarnation: j.Incarnation, Join: j.ID})
			}
			for k := range n.Containers {
				n.Containers[k].Data, n.Containers[k].Certificates = cke.DataPresent, nil
			}
		}
	}
}

// Without the looks for data, two wiped members of three found the cluster anew under the same ids.
func TestChecker_NoticesAMemberThatStartsEmpty(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.daemon()
		if !s.until(convergence, s.settled) || !s.Write("n1", "precious") {
			t.Fatal("does not form")
		}
		s.blind = noDataCheck
		s.FormedEarlier()
		s.KeepAll()
		s.wrap = carelessly()
		s.Node("n3").PowerOff()
		s.Node("n1").Blank()
		s.Node("n2").Blank()
		s.pass(convergence)
		s.mustViolate(t, startsEmpty, couldStart)
	})
}

func TestChecker_NoticesAFounderThatForgot(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.blind = noDataCheck
		s.FormedEarlier()
		s.KeepAll()
		s.wrap = carelessly()
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			if c.Name == "ProveWrite" {
				s.Judge = nil
				for _, n := range s.Nodes()[:2] { // where n3 is reached, etcd itself refuses
					n.EmptyVolumes()
					s.Cut(n.Name(), "n3")
				}
				return sim.KillBefore
			}
			return sim.Proceed
		}
		s.daemon()
		s.until(convergence, func() bool {
			if s.latest().Dead() {
				s.daemon()
			}
			return false
		})
		s.mustViolate(t, startsEmpty)
	})
}

// Without fencing a daemon that was frozen writes after another one has taken over.
func TestChecker_NoticesADeposedLeaderThatWrites(t *testing.T) {
	noticed := 0
	for k := 1; k <= callsOf(t, 3); k++ {
		play(t, 3, func(s *stage) {
			s.Store().Unfence()
			written := false
			s.Judge = func(n int, c sim.Call) sim.Verdict {
				if n == k && c.Port == "store" && c.Writes {
					written = true
					return sim.Freeze
				}
				return sim.Proceed
			}
			first := s.daemon()
			s.until(time.Minute, func() bool { return first.Frozen() || s.settled() })
			if !written {
				return
			}
			s.daemon()
			s.until(convergence, s.settled)
			first.Wake()
			s.pass(time.Minute)
			s.mustViolate(t, "after its term")
			noticed++
		})
	}
	if noticed < 5 {
		t.Errorf("only %d writes were tried", noticed)
	}
}

// The random schedules find a missing look for data by themselves.
func TestChecker_NoticesAMissingLookForDataInRandomSchedules(t *testing.T) {
	for seed := uint64(1); seed <= 2000; seed++ {
		noticed := false
		play(t, 3, func(s *stage) {
			r := rand.New(rand.NewPCG(seed, 1))
			n := &nemesis{Rand: r, s: s, rate: 0.1}
			n.choose(events)
			for range 6 {
				n.about = append(n.about, event{do: func(_ *nemesis, node *sim.Node) { node.StopByHand(); node.RemoveData() }})
			}
			s.blind = noDataCheck
			s.FormedEarlier()
			s.KeepAll()
			s.wrap = carelessly()
			s.Pick, s.Judge = r.IntN, n.judge
			s.daemon()
			s.until(time.Hour, func() bool { s.succeed(); return s.Calls() > 400 })
			noticed = slices.ContainsFunc(s.Violations(), func(v string) bool { return strings.Contains(v, startsEmpty) || strings.Contains(v, couldStart) })
		})
		if noticed {
			t.Logf("noticed by schedule %d", seed)
			return
		}
	}
	t.Error("not noticed")
}
