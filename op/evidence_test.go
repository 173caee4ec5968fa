package op_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// Requirement A4.
func TestCompareData_FreezesWhenMembersDiffer(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		w.Write("n1", "precious")
		w.mustRun(op.CompareData{Joins: w.joins()})
		id := w.Store().Identity()
		if c := id.Compared; c == nil || !c.Equal() || len(c.Hashes) != 3 || c.Revision == 0 || id.Freeze != nil {
			t.Fatalf("%+v %+v", id.Compared, id.Freeze)
		}
		w.Node("n2").CorruptData()
		w.mustRun(op.CompareData{Joins: w.joins()})
		id = w.Store().Identity()
		if f := id.Freeze; !f.Active() || f.Kind != cke.FreezeUnequalData || f.Compared == nil || len(f.Etcd.Endpoints) != 3 || len(f.Etcd.Members) != 3 || f.At.IsZero() {
			t.Fatalf("%+v", f)
		}
		if !strings.Contains(id.Freeze.Problem.Message, "n1 and n3 have ") || id.Compared.Equal() {
			t.Errorf("%s %+v", id.Freeze.Problem.Message, id.Compared)
		}
		if w.last("store.PutFreeze") > w.last("store.PutComparison") {
			t.Error("the comparison is stored before the freeze")
		}
		first := *id.Freeze
		w.mustRun(op.CompareData{Joins: w.joins()})
		if again := w.Store().Identity().Freeze; again.ID != first.ID {
			t.Error("the same finding is recorded twice")
		}
	})
}

func TestCompareData_GivesNoVerdictWhenAMemberIsAway(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		w.Node("n3").PowerOff()
		if _, err := w.run(op.CompareData{Joins: w.joins()}); cke.CodeOf(err) != cke.CodeMemberSilent {
			t.Error(err)
		}
		if id := w.Store().Identity(); id.Compared != nil || id.Freeze != nil {
			t.Errorf("%+v", id)
		}
		w.Node("n3").PowerOn()
	})
}

func TestFreeze_LastsUntilAPersonLiftsIt(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		one := op.Freeze{Kind: cke.FreezeClusterID, Finding: "one", Problem: cke.Problem{Code: cke.CodeSplitBrain, Message: "two clusters"}}
		two := op.Freeze{Kind: cke.FreezeCorrupt, Finding: "two", Problem: cke.Problem{Code: cke.CodeUnequalData, Message: "corrupt"}}
		now := func() *cke.Freeze { return w.Store().Identity().Freeze }
		w.mustRun(one)
		first := *now()
		w.mustRun(one)
		w.mustRun(two)
		if now().ID != first.ID {
			t.Error("a freeze is replaced by another one")
		}
		if _, err := w.run(op.Unfreeze{ID: "other"}); cke.CodeOf(err) != cke.CodeConflict {
			t.Error(err)
		}
		lift := op.Unfreeze{ID: first.ID, Reason: "it is known", By: "eve@host"}
		w.mustRun(lift)
		w.mustRun(lift)
		if f := now(); f.Active() || f.LiftedBy != "eve@host" || f.LiftReason != "it is known" {
			t.Errorf("%+v", f)
		}
		w.mustRun(one)
		if now().Active() {
			t.Error("what was lifted freezes again")
		}
		w.mustRun(two)
		if f := now(); !f.Active() || f.Finding != "two" || len(f.Accepted) != 1 || f.Accepted[0] != "one" {
			t.Errorf("%+v", f)
		}
		w.mustRun(op.Unfreeze{ID: now().ID, Reason: "that, too", By: "eve@host"})
		w.mustRun(op.EndFinding{Findings: []string{"one", "two"}})
		w.mustRun(one)
		if !now().Active() {
			t.Error("what was over does not freeze when it comes back")
		}
	})
}

// What shows later that the store is older is added: a lift of less is refused, and one of all of it covers each part.
func TestFreeze_TakesInWhatShowsLaterThatTheStoreIsOlder(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		older := func(message string, ids ...string) op.Freeze {
			return op.Freeze{Kind: cke.FreezeOlderStore, Finding: cke.OlderStore(ids), Problem: cke.Problem{Code: cke.CodeOlderStore, Message: message}, Lacks: []cke.Lacking{{ID: ids[0]}}}
		}
		now := func() *cke.Freeze { return w.Store().Identity().Freeze }
		w.mustRun(op.Freeze{Kind: cke.FreezeCorrupt, Finding: "corrupt", Problem: cke.Problem{Code: cke.CodeUnequalData}})
		one := older("n4 was not known", "j4")
		one.Held = &cke.HeldRequests{Deletion: time.Unix(1, 0)}
		w.mustRun(one)
		first := *now()
		two := older("nor n5", "j5")
		two.Held = &cke.HeldRequests{Deletion: time.Unix(2, 0)} // it was requested since
		w.mustRun(two)
		f := *now()
		if f.ID == first.ID || f.Finding != cke.OlderStore([]string{"j4", "j5"}) || f.Problem.Message != "n4 was not known; nor n5" || f.Former == nil || f.Former.Kind != cke.FreezeCorrupt || !f.Held.Deletion.Equal(time.Unix(1, 0)) {
			t.Fatalf("%+v", f)
		}
		w.mustRun(one)
		w.mustRun(older("both", "j4", "j5"))
		if now().ID != f.ID {
			t.Error("a part of it is recorded again")
		}
		if _, err := w.run(op.Unfreeze{ID: first.ID}); cke.CodeOf(err) != cke.CodeConflict || !now().Active() {
			t.Errorf("a lift of less: %v", err)
		}
		w.mustRun(op.Unfreeze{ID: f.ID, Reason: "they are gone", By: "eve@host"})
		for _, o := range []op.Freeze{one, two} {
			if w.mustRun(o); now().Active() {
				t.Errorf("%s freezes again", o.Finding)
			}
		}
	})
}

