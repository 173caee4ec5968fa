package strategy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/op"
)

// updated lets somebody have given a member's container other limits with `docker update`.
func (s *scene) updated(i int, memory cke.Size) *scene {
	s.container(i).Memory = int64(memory)
	return s
}

// made lets a member's container have been made with other arguments than are on record, or with those.
func (s *scene) made(i int, args ...string) *scene {
	o := s.join(i).Etcd
	o.ExtraArgs = args
	s.container(i).Options = o.Digest()
	return s
}

// Requirement A18: what drifts is told for each member, from what to what; what was changed by hand is put right.
func TestReport_NamesEachDifference(t *testing.T) {
	with := func(s *scene, change func(*cke.EtcdOptions)) *scene { change(&s.Spec.Options.Etcd); return s }
	for _, row := range []struct {
		name  string
		scene *scene
		want  []string // of n2
	}{
		{"none", formed(3).running(), nil},
		{"a version", with(formed(3).running(), func(e *cke.EtcdOptions) { e.Version, e.Image = "3.6.17", "etcd:v3.6.17" }), []string{"version: 3.6.16, declared 3.6.17"}},
		{"arguments and limits", with(formed(3).running(), func(e *cke.EtcdOptions) {
			e.ExtraArgs, e.Resources = []string{"--x=1"}, cke.Resources{CPUs: 0.5, Memory: 1 << 30}
		}), []string{"arguments: [], declared [--x=1]", "limits: none, declared 0.5 CPUs and 1GiB"}},
		{"environment", with(formed(3).running(), func(e *cke.EtcdOptions) { e.ExtraEnv = map[string]string{"A": "b"} }), []string{"environment: not as declared"}},
		{"limits by hand", formed(3).running().updated(2, 512<<20), []string{"limits: its container was given 512MiB outside cke, and was created with none"}},
		{"another container than is on record", formed(3).running().made(2, "--x=1"), []string{"its container was made with other options than are on record"}},
		{"other limits with it", formed(3).running().made(2, "--x=1").updated(2, 512<<20), []string{"its container was made with other options than are on record"}},
		{"another version than its image is declared to hold", formed(3).running().runs(2, "3.6.9"), []string{"version: etcd reports 3.6.9, and gcr.io/etcd-development/etcd:v3.6.16 is declared to be 3.6.16"}},
		{"of a node that is to carry none", with(formed(3).running().undeclared(2), func(e *cke.EtcdOptions) { e.ExtraArgs = []string{"--x"} }), nil},
	} {
		for _, m := range row.scene.report().Members {
			if diff := cmp.Diff(row.want, m.Drift); m.Name == "n2" && diff != "" {
				t.Errorf("%s (-want +got):\n%s", row.name, diff)
			}
		}
	}
}

func TestDecide_PutsRightWhatWasChangedByHand(t *testing.T) {
	scene := formed(3).running().updated(2, 512<<20)
	check(t, []row{
		{"limits", scene, op.RestartMember{Join: scene.join(2), Etcd: scene.Spec.Options.Etcd}, "n2 runs with other limits than declared", nil},
		{"a version that its image is not: no restart would help", formed(3).running().runs(2, "3.6.9"), nil, "nothing to do", nil},
	})
	told := false
	for _, p := range formed(3).running().runs(2, "3.6.9").report().Problems {
		told = told || p.Code == cke.CodeNotApplied && p.Node == "n2" && p.Remedy != ""
	}
	if !told {
		t.Error("a member that runs another version is not told")
	}
	told = false
	waiting := formed(3).running().made(2, "--x=1")
	waiting.Spec.Policies.Reconcile = cke.ReconcileManual
	for _, p := range waiting.report().Problems {
		told = told || p.Code == cke.CodeNotApplied && p.Node == "n2" && strings.Contains(p.Message, "its container was made with other options") && p.Remedy != ""
	}
	if !told {
		t.Error("a member that waits for consent with a container that is not on record is not told")
	}
}

