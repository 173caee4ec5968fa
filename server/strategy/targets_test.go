package strategy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/server/strategy"
)

// What a target is known by outlasts the section in the cluster file, and other targets in between.
func TestTargetID_OutlastsTheSectionAndOtherTargets(t *testing.T) {
	at := func(url string) *scene {
		return formed(3).running().with(func(s *scene) { s.Spec.Backup.Target = url })
	}
	said := func(prev cke.Status, url, id string) cke.Status {
		in := at(url).Input
		if url != "" {
			in.Backup = &cke.BackupStatus{Target: url, TargetID: id}
		}
		return strategy.Report(in, strategy.Decide(in), prev)
	}
	want := func(what string, s cke.Status, url, id string) {
		t.Helper()
		if got := s.TargetID(url); got != id {
			t.Errorf("%s: %s is known by %q, want %q", what, url, got, id)
		}
	}
	old := cke.Status{Backup: &cke.BackupStatus{Target: "file:///a", TargetID: "M1"}} // as earlier versions stored it
	want("old", old, "file:///a", "M1")
	want("old", old, "file:///b", "")

	none := said(old, "", "")
	want("without a section", none, "file:///a", "M1")
	want("back before it was opened", said(none, "file:///a", ""), "file:///a", "M1")
	other := said(said(old, "file:///b", ""), "file:///b", "M2")
	want("another one", other, "file:///b", "M2")
	want("the first one meanwhile", other, "file:///a", "M1")
	want("not said yet", strategy.Report(at("file:///a").Input, strategy.Decide(at("file:///a").Input), other), "file:///a", "M1")

	wrong := said(other, "file:///a", "M3")
	want("another one at its URL", wrong, "file:///a", "M1")
	want("still", said(wrong, "file:///a", "M3"), "file:///a", "M1")
	want("another one at the URL as earlier versions stored it", said(old, "file:///a", "M3"), "file:///a", "M1")

	many := other
	for i := range 100 {
		many = said(many, fmt.Sprint("file:///", i), fmt.Sprint("N", i))
		many = said(many, "file:///a", "M1")
	}
	want("in use", many, "file:///a", "M1")
	want("of long ago", many, "file:///0", "")
	if len(many.Targets) > 20 {
		t.Errorf("%d targets are kept", len(many.Targets))
	}
}

// Once a leader has noticed that backups are missing, its figures are those of what is left. What was stored is still known.
func TestReport_KnowsWhatWasStoredOnceItIsLost(t *testing.T) {
	said := func(prev cke.Status, now *cke.BackupStatus) cke.Status {
		in := formed(3).running().Input
		in.Backup = now
		return strategy.Report(in, strategy.Decide(in), prev)
	}
	stored := func(url, lineage string, revision int64) *cke.BackupStatus {
		return &cke.BackupStatus{Target: url, TargetID: "M1", Lineage: lineage, Revision: revision, Known: true}
	}
	want := func(what string, s cke.Status, lineage string, is bool) {
		t.Helper()
		if _, got := s.Stored("", lineage); got != is {
			t.Errorf("%s: backups of %s were stored: %v, want %v", what, lineage, got, is)
		}
	}
	none := said(cke.Status{}, stored("file:///a", "life1", 0))
	want("before the first full", none, "life1", false)
	s := said(none, stored("file:///a", "life1", 7))
	want("stored", s, "life1", true)
	want("another one", s, "life2", false)
	s = said(s, stored("file:///a", "life1", 0))
	want("lost", s, "life1", true)
	s = said(s, &cke.BackupStatus{Target: "file:///a", Lineage: "life1", Idle: "hibernated"})
	want("the target is not open", s, "life1", true)
	s = said(s, nil)
	want("without a section", s, "life1", true)
	s = said(s, stored("file:///b", "life2", 3))
	want("in another target", s, "life1", true)
	want("of another incarnation", s, "life2", true)
	want("as earlier versions stored it", said(cke.Status{Backup: &cke.BackupStatus{Target: "file:///a", Lineage: "life1", Revision: 7}}, stored("file:///a", "life1", 0)), "life1", true)

	for i := range 100 {
		s = said(s, stored("file:///b", fmt.Sprint("n", i), 3))
	}
	want("the last one", s, "n99", true)
	want("that of another target", s, "life1", true)
	if n := len(s.Targets[len(s.Targets)-1].Lineages); n > 20 {
		t.Errorf("%d lineages of a target are kept", n)
	}
	if s.TargetID("file:///a") != "M1" {
		t.Error("the id of the target is forgotten")
	}
}

// How far a target led is known, and a loss reported for a day, whatever another leader finds in it.
func TestReport_KnowsHowFarATargetLed(t *testing.T) {
	said := func(prev cke.Status, now cke.BackupStatus, at time.Duration) cke.Status {
		s := formed(3).running()
		now.Target, now.TargetID, now.Lineage, now.Known = "file:///a", "M1", "life1", true
		s.Spec.Backup.Target, s.Backup, s.Before, s.Seen.ObservedAt = now.Target, &now, prev, noon.Add(at)
		return strategy.Report(s.Input, strategy.Decide(s.Input), prev)
	}
	reports := func(s cke.Status) bool {
		return slices.ContainsFunc(s.Problems, func(p cke.Problem) bool { return p.Code == cke.CodeLostBackups && p.Remedy != "" })
	}
	s := said(cke.Status{}, cke.BackupStatus{Revision: 22, Connected: true}, 0)
	for what, now := range map[string]cke.BackupStatus{"set back": {Revision: 12, Connected: true}, "with a gap": {Revision: 30}, "empty": {}} {
		if r, stored := said(s, now, time.Second).Stored("file:///a", "life1"); r != 22 || !stored {
			t.Errorf("%s: %d, %v", what, r, stored)
		}
	}
	lost := &cke.BackupTrouble{Work: "take", Code: cke.CodeLostBackups, Message: "m", Since: noon.Add(time.Second)}
	s = said(s, cke.BackupStatus{Revision: 25, Connected: true, Lost: lost}, time.Second)
	if r, _ := s.Stored("file:///b", "life1"); r != 0 || !reports(s) {
		t.Errorf("%+v", s)
	}
	if s = said(s, cke.BackupStatus{}, time.Minute); !reports(s) {
		t.Error("the next leader does not report it")
	}
	if s = said(s, cke.BackupStatus{Revision: 26, Connected: true}, 25*time.Hour); reports(s) {
		t.Error("it is reported for ever")
	}
	if r, _ := s.Stored("", "life1"); r != 26 {
		t.Errorf("%d", r)
	}
}
