package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// sized gives members databases of a size in MiB, of which some is in use.
func (s *scene) sized(size, inUse int64, nodes ...int) *scene {
	for _, i := range nodes {
		s.endpoint(i).DBSize, s.endpoint(i).DBSizeInUse = size<<20, inUse<<20
	}
	return s
}

// full lets etcd have raised NOSPACE.
func full(s *scene) { s.Seen.Etcd.Alarms = []cke.Alarm{{MemberID: "m1", Kind: "NOSPACE"}} }

// renewable lets members show certificates of a year of which so many days are left.
func (s *scene) renewable(days ...int) *scene {
	for i, d := range days {
		e := s.endpoint(i + 1)
		e.CertNotAfter = noon.AddDate(0, 0, d)
		e.CertNotBefore = e.CertNotAfter.AddDate(-1, 0, 0)
	}
	return s
}

// Requirement N15: certificates are renewed without downtime, well before they end.
func TestDecide_RenewsCertificatesBeforeTheyEnd(t *testing.T) {
	renew := func(s *scene, i int) op.RenewCertificates { return op.RenewCertificates{Join: s.join(i)} }
	f := formed(3)
	check(t, []row{
		{"more than a third is left", formed(3).renewable(130, 200, 300), nil, "nothing to do", nil},
		{"less than a third, followers first", formed(3).renewable(100, 200, 100), renew(f, 3), "the certificate of n3 expires at", nil},
		{"the leader, too", formed(3).renewable(100, 200, 300), renew(f, 1), "the certificate of n1", nil},
		{"although a member is away", formed(3).renewable(300, 100, 300).silent(3), renew(f, 2), "the certificate of n2", nil},
		{"not of a member that is away", formed(3).renewable(300, 300, 10).silent(3), nil, "waiting for n3", []string{"CKE201 n3"}},
		{"a failure does not keep the rest waiting", formed(3).renewable(300, 10, 300).with(func(s *scene) { s.Spec.Options.Etcd.ExtraArgs = []string{"--x"} }).running().failed(renew(f, 2), 1, time.Minute),
			op.RestartMember{Join: f.join(2), Etcd: formed(3).with(func(s *scene) { s.Spec.Options.Etcd.ExtraArgs = []string{"--x"} }).Spec.Options.Etcd}, "other arguments", nil},
	})
	if s := formed(3).renewable(100, 300, 300).report(); s.Health != cke.HealthReady {
		t.Errorf("%s: %s", s.Health, s.Summary)
	}
}

