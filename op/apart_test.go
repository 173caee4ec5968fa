package op_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"cke"
	"cke/op"
)

// split is an etcd in which some members serve as a cluster of their own: under another leader, or under another cluster id.
type split struct {
	cke.Etcd
	urls   []string
	leader string
	id     string // empty: that of the others
	mute   []string
}

func (e split) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	if slices.Contains(e.mute, url) {
		return cke.EndpointStatus{URL: url, Problem: "no answer within 1s"}
	}
	s := e.Etcd.Endpoint(ctx, url)
	if !slices.Contains(e.urls, url) || s.Problem != "" {
		return s
	}
	s.LeaderID, s.RaftTerm, s.Linearizable, s.Serializable = e.leader, s.RaftTerm+7, true, true
	if e.id != "" {
		s.ClusterID = e.id
	}
	return s
}

func (e split) Members(ctx context.Context, url string) (string, []cke.Member, error) {
	if slices.Contains(e.mute, url) {
		return "", nil, context.DeadlineExceeded
	}
	return e.Etcd.Members(ctx, url)
}

// apartFrom lets the members from one on serve without those before it, freezes the cluster for that while some do not answer, and returns
// the environment in which that is so, but for members that do not answer.
func apartFrom(w *world, kind cke.FreezeKind, first int, unseen ...int) func(mute ...int) func(op.Env) op.Env {
	all := w.joins()
	w.lead(all[0].MemberID)
	in := func(mute ...int) func(op.Env) op.Env {
		return func(e op.Env) op.Env {
			s := split{Etcd: e.Etcd, leader: all[len(all)-1].MemberID}
			for _, j := range all[first:] {
				s.urls = append(s.urls, j.ClientURL())
			}
			for _, i := range mute {
				s.mute = append(s.mute, all[i].ClientURL())
			}
			if kind == cke.FreezeClusterID {
				s.id = "c2"
			}
			e.Etcd = s
			return e
		}
	}
	var seen cke.EtcdStatus
	for _, j := range all {
		s := in(unseen...)(op.Env{Etcd: w.daemon.Etcd()}).Etcd.Endpoint(w.daemon.Context(), j.ClientURL())
		s.Join = j.ID
		seen.Endpoints = append(seen.Endpoints, s)
	}
	f := op.Freeze{Kind: kind, Finding: string(kind), Seen: seen, Problem: cke.Problem{Code: cke.CodeSplitBrain, Node: all[first].Node.Name()}}
	if _, err := w.runIn(in(unseen...), f); err != nil {
		w.t.Fatal(err)
	}
	return in
}

func (w *world) lift(in func(op.Env) op.Env, wrong ...string) error {
	_, err := w.runIn(in, op.Unfreeze{ID: w.Store().Identity().Freeze.ID, Wrong: wrong})
	return err
}

// refused checks that a freeze is not lifted, and nobody is put aside.
func (w *world) refused(err error) {
	w.t.Helper()
	apart := slices.ContainsFunc(w.joins(), func(j cke.Join) bool { return j.Apart })
	if cke.CodeOf(err) != cke.CodeSplitBrain || !w.Store().Identity().Freeze.Active() || apart {
		w.t.Errorf("not refused: %v, put aside: %v", err, apart)
	}
}

// putAside lets an operator name members as wrong.
func (w *world) putAside(in func(...int) func(op.Env) op.Env, members ...int) {
	w.t.Helper()
	var wrong []string
	for _, i := range members {
		wrong = append(wrong, w.joins()[i].Node.Name())
	}
	if err := w.lift(in(), wrong...); err != nil {
		w.t.Fatal(err)
	}
}

// The power of two that were put aside returns. They serve together: that is no reason to let them.
func TestStopApart_TwoThatServeTogether(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		w.mustRun(w.bootstrap(false))
		in := apartFrom(w, cke.FreezeTwoQuorums, 3)
		w.putAside(in, 3, 4)
		for _, i := range []int{3, 4} {
			if _, err := w.runIn(in(), op.StopApart{Join: w.joins()[i]}); err != nil || w.looked(i).Running() || !w.looked(i).KeptDown {
				t.Errorf("n%d: %v", i+1, err)
			}
		}
	})
}

