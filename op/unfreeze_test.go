package op_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"cke"
	"cke/op"
)

// A member of another cluster id that was named is started by nobody, and stopped.
func TestUnfreeze_PutsAsideWhoHadAnotherClusterID(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		inWorld(t, 3, func(w *world) {
			w.mustRun(w.bootstrap(false))
			in := apartFrom(w, cke.FreezeClusterID, 2)
			if stopped {
				w.Nodes()[2].StopByHand()
				w.refused(w.lift(in()))
			}
			w.putAside(in, 2)
			j := w.joins()[2]
			if !j.Apart {
				t.Error("it is not put aside")
			}
			if _, err := w.runIn(in(), op.StartMembers{Joins: []cke.Join{j}}); cke.CodeOf(err) != cke.CodeSplitBrain {
				t.Errorf("it is started: %v", err)
			}
			w.Nodes()[2].StartByHand()
			if _, err := w.runIn(in(), op.StopApart{Join: j}); err != nil || w.looked(2).Running() {
				t.Errorf("it serves on: %v", err)
			}
		})
	}
}

// n1 and n2 run, and do not answer the management host. n3 is not stopped while nobody else is seen to serve.
func TestUnfreeze_NotWhileOnlyAWrongMemberServes(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		in := apartFrom(w, cke.FreezeTwoQuorums, 2)
		w.refused(w.lift(in(0, 1)))
		w.refused(w.lift(in(0, 1), "n3"))
	})
}

// Who is named, and who is not, has to be a side each.
func TestUnfreeze_NotIfSomeOfOneSideAreNamed(t *testing.T) {
	for name, wrong := range map[string][]string{
		"nobody":               nil,
		"one of each":          {"n1", "n4"},
		"one of the wrong":     {"n4"},
		"one of the right":     {"n1"},
		"a right and both":     {"n1", "n4", "n5"},
		"all":                  {"n1", "n2", "n3", "n4", "n5"},
		"one, and one unknown": {"n4", "n9"},
	} {
		inWorld(t, 5, func(w *world) {
			w.mustRun(w.bootstrap(false))
			in := apartFrom(w, cke.FreezeTwoQuorums, 3)
			if err := w.lift(in(), wrong...); err == nil || !w.Store().Identity().Freeze.Active() || w.joins()[0].Apart || w.joins()[3].Apart {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	for name, wrong := range map[string][]string{"the smaller": {"n4", "n5"}, "the larger": {"n1", "n2", "n3"}} {
		inWorld(t, 5, func(w *world) {
			w.mustRun(w.bootstrap(false))
			if err := w.lift(apartFrom(w, cke.FreezeTwoQuorums, 3)(), wrong...); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, j := range w.joins() {
				if j.Apart != slices.Contains(wrong, j.Node.Name()) {
					t.Errorf("%s: %s put aside: %v", name, j.Node.Name(), j.Apart)
				}
			}
		})
	}
}

// All are stopped. What was seen of n2 says that it is not n4's; those that are left are started, as they were of one quorum.
func TestUnfreeze_WhileNobodyServes(t *testing.T) {
	for name, c := range map[string]struct {
		wrong   []string
		refused bool
	}{
		"a side":          {[]string{"n4", "n5"}, false},
		"the other":       {[]string{"n1", "n2", "n3"}, false},
		"a part":          {[]string{"n5"}, true},
		"nobody":          {nil, true},
		"all but one":     {[]string{"n2", "n3", "n4", "n5"}, true},
		"all but a mixed": {[]string{"n2", "n3", "n5"}, true},
	} {
		inWorld(t, 5, func(w *world) {
			w.mustRun(w.bootstrap(false))
			in := apartFrom(w, cke.FreezeTwoQuorums, 3)
			for _, n := range w.Nodes() {
				n.StopByHand()
			}
			if err := w.lift(in(), c.wrong...); (err != nil) != c.refused {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// n2 and n3 were put back and served as one; the finding names n2. Nobody serves.
func TestUnfreeze_NotIfSomeOfThoseThatWentBackAreNamed(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		in := apartFrom(w, cke.FreezeWentBack, 1)
		for _, n := range w.Nodes() {
			n.StopByHand()
		}
		w.refused(w.lift(in(), "n2"))
		w.putAside(in, 1, 2)
	})
}

// Members of the right side never answered, for instance because their certificates expired. The refusal says that they may be named if
// the others are a quorum without them, and does not advise to give up those that serve because a silent one has the right data as well.
func TestUnfreeze_SaysWhetherASilentMemberIsNeeded(t *testing.T) {
	for silent, offer := range map[int]string{
		3: "if the data of n1, n2, n3 is right, name it as well, whatever its data: --wrong n4. They are a quorum without it, and its volume is kept",
		2: "if its data is wrong, name it: --wrong n3. If it may be right, let it serve first: those that serve (n1, n2) may be no quorum without it",
	} {
		inWorld(t, 5, func(w *world) {
			w.mustRun(w.bootstrap(false))
			var mute, wrong = []int{}, []string{"n5"}
			for i := silent; i < 4; i++ {
				mute, wrong = append(mute, i), append(wrong, w.joins()[i].Node.Name())
			}
			in := apartFrom(w, cke.FreezeTwoQuorums, 4, mute...)
			err := w.lift(in(mute...), "n5")
			w.refused(err)
			var e *cke.Error
			if !errors.As(err, &e) || len(e.Facts) != 2 || e.Facts[0] != offer || !strings.HasPrefix(e.Facts[1], "if its data is right and theirs is wrong, name the others;") {
				t.Errorf("%v", err)
			}
			if err := w.lift(in(mute...), wrong...); err != nil {
				t.Error(err)
			}
		})
	}
}

// n2's data is lost, which had served with n1, and n3 served alone. While n2 is named as well, the lift is refused, and says how it is not.
func TestUnfreeze_AMemberWhoseDataIsLostNeedsNoName(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		in := apartFrom(w, cke.FreezeTwoQuorums, 2)
		for _, n := range w.Nodes() {
			n.StopByHand()
		}
		var e *cke.Error
		if err := w.lift(in(), "n2", "n3"); !errors.As(err, &e) || len(e.Facts) != 3 || !strings.Contains(e.Facts[1], "do not name it") {
			t.Errorf("%v", err)
		}
		if err := w.lift(in(), "n3"); err != nil {
			t.Error(err)
		}
	})
}

// After a finding of another kind nobody is put aside.
func TestUnfreeze_NamesNobodyForOtherFindings(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		w.mustRun(op.Freeze{Kind: cke.FreezeCorrupt, Finding: "corrupt", Problem: cke.Problem{Code: cke.CodeUnequalData}})
		if err := w.lift(func(e op.Env) op.Env { return e }, "n3"); cke.CodeOf(err) != cke.CodeCannot || w.joins()[2].Apart {
			t.Error(err)
		}
	})
}

// leads its own cluster.
func TestUnfreeze_NotWhileAnotherClusterAnswers(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		in := apartFrom(w, cke.FreezeClusterID, 2)
		w.refused(w.lift(in()))
		w.putAside(in, 2)
		j := w.joins()[2]
		_, err := w.runIn(func(e op.Env) op.Env {
			e = in()(e)
			e.Etcd = keepsLeading{e.Etcd, j.ClientURL()}
			return e
		}, op.RemoveMember{Member: w.members()[2], Join: &j})
		if err != nil || len(w.joins()) != 2 {
			t.Errorf("it is not replaced: %v, %d memberships", err, len(w.joins()))
		}
	})
}

// n1 and n2, and their engines, cannot be seen; n3 serves alone. They may be the right ones, unless the operator says that they are not.
func TestUnfreeze_NotWhileAQuorumCannotBeSeen(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		in := apartFrom(w, cke.FreezeTwoQuorums, 2)
		unseen := func(e op.Env) op.Env {
			e = in(0, 1)(e)
			e.Machines = blind{e.Machines, []string{"n1", "n2"}}
			return e
		}
		w.refused(w.lift(unseen))
		w.refused(w.lift(unseen, "n1"))
		err := w.lift(unseen, "n1", "n2")
		if all := w.joins(); err != nil || !all[0].Apart || !all[1].Apart || all[2].Apart {
			t.Errorf("%v, %+v", err, all)
		}
	})
}

