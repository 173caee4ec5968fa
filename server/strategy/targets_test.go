package strategy_test

import (
	"fmt"
	"testing"

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