// A start that was given up may land when other options are on record: nobody but the container itself tells then.
func TestDecide_PutsRightAContainerThatIsNotOnRecord(t *testing.T) {
	other := formed(3).running().made(2, "--x=1")
	newer := func(s *scene) *scene {
		return s.with(func(s *scene) { s.Spec.Options.Etcd.Version = "3.7.3" }).tried(2, func(e *cke.EtcdOptions) { e.Version = "3.7.3" })
	}
	full := func(s *scene) {
		s.Before.LastOperation = &cke.OperationStatus{Type: "defragment", Targets: []string{"n2"}, Time: noon} // all of it is in use
		s.Seen.Etcd.Alarms = []cke.Alarm{{MemberID: "m1", Kind: "NOSPACE"}}
		for i := 1; i <= 3; i++ {
			s.endpoint(i).DBSize, s.endpoint(i).DBSizeInUse = 2<<30, 2<<30
		}
	}
	// It runs 3.7 by its own word, and on record it is 3.6; or the other way round.
	recorded := func(s *scene, members ...int) *scene {
		for _, i := range members {
			s.tried(i, func(e *cke.EtcdOptions) { e.Version = "3.7.3" })
		}
		return s.runs(1, "3.7.3").runs(3, "3.7.3").with(func(s *scene) { s.Spec.Options.Etcd.Version = "3.7.3" })
	}
	ahead := func() *scene { return recorded(formed(3).running().made(2, "--x=1").runs(2, "3.7.3"), 1, 3) }
	behind := func() *scene { return recorded(formed(3).running().made(2, "--x=1"), 1, 2, 3) }
	restart := func(s *scene, runs string) op.RestartMember {
		return op.RestartMember{Join: s.join(2), Etcd: s.Spec.Options.Etcd, Runs: runs, Image: s.container(2).Image}
	}
	changed := func(s *scene) op.StartChanged {
		return op.StartChanged{Join: s.join(2), Etcd: s.Spec.Options.Etcd, AwaitServing: true}
	}
	check(t, []row{
		{"it runs", other, op.RestartMember{Join: other.join(2), Etcd: other.Spec.Options.Etcd}, "n2 runs with other options than declared", nil},
		{"it has left the minor on record", ahead(), restart(ahead(), "3.7.3"), "n2 runs with other version than declared", nil},
		{"it has not come to the minor on record", behind(), restart(behind(), "3.6.16"), "n2 runs with other options than declared", nil},
		{"it is as on record", formed(3).running().made(2), nil, "nothing to do", nil},
		{"one at a time", formed(3).running().made(2, "--x=1").stopped(3).crashes(3), nil, "n3", []string{"CKE305 n2", "CKE212 n3"}},
		{"no other version without room", newer(formed(3).running().made(2, "--x=1")).with(full), nil, "not applied: options: etcd is out of space", []string{"CKE308"}},
		{"not a version that the others cannot run beside", newer(formed(3).running().made(2, "--x=1")).runs(1, "3.5.35"), nil, "upgrades go one minor version at a time", []string{"CKE305 n2"}},
		{"it does not come up", formed(3).running().stopped(2).crashes(2).made(2, "--x=1"), changed(formed(3)), "n2 does not start, and its container was made with other options", nil},
		{"it does not come up as on record", formed(3).running().stopped(2).crashes(2).made(2), nil, "waiting for n2", []string{"CKE212 n2"}},
		{"one that stopped is made anew when it is started", formed(3).running().stopped(2).made(2, "--x=1"), op.StartMembers{Joins: []cke.Join{formed(3).join(2)}, AwaitServing: true}, "n2 stopped", nil},
	})
}

// Source: etcd docs, upgrade guides: the cluster has to be healthy, without alarms, and its members level.
func TestDecide_RestartsNobodyWhileOthersLagOrEtcdIsOutOfSpace(t *testing.T) {
	newer := func(s *scene) { s.Spec.Options.Etcd.Version = "3.6.17" }
	args := func(s *scene) { s.Spec.Options.Etcd.ExtraArgs = []string{"--x"} }
	lags := func(s *scene) { s.endpoint(3).RaftApplied = 10 }
	full := func(s *scene) {
		s.Before.LastOperation = &cke.OperationStatus{Type: "defragment", Targets: []string{"n2"}, Time: noon} // all of it is in use
		s.Seen.Etcd.Alarms = []cke.Alarm{{MemberID: "m1", Kind: "NOSPACE"}}
		for i := 1; i <= 3; i++ {
			s.endpoint(i).DBSize, s.endpoint(i).DBSizeInUse = 2<<30, 2<<30
		}
	}
	check(t, []row{
		{"one lags", formed(3).running().with(args).with(lags), nil, "n3 is 4990 entries behind the leader", []string{"CKE104 n2"}},
		{"no other version without room", formed(3).running().with(newer).with(full), nil, "not applied: version: etcd is out of space", []string{"CKE308"}},
		{"a larger quota is what it needs", formed(3).running().with(full).with(args), op.RestartMember{Join: formed(3).running().join(2), Etcd: formed(3).with(args).Spec.Options.Etcd}, "other arguments", nil},
	})
}