// n1 and n2 are right. While n1 boots, n2 has no leader.
func TestUnfreeze_NotWhileARightMemberBoots(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		in := apartFrom(w, cke.FreezeTwoQuorums, 2)
		w.Nodes()[0].PowerOff()
		booting := func(e op.Env) op.Env {
			e.Etcd = leaderless{e.Etcd}
			return in()(e)
		}
		w.refused(w.lift(booting))
		w.refused(w.lift(booting, "n3"))
		w.Nodes()[2].StopByHand()
		if err := w.lift(booting, "n3"); err != nil || w.joins()[1].Apart || !w.joins()[2].Apart {
			t.Errorf("n3 is stopped: %v", err)
		}
	})
}

// All members answered as another cluster.
func TestUnfreeze_PutsNotAllMembersAside(t *testing.T) {
	for _, n := range []int{1, 3} {
		inWorld(t, n, func(w *world) {
			w.mustRun(w.bootstrap(false))
			in := apartFrom(w, cke.FreezeClusterID, 0)
			for i := range n {
				w.Nodes()[i].StopByHand()
			}
			w.refused(w.lift(in()))
			w.refused(w.lift(in(), []string{"n1", "n2", "n3"}[:n]...))
		})
	}
}

// n5 of the wrong cluster did not answer before the freeze was recorded: where it belongs was never seen.
func TestUnfreeze_NotWithOneThatWasNeverSeenToServe(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		w.mustRun(w.bootstrap(false))
		in := apartFrom(w, cke.FreezeTwoQuorums, 3)
		f := *w.Store().Identity().Freeze
		f.Etcd.Endpoints[4] = cke.EndpointStatus{Join: f.Etcd.Endpoints[4].Join, Problem: "no answer within 1s"}
		if err := w.daemon.Term().PutFreeze(w.daemon.Context(), f); err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{3, 4} {
			w.Nodes()[i].StopByHand()
		}
		w.refused(w.lift(in(), "n4"))
		w.putAside(in, 3, 4)
	})
}