// Their list is read by nobody, and ends no membership of the others, which have lost their quorum.
func TestEndMembership_NotByTheListOfWhoWasPutAside(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		w.mustRun(w.bootstrap(false))
		in := apartFrom(w, cke.FreezeTwoQuorums, 3)
		w.putAside(in, 3, 4)
		all := w.joins()
		_, err := w.runIn(func(e op.Env) op.Env {
			e = in(0, 1, 2)(e)
			e.Etcd = oneSided{e.Etcd, func(m cke.Member) bool { return m.ID != all[0].MemberID && m.ID != all[1].MemberID }, all[0].ClientURL()}
			return e
		}, op.EndMembership{Join: all[0], Silent: true})
		if err == nil || len(w.joins()) != 5 {
			t.Errorf("%v, %d memberships", err, len(w.joins()))
		}
	})
}

// blind answers nothing about the engines of some nodes.
type blind struct {
	cke.Machines
	nodes []string
}

func (b blind) Machine(n cke.Node) cke.Machine {
	if slices.Contains(b.nodes, n.Name()) {
		return blindMachine{b.Machines.Machine(n)}
	}
	return b.Machines.Machine(n)
}

type blindMachine struct{ cke.Machine }

func (blindMachine) Container(context.Context, cke.Join) (cke.Container, error) {
	return cke.Container{}, errors.New("ssh: no answer")
}

// aside lets n3 of three be put aside, and serve with the others again.
func aside(w *world) cke.Join {
	w.mustRun(w.bootstrap(false))
	all := w.joins()
	w.lead(all[0].MemberID)
	j := all[2]
	j.Apart = true
	if err := w.daemon.Term().PutJoins(w.daemon.Context(), w.Store().Identity(), j); err != nil {
		w.t.Fatal(err)
	}
	return j
}

// n3 was put aside, and serves with n1 again, and leads it; n2 is down. That it serves with others does not show that it has their data.
func TestStopApart_WhoeverItServesWith(t *testing.T) {
	for name, spoil := range map[string]func(op.Env) op.Env{
		"all answer":     func(e op.Env) op.Env { return e },
		"in an election": func(e op.Env) op.Env { e.Etcd = leaderless{e.Etcd}; return e },
	} {
		inWorld(t, 3, func(w *world) {
			j := aside(w)
			w.lead(j.MemberID)
			w.Nodes()[1].PowerOff()
			if _, err := w.runIn(spoil, op.StopApart{Join: j}); err != nil || w.looked(2).Running() || !w.looked(2).KeptDown {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

type leaderless struct{ cke.Etcd }

func (e leaderless) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	s := e.Etcd.Endpoint(ctx, url)
	s.LeaderID, s.Linearizable = "", false
	return s
}

// A freeze is not lifted while n3 answers as one of another cluster. Once it is put aside it can be replaced, also while it runs again and
// The right disk is back before the freeze is lifted: n3 is restarted as any member is.
func TestRestart_OneThatIsOfThisClusterAgain(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		apartFrom(w, cke.FreezeClusterID, 2)
		if err := w.lift(func(e op.Env) op.Env { return e }); err != nil {
			t.Fatal(err)
		}
		j := w.joins()[2]
		changed := j.Etcd
		changed.ExtraArgs = []string{"--max-txn-ops=256"}
		if _, err := w.run(op.RestartMember{Join: j, Etcd: changed}); err != nil || !w.looked(2).Running() {
			t.Errorf("%v", err)
		}
	})
}

// keepsLeading is an etcd in which one member hands its leadership over to no member that it does not know.
type keepsLeading struct {
	cke.Etcd
	url string
}

func (e keepsLeading) MoveLeader(ctx context.Context, url, id string) error {
	if url == e.url {
		return errors.New("etcdserver: bad leader transferee")
	}
	return e.Etcd.MoveLeader(ctx, url, id)
}

// A new member asks all members of the list for its id, and may believe one that was put aside and runs.
func TestAddMember_NotBesideOneThatWasPutAsideAndRuns(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		w.mustRun(w.bootstrap(false))
		in := apartFrom(w, cke.FreezeTwoQuorums, 4)
		w.putAside(in, 4)
		all := w.joins()
		w.Nodes()[3].PowerOff()
		if _, err := w.runIn(in(), op.RemoveMember{Member: cke.Member{ID: all[3].MemberID, Name: all[3].Member}, Join: &all[3], Silent: true}); err != nil {
			t.Fatal(err)
		}
		w.Nodes()[3].PowerOn()
		if _, err := w.runIn(in(), op.AddMember{Node: all[3].Node, Etcd: w.cluster().Options.Etcd}); cke.CodeOf(err) != cke.CodeSplitBrain {
			t.Errorf("%v", err)
		}
	})
}