// The design's rule 14: NOSPACE is told, and ended where that needs no decision about clients' history.
func TestDecide_GivesSpaceBackWhenADatabaseIsFull(t *testing.T) {
	quota := func(s *scene) { s.Spec.Options.Etcd.ExtraArgs = []string{"--quota-backend-bytes=104857600"} }
	told := func(s *scene) {
		for i := range s.Identity.Joins {
			s.Identity.Joins[i].Etcd.ExtraArgs = s.Spec.Options.Etcd.ExtraArgs
		}
	}
	larger := func(s *scene) {
		s.Spec.Options.Etcd.ExtraArgs = []string{"--quota-backend-bytes=8589934592"}
		s.Spec.Policies.Reconcile = cke.ReconcileManual
	}
	defragged := func(s *scene) {
		s.Before.LastOperation = &cke.OperationStatus{Type: op.Defragment{}.Name(), Targets: []string{"n2"}, Time: noon}
	}
	longAgo := func(s *scene) {
		defragged(s)
		s.Before.LastOperation.Time = noon.Add(-11 * time.Minute)
	}
	after := func(since time.Duration) func(s *scene) { // a trial, and what was done after it
		return func(s *scene) {
			s.Before.LastOperation = &cke.OperationStatus{Type: op.CompareData{}.Name(), Targets: []string{"n1", "n2", "n3"}, Time: noon}
			s.Completed = map[string]strategy.Completion{"defragment n2": {Reason: "n2 is defragmented for a trial", Count: 1, At: noon.Add(-since)}}
		}
	}
	disarmed := func(s *scene) {
		after(time.Minute)(s)
		s.Completed["disarm "] = strategy.Completion{Count: 1, At: noon}
	}
	namesake := func(s *scene) {
		s.Before.LastOperation = &cke.OperationStatus{Type: op.Defragment{}.Name(), Targets: []string{"n22"}, Description: "of the 100 MiB of n2 only 20 MiB are in use", Time: noon}
	}
	behind := func(s *scene) {
		for i := 1; i <= 3; i++ {
			s.endpoint(i).RaftIndex, s.endpoint(i).RaftApplied = 5000, 5000
		}
		s.endpoint(3).RaftApplied = 1000
	}
	scene := func() *scene { return formed(3).running().with(full).with(quota).with(told) }
	defrag := func(i int) op.Defragment { return op.Defragment{Joins: []cke.Join{scene().join(i)}} }
	check(t, []row{
		{"much is free inside, followers first", scene().sized(100, 20, 1, 2, 3), defrag(2), "of the 100 MiB of n2 only 20 MiB are in use", nil},
		{"the leader last", scene().sized(100, 20, 1).sized(20, 20, 2, 3), defrag(1), "of the 100 MiB of n1", nil},
		{"below the quota the alarm is taken back", scene().sized(20, 20, 1, 2, 3), op.Disarm{Alarms: []cke.Alarm{{MemberID: "m1", Kind: "NOSPACE"}}}, "every database is below its quota of 100 MiB again", nil},
		{"one tells already what a compaction freed", scene().sized(100, 95, 1, 2).sized(100, 20, 3), defrag(2), "of the 100 MiB of n2 only 20 MiB are in use", nil},
		{"that was not true of who was defragmented", scene().sized(100, 95, 1, 2).sized(20, 20, 3).with(defragged), nil, "what is in use does not fit into the quota", []string{"CKE308"}},
		{"it was, and is of the next", scene().sized(100, 95, 1).sized(20, 20, 2, 3).with(defragged), defrag(1), "of the 100 MiB of n1 only 20 MiB are in use", nil},
		{"of one of the like name it says nothing", scene().sized(100, 95, 1, 2).sized(20, 20, 3).with(namesake), defrag(2), "of the 100 MiB of n2 only 20 MiB are in use", nil},
		{"who was defragmented goes by its own", scene().sized(100, 95, 1, 2).sized(100, 20, 3).with(defragged), defrag(3), "of the 100 MiB of n3 only 20 MiB are in use", nil},
		{"one that is behind tells nothing of the others", scene().sized(100, 95, 1, 2).sized(100, 20, 3).with(behind), defrag(3), "of the 100 MiB of n3 only 20 MiB are in use", nil},
		{"all of it seems to be in use", scene().sized(100, 95, 1, 2, 3), defrag(2), "n2 is defragmented for a trial", nil},
		{"all of it is in use", scene().sized(100, 95, 1, 2, 3).with(defragged), nil, "what is in use does not fit into the quota", []string{"CKE308"}},
		{"it is looked at again", scene().sized(100, 95, 1, 2, 3).with(longAgo), defrag(2), "n2 is defragmented for a trial", nil},
		{"whatever was done since", scene().sized(100, 95, 1, 2, 3).with(after(9 * time.Minute)), nil, "what is in use does not fit into the quota", []string{"CKE308"}},
		{"and again after ten minutes", scene().sized(100, 95, 1, 2, 3).with(after(11 * time.Minute)), defrag(2), "n2 is defragmented for a trial", nil},
		{"a figure that was not true of it is not believed after that, either", scene().sized(100, 95, 1, 2).sized(20, 20, 3).with(after(time.Minute)), nil, "what is in use does not fit into the quota", []string{"CKE308"}},
		{"an alarm that was taken back since is another one", scene().sized(100, 95, 1, 2, 3).with(disarmed), defrag(2), "n2 is defragmented for a trial", nil},
		{"sizes unknown", scene(), nil, "the sizes of the databases are not known", []string{"CKE308"}},
		{"not while a member is away", scene().sized(100, 20, 1, 2, 3).silent(3), nil, "cke does nothing about it while a member is away", []string{"CKE308", "CKE201 n3"}},
		{"the quota that members run with counts, not the one that waits for consent", formed(3).running().with(full).with(quota).with(told).with(larger).with(defragged).sized(100, 95, 1, 2, 3), nil, "the quota is 100 MiB", []string{"CKE308"}},
		{"a larger quota goes first", formed(3).running().with(full).with(quota).sized(100, 95, 1, 2, 3), op.RestartMember{Join: formed(3).join(2), Etcd: formed(3).with(quota).Spec.Options.Etcd}, "n2 runs with other arguments", nil},
	})
	s := scene().sized(100, 95, 1, 2, 3).with(defragged).report()
	if s.Health != cke.HealthDegraded || s.Tolerance != 1 || s.Problems[0].Code != cke.CodeNoSpace {
		t.Errorf("%s, tolerance %d, %+v", s.Health, s.Tolerance, s.Problems)
	}
}

func TestDecide_DefragmentsLargeDatabasesThatAreHalfEmpty(t *testing.T) {
	defrag := func(i int) op.Defragment { return op.Defragment{Joins: []cke.Join{formed(3).join(i)}} }
	check(t, []row{
		{"half empty, followers first", formed(3).sized(300, 100, 1, 2, 3), defrag(2), "of the 300 MiB of n2 only 100 MiB are in use", nil},
		{"the leader last", formed(3).sized(300, 100, 1).sized(100, 100, 2, 3), defrag(1), "of the 300 MiB of n1", nil},
		{"small ones are left", formed(3).sized(200, 10, 1, 2, 3), nil, "nothing to do", nil},
		{"full ones are left", formed(3).sized(300, 150, 1, 2, 3), nil, "nothing to do", nil},
		{"not while a member is away", formed(3).sized(300, 100, 1, 2, 3).silent(3), nil, "waiting for n3", []string{"CKE201 n3"}},
		{"one that did not shrink is left for an hour, whatever was done since", formed(3).sized(300, 100, 2).with(func(s *scene) {
			s.Completed = map[string]strategy.Completion{"defragment n2": {Count: 1, At: noon.Add(-59 * time.Minute)}}
		}), nil, "nothing to do", nil},
		{"it waits for consent", formed(3).sized(300, 100, 1, 2, 3).with(func(s *scene) { s.Spec.Policies.Reconcile = cke.ReconcileManual }), nil, "defragment waits", nil},
	})
}
