package op_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// apart is an etcd in which one member says, a number of times, that another one leads; it serves all the same. voting: in another term
// each time.
type apart struct {
	cke.Etcd
	url    string
	times  *int
	voting bool
}

func (e apart) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	s := e.Etcd.Endpoint(ctx, url)
	if url == e.url && *e.times > 0 {
		*e.times--
		s.LeaderID = s.MemberID
		if e.voting {
			s.RaftTerm += uint64(*e.times)
		}
	}
	return s
}

// What only an election between two answers showed freezes nobody.
func TestFreeze_AsksTwoQuorumsAgain(t *testing.T) {
	for _, c := range []struct {
		times  int
		voting bool
		want   bool
	}{{1, false, false}, {2, false, false}, {100, true, false}, {100, false, true}} {
		inWorld(t, 3, func(w *world) {
			w.mustRun(w.bootstrap(false))
			id := w.Store().Identity()
			var follower cke.Join
			for _, j := range id.Joins {
				if s := w.daemon.Etcd().Endpoint(w.daemon.Context(), j.ClientURL()); s.LeaderID != s.MemberID {
					follower = j
				}
			}
			times := c.times
			_, err := w.runIn(func(e op.Env) op.Env {
				e.Etcd = apart{e.Etcd, follower.ClientURL(), &times, c.voting}
				return e
			}, op.Freeze{Kind: cke.FreezeTwoQuorums, Finding: "two", Problem: cke.Problem{Code: cke.CodeSplitBrain}})
			if err != nil || w.Store().Identity().Freeze.Active() != c.want {
				t.Errorf("told %d times: %v %+v", c.times, err, w.Store().Identity().Freeze)
			}
		})
	}
}

// Three serve, but not as one: n2 may be the other cluster's.
func TestRemoveMember_CountsOnlyWhoIsOfOneQuorum(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		all, times := w.joins(), 100
		_, err := w.runIn(func(e op.Env) op.Env {
			e.Etcd = apart{e.Etcd, all[1].ClientURL(), &times, false}
			return e
		}, op.RemoveMember{Member: w.members()[2], Join: &all[2]})
		if cke.CodeOf(err) != cke.CodeQuorum || len(w.joins()) != 3 {
			t.Errorf("%v, %d memberships", err, len(w.joins()))
		}
	})
}

// A person replaces the wrong one of two clusters, which serves: that it does is no obstacle.
func TestRemoveMember_OneThatServesOn(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		j := w.joins()[2]
		_, err := w.runIn(func(e op.Env) op.Env {
			e.Etcd = servesOn{e.Etcd, j.ClientURL(), e.Etcd.Endpoint(w.daemon.Context(), j.ClientURL())}
			return e
		}, op.RemoveMember{Member: w.members()[2], Join: &j})
		if err != nil || len(w.joins()) != 2 {
			t.Errorf("%v, %d memberships", err, len(w.joins()))
		}
	})
}

// servesOn is an etcd in which one member goes on answering what it answered.
type servesOn struct {
	cke.Etcd
	url    string
	answer cke.EndpointStatus
}

func (e servesOn) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	if url == e.url {
		return e.answer
	}
	return e.Etcd.Endpoint(ctx, url)
}

// oneSided is an etcd whose list has a part of the members. The answer of one of the others is lost; empty: of none.
type oneSided struct {
	cke.Etcd
	lists func(cke.Member) bool
	mute  string
}

func (e oneSided) Members(ctx context.Context, url string) (string, []cke.Member, error) {
	id, all, err := e.Etcd.Members(ctx, url)
	return id, slices.DeleteFunc(slices.Clone(all), func(m cke.Member) bool { return !e.lists(m) }), err
}

func (e oneSided) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	if url == e.mute {
		return cke.EndpointStatus{URL: url, Problem: "no answer within 1s"}
	}
	return e.Etcd.Endpoint(ctx, url)
}

// The list is that of another cluster of the same id: a membership does not end while its member serves.
func TestEndMembership_NotWhileTheMemberServes(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		j := w.joins()[2]
		_, err := w.runIn(func(e op.Env) op.Env {
			e.Etcd = oneSided{e.Etcd, func(m cke.Member) bool { return m.ID != j.MemberID }, ""}
			return e
		}, op.EndMembership{Join: j})
		if cke.CodeOf(err) != cke.CodeSplitBrain || !errors.Is(err, cke.ErrConflict) || len(w.joins()) != 3 || w.calls("StopContainer") > 0 {
			t.Errorf("%v, %d memberships", err, len(w.joins()))
		}
	})
}

