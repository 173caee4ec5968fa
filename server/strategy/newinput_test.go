package strategy_test

import (
	"reflect"
	"testing"
	"time"

	"cke"
	"cke/server/strategy"
)

// Whatever a leader decides on, a plan does, too: of what Decide may know nothing is left out but what failed or
// completed lately, since when it leads, which record it cannot read, and what runs beside it for reboots and repairs, which are no change
// of a cluster.
func TestInputFrom_LeavesOutNothingThatALeaderReports(t *testing.T) {
	s := formed(3)
	s.Backup = &cke.BackupStatus{Known: true, Connected: true}
	s.Inventory = &cke.InventoryStatus{Reason: "as it is"}
	s.Requests.Applied = 1
	reported := strategy.Report(s.Input, strategy.Decide(s.Input), cke.Status{})
	spec := cke.Spec{Cluster: s.Spec, Generation: s.Generation, SetAt: time.Now(), Destroyed: []string{"n9"}, DestroyedIDs: []string{"9"}, DeleteRequestedAt: time.Now(), DeleteSealedAt: time.Now()}
	in := reflect.ValueOf(strategy.InputFrom(spec, s.Identity, s.Requests, reported))
	for i := range in.NumField() {
		f := in.Type().Field(i)
		if f.IsExported() && f.Name != "Failures" && f.Name != "Completed" && f.Name != "LeadsSince" && f.Name != "Unclosed" && f.Name != "UnderWay" && in.Field(i).IsZero() {
			t.Errorf("%s is left out", f.Name)
		}
	}
}

// An upgrade of cke, or a daemon of another version that leads again, restarts nobody: what is wanted was stored.
func TestDecide_FollowsNoDefaultOfTheBinary(t *testing.T) {
	for _, mode := range []cke.ReconcileMode{cke.ReconcileAuto, cke.ReconcileManual} {
		for _, ran := range []string{"3.5.35", "3.6.15", "3.6.17", "3.7.3"} {
			s := formed(3)
			file := s.Spec
			file.Options.Etcd.Version, file.Options.Etcd.Image, file.Policies.Reconcile = "", "", mode
			runs := cke.Release{Version: ran, Image: cke.DefaultImage + ":v" + ran}
			for i := range s.Identity.Joins {
				j := &s.Identity.Joins[i]
				j.Etcd.Version, j.Etcd.Image = runs.Version, runs.Image
				s.endpoint(i + 1).Version = ran
			}
			s.Requests.Applied = s.Generation
			spec := cke.Spec{Cluster: file, Generation: s.Generation} // as an older cke stored it
			for _, spec := range []cke.Spec{spec.Resolved(s.Identity), {Cluster: file, Etcd: runs, Generation: s.Generation}} {
				in := strategy.NewInput(spec, s.Identity, s.Requests, s.Seen, nil, s.Before)
				if d := strategy.DecideChange(in); d.Operation != nil || !d.Converged {
					t.Errorf("%s, %s runs: %v: %s", mode, ran, d.Operation, d.Reason)
				}
			}
		}
	}
}
