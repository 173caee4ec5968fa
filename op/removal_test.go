package op_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"cke"
	"cke/op"
)

// etcd lists a foreign member only, or besides: without a membership on record cke would ask no member for the list any more.
func TestRemoval_TheOnlyMembershipOnRecordStays(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.mustRun(w.bootstrap(false))
		m, j := w.members()[0], w.joins()[0]
		if _, err := w.run(op.RemoveMember{Member: m, Join: &j}); cke.CodeOf(err) != cke.CodeStranger {
			t.Error(err)
		}
		_, err := w.runIn(func(e op.Env) op.Env {
			e.Etcd = oneSided{e.Etcd, func(cke.Member) bool { return false }, ""}
			return e
		}, op.EndMembership{Join: j, Agreed: []cke.JoinID{j.ID}})
		if cke.CodeOf(err) != cke.CodeStranger || len(w.joins()) != 1 {
			t.Errorf("%v, %d memberships", err, len(w.joins()))
		}
	})
}

// Nor does a second membership help that has no member, or only a learner.
func TestRemoval_TheOnlyMembershipOnRecordThatVotesStays(t *testing.T) {
	for name, second := range map[string]func(w *world, last cke.Node){
		"only on record": func(w *world, last cke.Node) { w.runUntil(w.add(last), "add-learner") },
		"a learner":      func(w *world, last cke.Node) { w.mustRun(w.add(last)) },
	} {
		inGrowing(t, 1, func(w *world, last cke.Node) {
			second(w, last)
			j := w.joinOn(w.cluster().Nodes[0])
			if _, err := w.run(op.RemoveMember{Member: w.members()[0], Join: &j}); cke.CodeOf(err) != cke.CodeStranger {
				t.Errorf("%s: %v", name, err)
			}
			_, err := w.runIn(func(e op.Env) op.Env {
				e.Etcd = oneSided{e.Etcd, func(m cke.Member) bool { return m.ID != j.MemberID }, ""}
				return e
			}, op.EndMembership{Join: j, Agreed: []cke.JoinID{j.ID}})
			if cke.CodeOf(err) != cke.CodeStranger || len(w.joins()) != 2 {
				t.Errorf("%s: %v, %d memberships", name, err, len(w.joins()))
			}
		})
	}
}

// A member that serves stays until each declared node has one that votes, whatever was seen when its removal was decided.
func TestRemoveMember_WaitsForTheDeclaredNodes(t *testing.T) {
	inGrowing(t, 3, func(w *world, last cke.Node) {
		nodes := w.cluster().Nodes
		j := w.joinOn(nodes[2])
		o := op.RemoveMember{Member: w.members()[2], Join: &j, Declared: []cke.Node{nodes[0], nodes[1], last}}
		c := w.cluster()
		c.Nodes = o.Declared
		w.Store().SetSpec(c)
		w.runUntil(w.add(last), "add-learner") // its membership is on record
		if _, err := w.run(o); cke.CodeOf(err) != cke.CodeQuorum || len(w.members()) != 3 {
			t.Errorf("%v, %d members", err, len(w.members()))
		}
		w.mustRun(w.resume(last))
		w.mustRun(op.PromoteMember{Join: w.joinOn(last)})
		w.mustRun(o)
	})
	inGrowing(t, 3, func(w *world, last cke.Node) { // what does not serve is removed
		nodes := w.cluster().Nodes
		j := w.joinOn(nodes[2])
		m := w.members()[2]
		w.runUntil(w.add(last), "add-learner")
		w.Node("n3").PowerOff()
		w.mustRun(op.RemoveMember{Member: m, Join: &j, Silent: true, Declared: []cke.Node{nodes[0], nodes[1], last}})
	})
}