// The list is that of n1 alone. n3 serves, with n2, whose answer to us is lost: n2 is not ended, nor stopped.
func TestEndMembership_NotWhileAnotherUnlistedMemberServes(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		all := w.joins()
		_, err := w.runIn(func(e op.Env) op.Env {
			e.Etcd = oneSided{e.Etcd, func(m cke.Member) bool { return m.ID == all[0].MemberID }, all[1].ClientURL()}
			return e
		}, op.EndMembership{Join: all[1]})
		if err == nil || len(w.joins()) != 3 || w.calls("StopContainer") > 0 {
			t.Errorf("%v, %d memberships, %d stops", err, len(w.joins()), w.calls("StopContainer"))
		}
	})
}

// undecided is an etcd in which members answer that they have no leader.
type undecided struct {
	cke.Etcd
	urls []string
}

func (e undecided) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	s := e.Etcd.Endpoint(ctx, url)
	if slices.Contains(e.urls, url) {
		s.Linearizable, s.LeaderID = false, ""
	}
	return s
}

// A store that is older than the cluster has no start of voters on record. They count all the same: that n4, which left, still answers is no
// reason to keep its membership.
func TestMayElect_CountsListedVotersWithoutAStartOnRecord(t *testing.T) {
	var id cke.Identity
	var list []cke.Member
	for _, n := range []string{"1", "2", "3", "4"} {
		j := cke.Join{ID: cke.JoinID("j" + n), MemberID: "m" + n, Node: cke.Node{Address: "10.0.0.1" + n}}
		id.Joins, list = append(id.Joins, j), append(list, cke.Member{ID: j.MemberID, Name: "n" + n, PeerURLs: []string{j.PeerURL()}})
	}
	reply := func(j cke.Join) cke.EndpointStatus {
		return map[cke.JoinID]cke.EndpointStatus{"j3": {MemberID: "m3"}, "j4": {MemberID: "m4"}}[j.ID]
	}
	runs := func(cke.Join) bool { return false }
	if able := op.MayElect(list[:3], id, reply, runs); able != nil {
		t.Errorf("one of four: %v", able)
	}
	if able := op.MayElect(list[:1], id, reply, runs); len(able) != 2 {
		t.Errorf("two of three: %v", able)
	}
}

// The list is that of n3 alone. n1 and n2 are to be replaced, and may elect a leader at any moment: without the time for it none ends.
func TestEndMembership_NotWhileOthersMayElectALeader(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		all := w.joins()
		both := []cke.JoinID{all[0].ID, all[1].ID}
		for _, had := range [][]cke.JoinID{nil, both[:1], both} {
			_, err := w.runIn(func(e op.Env) op.Env {
				lists := func(m cke.Member) bool { return m.ID == all[2].MemberID }
				e.Etcd = undecided{oneSided{e.Etcd, lists, ""}, []string{all[0].ClientURL(), all[1].ClientURL()}}
				return e
			}, op.EndMembership{Join: all[0], Agreed: both, Leaderless: had})
			ends := len(had) == len(both)
			if ends != (err == nil) || !ends && (cke.CodeOf(err) != cke.CodeSplitBrain || !errors.Is(err, cke.ErrConflict)) || ends != (len(w.joins()) == 2) {
				t.Errorf("%v: %v, %d memberships", had, err, len(w.joins()))
			}
		}
	})
}

