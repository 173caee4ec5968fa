package op_test

import (
	"errors"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// forget lets the store be as if it had been copied while a member was added: without the start, and perhaps without the member id.
func (w *world) forget(j cke.Join, id bool) cke.Join {
	w.t.Helper()
	if j.StartedAt = (time.Time{}); id {
		j.MemberID = ""
	}
	if err := w.daemon.Term().PutJoins(w.daemon.Context(), w.Store().Identity(), j); err != nil {
		w.t.Fatal(err)
	}
	return j
}

func TestRecordStart_RecordsWhatTheStoreLacks(t *testing.T) {
	for _, id := range []bool{false, true} {
		inGrowing(t, 3, func(w *world, last cke.Node) {
			w.mustRun(w.add(last))
			was := w.joinOn(last)
			lacks := w.forget(was, id)
			lacks.StartedAt = time.Now()
			w.mustRun(op.RecordStart{Join: lacks})
			if j := w.joinOn(last); j.StartedAt.IsZero() || j.MemberID != was.MemberID {
				t.Errorf("a learner: %+v", j)
			}
			w.mustRun(op.PromoteMember{Join: was})
			lacks = w.forget(was, id)
			lacks.NeverVoted, lacks.Repair = true, true
			lacks = w.forget(lacks, id)
			lacks.StartedAt = time.Now()
			w.mustRun(op.RecordStart{Join: lacks})
			if j := w.joinOn(last); j.StartedAt.IsZero() || j.MemberID != was.MemberID || j.NeverVoted || j.Repair {
				t.Errorf("a voter: %+v", j)
			}
			if id { // what runs there may be another one
				w.forget(was, id)
				w.Node("n4").StopByHand()
				if _, err := w.run(op.RecordStart{Join: lacks}); !errors.Is(err, cke.ErrConflict) {
					t.Error(err)
				}
			}
		})
	}
}

// The store is from before the member's id was recorded, and other ports were declared since: it answers, and the list has it elsewhere.
func TestRecordStart_OfAMemberThatTheListHasElsewhere(t *testing.T) {
	inGrowing(t, 3, func(w *world, last cke.Node) {
		w.mustRun(w.add(last))
		was := w.joinOn(last)
		w.mustRun(op.PromoteMember{Join: was})
		lacks := w.forget(was, true)
		lacks.StartedAt = time.Now()
		if err := w.daemon.Etcd().UpdateMember(w.daemon.Context(), w.joins()[0].ClientURL(), was.MemberID, "https://"+was.Node.Address+":3380"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.run(op.EndMembership{Join: lacks}); !errors.Is(err, cke.ErrConflict) || w.joinOn(last).ID != was.ID {
			t.Errorf("a voter that serves is ended: %v", err)
		}
		w.mustRun(op.RecordStart{Join: lacks})
		if j := w.joinOn(last); j.StartedAt.IsZero() || j.MemberID != was.MemberID {
			t.Errorf("%+v", j)
		}
	})
}

// Without a quorum nothing but its container shows that a learner was started, and that may go any moment.
func TestRecordStart_WithoutAQuorum(t *testing.T) {
	inGrowing(t, 3, func(w *world, last cke.Node) {
		w.mustRun(w.add(last))
		lacks := w.forget(w.joinOn(last), false)
		w.Node("n1").StopByHand()
		w.Node("n2").StopByHand()
		lacks.StartedAt = time.Now()
		w.mustRun(op.RecordStart{Join: lacks})
		if w.joinOn(last).StartedAt.IsZero() {
			t.Error("its start is not on record")
		}
	})
}

// Nobody else may be left that has a member list.
func TestRecordStart_OfTheOnlyMember(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.mustRun(w.bootstrap(false))
		was := w.joins()[0]
		lacks := w.forget(was, true)
		lacks.StartedAt = was.StartedAt
		w.mustRun(op.RecordStart{Join: lacks})
		if j := w.joins()[0]; j.MemberID != was.MemberID || !j.StartedAt.Equal(was.StartedAt) {
			t.Errorf("%+v", j)
		}
	})
}

// promotedAndUndeclared adds a voter on the fourth node, and takes that out of the file.
func (w *world) promotedAndUndeclared(last cke.Node) {
	w.mustRun(w.add(last))
	w.mustRun(op.PromoteMember{Join: w.joinOn(last)})
	c := w.cluster()
	c.Nodes = c.Nodes[:3]
	w.Store().SetSpec(c)
}

// A voter whose start is not on record leaves the volume of a voter, also where the daemon dies before its end is on record.
func TestRemoveMember_KeepsTheVolumeOfAVoterWithoutAStartOnRecord(t *testing.T) {
	for _, step := range []string{"", "record-end"} {
		inGrowing(t, 3, func(w *world, last cke.Node) {
			w.promotedAndUndeclared(last)
			j := w.forget(w.joinOn(last), false)
			o := op.RemoveMember{Member: w.members()[3], Join: &j, Volumes: cke.VolumePolicies{OnRemoval: cke.VolumeRetain}}
			if step != "" {
				w.runUntil(o, step)
				w.mustRun(op.EndMembership{Join: j, Volumes: o.Volumes})
			} else {
				w.mustRun(o)
			}
			if ended := w.Store().Identity().Ended; len(ended) != 1 || ended[0].NeverVoted || !ended[0].KeepUntil.IsZero() {
				t.Errorf("%+v", ended)
			}
		})
	}
}

// A voter has left, and its volume is archived. A store from before its start has it as one that is being added: it is not added again
// under the id of its membership, and its volume is not that of a learner.
func TestEndMembership_KeepsTheArchiveOfAVoterWithoutAStartOnRecord(t *testing.T) {
	inGrowing(t, 3, func(w *world, last cke.Node) {
		w.promotedAndUndeclared(last)
		j, retain := w.joinOn(last), cke.VolumePolicies{OnRemoval: cke.VolumeRetain}
		w.mustRun(op.RemoveMember{Member: w.members()[3], Join: &j, Volumes: retain})
		id := w.Store().Identity()
		j.StartedAt = time.Time{}
		id.Joins, id.Ended = append(id.Joins, j), nil
		w.Store().BringBack(w.Store().Copy().With(id))
		if _, err := w.run(w.resume(last)); !errors.Is(err, cke.ErrConflict) || len(w.members()) != 3 {
			t.Errorf("added again: %v, %+v", err, w.members())
		}
		w.mustRun(op.EndMembership{Join: j, Volumes: retain})
		if ended := w.Store().Identity().Ended; len(ended) != 1 || ended[0].NeverVoted || !ended[0].KeepUntil.IsZero() || !w.Node(last.Name()).Holds(j.Volume) {
			t.Errorf("%+v", ended)
		}
	})
}