// What a member is removed for is on record before it is gone: whoever goes on after a crash cannot see it any more.
func TestRemoveMember_RecordsWhatForBeforeTheEffect(t *testing.T) {
	for _, step := range []string{"record-end", "stop"} {
		inWorld(t, 3, func(w *world) {
			w.mustRun(w.bootstrap(false))
			m, j := w.members(), w.joins()
			w.runUntil(op.RemoveMember{Member: m[2], Join: &j[2], Repair: true}, step)
			if step == "record-end" {
				w.mustRun(op.EndMembership{Join: j[2]}) // what the next daemon does
			}
			if ended := w.Store().Identity().Ended; len(ended) != 1 || !ended[0].Repair {
				t.Errorf("cut at %s: %+v", step, ended)
			}
		})
	}
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		m, j := w.members(), w.joins()
		w.Node("n2").PowerOff()
		if _, err := w.run(op.RemoveMember{Member: m[2], Join: &j[2], Repair: true}); cke.CodeOf(err) != cke.CodeQuorum {
			t.Error(err)
		}
		if w.joins()[2].Repair {
			t.Error("it was not removed, and is on record as if it had been, for a repair")
		}
		w.Node("n2").PowerOn()
		w.mustRun(op.RemoveMember{Member: m[2], Join: &j[2]}) // later, because a person wants it
		if ended := w.Store().Identity().Ended; len(ended) != 1 || ended[0].Repair {
			t.Errorf("%+v", ended)
		}
	})
}

// Requirements C7, C8: quorum arithmetic right before the effect.
func TestRemoveMember_AsksForTheArithmeticAgain(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		m, j := w.members(), w.joins()
		o := op.RemoveMember{Member: m[2], Join: &j[2]}
		w.Node("n2").PowerOff() // after it was decided
		if _, err := w.run(o); cke.CodeOf(err) != cke.CodeQuorum {
			t.Error(err)
		}
		if len(w.members()) != 3 || len(w.joins()) != 3 {
			t.Error("removed")
		}
		w.Node("n2").PowerOn()
	})
}

// A member that was ill when this was decided may serve again. Then it is one more that is taken away.
func TestRemoveMember_DoesNotTakeWhoServesAgainBesideAnotherLoss(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		w.mustRun(w.bootstrap(false))
		m, j := w.members(), w.joins()
		o := op.RemoveMember{Member: m[4], Join: &j[4], Silent: true}
		w.Node("n2").PowerOff()
		if _, err := w.run(o); cke.CodeOf(err) != cke.CodeQuorum {
			t.Error(err)
		}
		if len(w.members()) != 5 {
			t.Error("removed")
		}
		w.Node("n5").PowerOff() // an ill one is removed: that costs nothing
		w.mustRun(o)
		w.Node("n2").PowerOn()
	})
	inGrowing(t, 3, func(w *world, last cke.Node) {
		w.mustRun(w.add(last)) // a learner: a change is under way
		m, j := w.members(), w.joins()
		if _, err := w.run(op.RemoveMember{Member: m[2], Join: &j[2], Silent: true}); cke.CodeOf(err) != cke.CodeQuorum {
			t.Error(err)
		}
	})
}

// Requirements A9, A14, I6, I19, N12, C12: member removed, then stopped; its storage is kept.
func TestRemoveMember_EndsTheMembershipAndKeepsTheVolume(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		m, j := w.members(), w.joins()
		o := op.RemoveMember{Member: m[0], Join: &j[0]}
		w.mustRun(o)
		if id := w.Store().Identity(); len(id.Joins) != 2 || len(id.Ended) != 1 || id.Ended[0].EndedAt.IsZero() || id.Ended[0].Repair {
			t.Errorf("%+v", id)
		}
		if removed, stopped := w.happened("etcd.RemoveMember"), w.happened("StopContainer on n1"); removed > stopped || stopped > w.happened("RemoveContainer on n1") {
			t.Error("it is to be removed, then stopped")
		}
		if c, v := w.Node("n1").Look(); len(v) != 1 || len(c) != 0 { // nothing is left that could be started
			t.Errorf("%v %v", c, v)
		}
		if !w.Write("n2", "more") {
			t.Error("the others take no write")
		}
	})
}

// Requirements A14, C12, I19: whoever leads hands the leadership over first, then its member leaves the list, then it stops.
func TestRemoveMember_MovesTheLeadershipAwayFirst(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		m, j := w.members(), w.joins()
		w.lead(m[1].ID)
		w.mustRun(op.RemoveMember{Member: m[1], Join: &j[1]})
		moved, removed, stopped := w.happened("moved from n2"), w.happened("etcd.RemoveMember"), w.happened("StopContainer on n2")
		if moved > removed || removed > stopped {
			t.Errorf("moved at %d, removed at %d, stopped at %d", moved, removed, stopped)
		}
	})
}