// A person names the wrong one of two clusters, running or stopped: it is put aside.
func TestUnfreeze_PutsAsideWhoServedApart(t *testing.T) {
	for _, c := range []struct {
		name    string
		stopped []int
		still   bool // the member apart answers as it did
		named   bool
		refused bool
		kind    cke.FreezeKind
		gone    bool // the container is removed
	}{
		{name: "the wrong one is stopped", stopped: []int{2}, named: true},
		{name: "stopped, and not named", stopped: []int{2}, refused: true},
		{name: "both serve on", still: true, refused: true},
		{name: "both serve on, and one is named", still: true, named: true},
		{name: "it was a mistake, and all serve as one"},
		{name: "all serve as one, and one of them is named", named: true, refused: true},
		{name: "nobody serves", stopped: []int{0, 1, 2}, refused: true},
		{name: "one that went back is stopped", kind: cke.FreezeWentBack, stopped: []int{2}, named: true},
		{name: "one that went back is stopped, and not named", kind: cke.FreezeWentBack, stopped: []int{2}, refused: true},
		{name: "one that went back serves apart", kind: cke.FreezeWentBack, still: true, named: true},
		{name: "one that went back serves with the others", kind: cke.FreezeWentBack},
		{name: "its container is removed", kind: cke.FreezeWentBack, stopped: []int{2}, gone: true, named: true},
		{name: "nobody serves after one went back", kind: cke.FreezeWentBack, stopped: []int{0, 1, 2}, refused: true},
	} {
		inWorld(t, 3, func(w *world) {
			w.mustRun(w.bootstrap(false))
			all, times := w.joins(), 1000
			w.lead(all[0].MemberID)
			wrong := func(e op.Env) op.Env {
				e.Etcd = apart{e.Etcd, all[2].ClientURL(), &times, false}
				return e
			}
			var seen cke.EtcdStatus
			for _, j := range all {
				s := w.daemon.Etcd().Endpoint(w.daemon.Context(), j.ClientURL())
				if s.Join = j.ID; j.ID == all[2].ID {
					s.LeaderID = s.MemberID
				}
				seen.Endpoints = append(seen.Endpoints, s)
			}
			if _, err := w.runIn(wrong, op.Freeze{Kind: cmp.Or(c.kind, cke.FreezeTwoQuorums), Finding: "two", Seen: seen, Problem: cke.Problem{Code: cke.CodeSplitBrain, Node: all[2].Node.Name()}}); err != nil {
				t.Fatal(err)
			}
			for _, i := range c.stopped {
				w.Nodes()[i].StopByHand()
			}
			if c.gone {
				w.Nodes()[2].RemoveContainers()
			}
			if !c.still {
				times = 0
			}
			var names []string
			if c.named {
				names = []string{"n3"}
			}
			err := w.lift(wrong, names...)
			j := w.joins()[2]
			if (err != nil) != c.refused || w.Store().Identity().Freeze.Active() != c.refused || j.Apart != (c.named && !c.refused) {
				t.Fatalf("%s: %v, put aside: %v", c.name, err, j.Apart)
			}
			if !j.Apart || c.gone {
				return
			}
			if _, err := w.run(op.StartMembers{Joins: []cke.Join{j}}); cke.CodeOf(err) != cke.CodeSplitBrain {
				t.Errorf("it is started: %v", err)
			}
			if _, err := w.run(op.KeepRunning{Joins: []cke.Join{j}}); cke.CodeOf(err) != cke.CodeSplitBrain {
				t.Errorf("its engine starts it: %v", err)
			}
			w.Nodes()[2].StartByHand()
			times = 1000
			if _, err := w.runIn(wrong, op.StopApart{Join: j}); err != nil || w.looked(2).Running() || !w.looked(2).KeptDown {
				t.Errorf("it serves on: %v", err)
			}
		})
	}
}

// Only who was named is stopped.
func TestStopApart_NotOneThatWasNotPutAside(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		if _, err := w.run(op.StopApart{Join: w.joins()[2]}); !errors.Is(err, cke.ErrConflict) || w.calls("StopContainer") > 0 {
			t.Error(err)
		}
	})
}

// A member that the list lacks may be one of a quorum that another leader has: it is not stopped for an operator either.
func TestDrain_StopsNoMemberByTheListOfASecondCluster(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		if !w.Node("n1").ContinueAlone() {
			t.Fatal("n1 does not continue alone")
		}
		time.Sleep(time.Second)
		j := w.joins()[2]
		if _, err := w.run(op.DrainNode{Node: j.Node, Join: &j, For: time.Hour, Accepted: true}); cke.CodeOf(err) != cke.CodeSplitBrain {
			t.Error(err)
		}
		if !w.Write("n2", "more") || w.Violations() != nil {
			t.Errorf("the others take no write: %q", w.Violations())
		}
	})
}