// archive ends the membership on n3 and returns it.
func (w *world) archive(p cke.VolumePolicies) cke.Join {
	w.mustRun(w.bootstrap(false))
	c := w.cluster()
	c.Nodes = c.Nodes[:2]
	w.Store().SetSpec(c)
	j := w.joins()[2]
	w.mustRun(op.RemoveMember{Member: w.members()[2], Join: &j, Volumes: p})
	return w.Store().Identity().Ended[0]
}

// Requirement I7.
func TestPurgeVolume_RemovesOnlyWhatItsTimeIsOverFor(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		j := w.archive(cke.VolumePolicies{OnRemoval: cke.VolumeArchive, Keep: cke.Duration(time.Hour)})
		if d := j.KeepUntil.Sub(j.EndedAt); d != time.Hour {
			t.Fatalf("kept for %v", d)
		}
		if _, err := w.run(op.PurgeVolume{Join: j}); cke.CodeOf(err) != cke.CodeVolume {
			t.Error(err)
		}
		if _, v := w.Node("n3").Look(); len(v) != 1 {
			t.Fatal("removed early")
		}
		time.Sleep(time.Hour)
		w.Node("n2").PowerOff()
		if _, err := w.run(op.PurgeVolume{Join: j}); err == nil {
			t.Error("removed while a member is away")
		}
		w.Node("n2").PowerOn()
		time.Sleep(time.Minute)
		w.mustRun(op.PurgeVolume{Join: j})
		if c, v := w.Node("n3").Look(); len(v)+len(c) != 0 {
			t.Errorf("%v %v", c, v)
		}
		if e := w.Store().Identity().Ended[0]; e.PurgedAt.IsZero() || e.RemovedAt.IsZero() || e.Expired(time.Now()) {
			t.Errorf("%+v", e)
		}
		if v := w.Violations(); v != nil {
			t.Error(v)
		}
	})
}

func TestPurgeVolume_IsFinishedFromEveryStep(t *testing.T) {
	for _, step := range []string{"record-purge", "remove", "record-removed"} {
		inWorld(t, 3, func(w *world) {
			j := w.archive(cke.VolumePolicies{OnRemoval: cke.VolumeDelete})
			w.runUntil(op.PurgeVolume{Join: j}, step)
			if !w.Store().Identity().Ended[0].Expired(time.Now()) {
				t.Fatalf("cut at %s: nobody would go on", step)
			}
			w.mustRun(op.PurgeVolume{Join: j})
			if e := w.Store().Identity().Ended[0]; e.RemovedAt.IsZero() || w.Violations() != nil {
				t.Errorf("cut at %s: %+v %v", step, e, w.Violations())
			}
		})
	}
}

func TestPurgeVolume_NeverTouchesAPresentMember(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		j := w.joins()[0]
		if _, err := w.run(op.PurgeVolume{Join: j, Asked: true}); cke.CodeOf(err) != cke.CodeVolume {
			t.Error(err)
		}
		j.ID = "other" // and its member is in the list all the same
		if _, err := w.run(op.PurgeVolume{Join: j, Asked: true}); cke.CodeOf(err) != cke.CodeVolume {
			t.Error(err)
		}
	})
}

func TestUndeleteVolume_KeepsItUntilItIsPurged(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		j := w.archive(cke.VolumePolicies{OnRemoval: cke.VolumeArchive, Keep: cke.Duration(time.Hour)})
		w.mustRun(op.UndeleteVolume{Join: j})
		time.Sleep(2 * time.Hour)
		if _, err := w.run(op.PurgeVolume{Join: j}); cke.CodeOf(err) != cke.CodeVolume {
			t.Error(err)
		}
		var refused *cke.Error
		w.Store().Ask("purge", func(r *cke.Requests) {
			r.Tasks = append(r.Tasks, cke.NewTask(cke.TaskPurge, "", j.Volume, "eve@host", time.Now()))
		})
		w.mustRun(op.PurgeVolume{Join: j, Asked: true})
		if _, err := w.run(op.UndeleteVolume{Join: w.Store().Identity().Ended[0]}); !errors.As(err, &refused) || refused.Code != cke.CodeVolume {
			t.Error(err)
		}
		if v := w.Violations(); v != nil {
			t.Error(v)
		}
	})
}