// What a replaced incarnation left is kept, with its container, where it holds data; one that holds none could join as
// whoever is added at its address. What is not on record is not touched.
func TestStopStray_RemovesWhatCouldStartWithoutData(t *testing.T) {
	for _, empty := range []bool{false, true} {
		inWorld(t, 1, func(w *world) {
			w.mustRun(w.bootstrap(false))
			former := w.joins()[0]
			former.ID, former.Incarnation, former.Volume, former.ClientPort, former.PeerPort = "former", "before", "etcd-cke.former", 12379, 12380
			m := w.daemon.Machines().Machine(former.Node)
			spec := cke.MemberSpec{Cluster: "demo", Join: former, Mode: cke.StartPrepared, Token: "another", Peers: []cke.Peer{{Name: former.Member, URL: former.PeerURL()}}}
			ctx := w.daemon.Context()
			files, err := w.daemon.Authority().MemberFiles(ctx, former, cke.Authorities{})
			if err := errors.Join(err, m.EnsureVolume(ctx, spec), m.EnsureContainer(ctx, spec)); err != nil {
				t.Fatal(err)
			}
			if !empty {
				if err := errors.Join(m.PutFounder(ctx, spec, files), m.StartContainer(ctx, former)); err != nil {
					t.Fatal(err)
				}
			}
			before, _ := w.Node("n1").Look()
			if _, err := w.run(op.StopStray{Join: former}); cke.CodeOf(err) != cke.CodeNotOnRecord {
				t.Errorf("not on record: %v", err)
			}
			if after, _ := w.Node("n1").Look(); !reflect.DeepEqual(before, after) {
				t.Errorf("what is not on record was changed: %+v, was %+v", after, before)
			}
			id := w.Store().Identity()
			id.Incarnation.Replaced = []string{"before"}
			w.Store().BringBack(w.Store().Copy().With(id))
			w.mustRun(op.StopStray{Join: former})
			containers, volumes := w.Node("n1").Look()
			want := 2
			if empty {
				want = 1
			}
			if len(containers) != want || len(volumes) != 2 {
				t.Errorf("empty %v: %+v\n%+v", empty, containers, volumes)
			}
		})
	}
}

// late lets a promotion that was given up land right before a removal, after everything was read for the last time.
type late struct {
	cke.Etcd
	land func()
}

func (l *late) Promote(ctx context.Context, url, member string) error {
	l.land = func() { _ = l.Etcd.Promote(context.WithoutCancel(ctx), url, member) }
	return errors.New("no answer")
}

func (l *late) RemoveMember(ctx context.Context, url, member string) error {
	l.land()
	return l.Etcd.RemoveMember(ctx, url, member)
}

// A learner whose promotion was requested may vote until it has left the list: a write may be on its disk and on no other but one.
func TestRemoveMember_KeepsTheVolumeOfALearnerThatMayHaveVoted(t *testing.T) {
	inGrowing(t, 2, func(w *world, last cke.Node) {
		w.mustRun(w.add(last))
		l := &late{Etcd: w.daemon.Etcd()}
		lands := func(e op.Env) op.Env { e.Etcd = l; return e }
		if _, err := w.runIn(lands, op.PromoteMember{Join: w.joinOn(last)}); err == nil {
			t.Fatal("promoted")
		}
		c := w.cluster()
		c.Nodes = c.Nodes[:2]
		w.Store().SetSpec(c)
		m, j := w.members(), w.joinOn(last)
		if _, err := w.runIn(lands, op.RemoveMember{Member: m[2], Join: &j, Volumes: cke.VolumePolicies{OnRemoval: cke.VolumeRetain}}); err != nil {
			t.Fatal(err)
		}
		ended := w.Store().Identity().Ended
		if len(ended) != 1 || !ended[0].NeverVoted || !ended[0].KeepUntil.IsZero() {
			t.Fatalf("on record: %+v", ended)
		}
		if _, err := w.run(op.PurgeVolume{Join: ended[0]}); cke.CodeOf(err) != cke.CodeVolume || !w.Node(last.Name()).Holds(j.Volume) {
			t.Errorf("its volume is removed: %v", err)
		}
	})
}
