package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// tried lets a member have been started with other options last than the file declares.
func (s *scene) tried(i int, change func(*cke.EtcdOptions)) *scene {
	change(&s.Identity.Joins[i-1].Etcd)
	return s
}

// runs lets a member tell a version.
func (s *scene) runs(i int, version string) *scene {
	s.endpoint(i).Version = version
	return s
}

// wrote lets a member have told before that its database is of a version.
func (s *scene) wrote(i int, version string) *scene {
	s.Before.Members = append(s.Before.Members, cke.MemberStatus{Name: s.join(i).Node.Name(), Join: s.join(i).ID, StorageVersion: version})
	return s
}

// astray lets the container of n1 have been made for other ports than are on record.
func astray(s *scene) *scene {
	s.container(1).Place = "https://10.0.0.1:12379 https://10.0.0.1:12380"
	return s
}

// leftAgain is a single member that does not come up with 3.6, to which its file went back for a while from 3.7.
func leftAgain(newest int) *scene {
	return formed(1).stopped(1).crashes(1).lost().with(func(s *scene) {
		s.Identity.Joins[0].Newest = newest
		s.Spec.Options.Etcd.Version = "3.7.3"
	})
}

// said is a single member on record with 3.6, declared with 3.7, whose container says that it is too old for its data; what it was made
// with is told by a digest, if not by the record.
func said(options string) *scene {
	return leftAgain(0).with(func(s *scene) {
		s.container(1).Options, s.container(1).LastWords = options, "invalid downgrade; server version is lower than determined cluster version"
	})
}

// The way out of an older record is shown, unless it is declared already.
func TestReport_TellsHowToStartWhatIsTooOldForItsData(t *testing.T) {
	old := func(s *scene) *scene {
		return s.with(func(s *scene) { s.Spec.Options.Etcd.Version = s.join(1).Etcd.Version })
	}
	remedy := func(s *scene) (all string) {
		for _, p := range strategy.Report(s.Input, strategy.Decide(s.Input), cke.Status{}).Problems {
			if p.Code == cke.CodeEtcdExited {
				all += p.Remedy
			}
		}
		return all
	}
	if got := remedy(old(said(""))); got != "declare options.etcd.version 3.7.x: etcd reports that the cluster has run it" {
		t.Error(got)
	}
	for name, s := range map[string]*scene{"declared": said(""), "said by another container": old(said("made with 3.5")), "another fault": old(leftAgain(0))} {
		if got := remedy(s); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// crashes lets a member that stopped be started by its engine again and again.
func (s *scene) crashes(i int) *scene {
	s.container(i).State = cke.ContainerRestarting
	return s
}

// Whoever declares what does not work can take it back: a member that does not come up is started as declared now.
func TestDecide_StartsAsDeclaredWhatDoesNotComeUp(t *testing.T) {
	wrong := func(e *cke.EtcdOptions) { e.ExtraArgs = []string{"--no-such-flag"} }
	version := func(v string) func(*cke.EtcdOptions) { return func(e *cke.EtcdOptions) { e.Version = v } }
	start := func(s *scene, i int, served bool) op.StartChanged {
		return op.StartChanged{Join: s.join(i), Etcd: s.Spec.Options.Etcd, AwaitServing: served}
	}
	// three is a cluster whose n2 does not come up.
	three := func() *scene { return formed(3).running().stopped(2).crashes(2) }
	ended := func() *scene { return formed(3).running().stopped(2) }
	again := op.StartMembers{Joins: []cke.Join{formed(3).tried(2, wrong).join(2)}, AwaitServing: true}
	one := func() *scene { return formed(1).stopped(1).crashes(1).lost() }
	single := func(s *scene, served bool) op.StartChanged { return start(s, 1, served) }
	// silent is a cluster whose n2 runs and answers nobody since it was started with wrong arguments.
	silent := func() *scene { return formed(3).running().quietMembers(2).tried(2, wrong).failed(again, 1, 0) }
	onlySilent := func() *scene {
		s := formed(1).running().quietMembers(1).tried(1, wrong).lost()
		return s.failed(op.RestartMember{Join: s.join(1)}, 1, 0)
	}
	onlyOwn := func(s *scene) *scene { // the others, as they were seen last
		list := s.Seen.Etcd.Members
		s.running().quietMembers(1).tried(1, wrong).lost()
		s.Before.Incarnation, s.Before.Etcd.Members = s.Identity.Incarnation.ID, list
		return s.failed(op.RestartMember{Join: s.join(1)}, 1, 0)
	}
	silentStart := func(s *scene, i int) op.StartChanged {
		return op.StartChanged{Join: s.join(i), Etcd: s.Spec.Options.Etcd, AwaitServing: true, Silent: true}
	}
	old := version("3.5.35")
	behind := func() *scene {
		return formed(3).stopped(2, 3).crashes(2).crashes(3).lost().tried(1, old).tried(2, old).tried(3, old).runs(1, "3.5.35").with(func(s *scene) {
			s.container(2).LastWords = "invalid downgrade; server version is lower than determined cluster version"
		})
	}
	newer := version("3.7.3")
	ahead := func() *scene {
		return formed(3).stopped(2, 3).crashes(2).crashes(3).lost().tried(1, newer).tried(2, newer).tried(3, newer).runs(1, "3.7.3")
	}
	check(t, []row{
		{"a wrong argument is taken back", three().tried(2, wrong), start(three().tried(2, wrong), 2, true), "n2 does not start, and other arguments are declared", nil},
		{"what ended by itself is started as it ran first", ended().tried(2, wrong), again, "n2 stopped", nil},
		{"then as declared", ended().tried(2, wrong).failed(again, 1, 0), start(ended().tried(2, wrong), 2, true), "other arguments are declared", nil},
		{"by itself it would not come back", three(), nil, "waiting for n2", []string{"CKE212 n2"}},
		{"what the engine could not start", ended().tried(2, wrong).failed(again, 1, 0).with(func(s *scene) { s.container(2).State = cke.ContainerCreated }), start(ended().tried(2, wrong), 2, true), "other arguments", nil},
		{"what the engine could not even make", ended().tried(2, wrong).failed(again, 1, 0).with(func(s *scene) { s.node(2).Containers = nil }), start(ended().tried(2, wrong), 2, true), "other arguments", nil},
		{"what was lost without having been tried is started as it ran", ended().tried(2, wrong).with(func(s *scene) { s.node(2).Containers = nil }), again, "n2 stopped", nil},
		{"without a quorum no policy is asked", one().tried(1, wrong).with(func(s *scene) { s.Spec.Policies.Reconcile = cke.ReconcileManual }), single(one().tried(1, wrong), true), "n1 does not start", nil},
		{"not one that runs and is silent", formed(3).running().quietMembers(2).tried(2, wrong), nil, "a member has not reported its version", []string{"CKE305 n2", "CKE215 n2"}},
		{"unless cke failed to start it so: with such options etcd may run and answer nobody", silent(), silentStart(silent(), 2), "n2 does not start, and other arguments are declared", nil},
		{"and the others are a quorum", silent().with(func(s *scene) { s.quiet(3) }), nil, "", []string{"CKE305 n2", "CKE215 n2", "CKE215 n3"}},
		{"the only one", onlySilent(), silentStart(onlySilent(), 1), "n1 does not start, and other arguments are declared", nil},
		{"not the only one of cke while an old cluster may need it", onlyOwn(imported(1).mute(1, 2, 3)), nil, "", []string{"CKE215 n1", "CKE328 old1", "CKE328 old2", "CKE328 old3"}},
		{"nor while foreign members may", onlyOwn(formed(1).with(func(s *scene) { s.stranger("x", "y") })), nil, "", []string{"CKE215 n1"}},
		{"not without a quorum: others may need it", silent().lost(), nil, "", []string{"CKE215 n1", "CKE215 n2", "CKE215 n3"}},
		{"not on a node that is drained", formed(3).running().leased(2).crashes(2).tried(2, wrong), nil, "", []string{"CKE305 n2", "CKE212 n2"}},
		{"not on a node that does not answer", three().tried(2, wrong).silent(2), nil, "waiting for n2", []string{"CKE201 n2"}},
		{"only as the person's policy says", three().tried(2, wrong).with(func(s *scene) { s.Spec.Policies.Reconcile = cke.ReconcileManual }), nil, "`ckecli cluster apply`", []string{"CKE305 n2", "CKE212 n2"}},
		{"a minor version up is taken back while others run the old one", three().tried(2, version("3.7.3")), start(three().tried(2, version("3.7.3")), 2, true), "other version", nil},
		{"not when all others have left it", three().tried(2, version("3.7.3")).runs(1, "3.7.3").runs(3, "3.7.3"), nil, "", []string{"CKE305 n2", "CKE212 n2"}},
		{"a minor version up, where etcd says that the cluster has left the old one", behind(), start(behind(), 2, true), "other version", nil},
		{"and not for another fault, as a full disk: there is no way back", behind().with(func(s *scene) { s.container(2).LastWords = "no space left on device" }), nil, "", []string{"CKE215 n1", "CKE207 n2", "CKE212 n3"}},
		{"nor back: one that knows no leader may run what the data needs", ahead(), nil, "", []string{"CKE215 n1", "CKE212 n2", "CKE212 n3"}},
		{"the only member, without a quorum", one().tried(1, wrong), single(one().tried(1, wrong), true), "n1 does not start, and other arguments", nil},
		{"the only member, back a minor version: etcd refuses what it cannot read", one().tried(1, version("3.7.3")), single(one().tried(1, version("3.7.3")), true), "other version", nil},
		{"which the cluster had not left", one().tried(1, version("3.7.3")).wrote(1, "3.6.0"), single(one().tried(1, version("3.7.3")), true), "other version", nil},
		{"not when it is known to have left it", one().tried(1, version("3.7.3")).wrote(1, "3.7.0"), nil, "no quorum", []string{"CKE212 n1"}},
		{"whichever member told so", three().lost().tried(2, version("3.7.3")).quietMembers(1, 3).wrote(1, "3.7.0"), nil, "n1 and n3 do not answer", []string{"CKE215 n1", "CKE212 n2", "CKE215 n3"}},
		{"but for all else", one().tried(1, version("3.7.3")).tried(1, wrong).wrote(1, "3.7.0"), op.StartChanged{Join: one().tried(1, version("3.7.3")).tried(1, wrong).join(1), AwaitServing: true,
			Etcd: one().tried(1, func(e *cke.EtcdOptions) { e.Version, e.Image = "3.7.3", one().join(1).Etcd.Image }).join(1).Etcd}, "other arguments", nil},
		{"one that is to go is needed for that", one().tried(1, wrong).with(func(s *scene) { s.Spec.Nodes[0].ControlPlane = false }), single(one().tried(1, wrong), true), "n1 does not start", nil},
		{"the file also asks for another version, which waits", three().tried(2, wrong).with(func(s *scene) { s.Spec.Options.Etcd.Version = "3.7.3" }), start(three().tried(2, wrong), 2, true), "other arguments are declared", nil},
		{"nor is a version that takes a snapshot first", three().tried(2, wrong).runs(1, "3.7.3").with(func(s *scene) { s.Spec.Options.Etcd.Version = "3.7.3" }), start(three().tried(2, wrong), 2, true), "other arguments are declared", nil},
		{"a single member that a person started where nobody reaches it", astray(formed(1).quietMembers(1).lost()), single(astray(formed(1).quietMembers(1).lost()), true), "n1 does not start, and its container was made for https://10.0.0.1:12379", nil},
		{"one that its engine starts again and again for a place that the machine does not have", astray(one()), single(astray(one()), true), "its container was made for https://10.0.0.1:12379", nil},
		{"with a quorum that is a move", astray(formed(1).running()), nil, "nothing to do", nil},
		{"one that is silent where it is reached", formed(1).quietMembers(1).lost(), nil, "n1 does not answer, and may serve", []string{"CKE215 n1"}},
		{"up again to what its log was made ready for", leftAgain(7), single(leftAgain(7), true), "other version", nil},
		{"not to what it was never", leftAgain(0), nil, "no quorum", []string{"CKE212 n1"}},
		{"where etcd says that the cluster had left what is on record", said(""), single(said(""), true), "other version", nil},
		{"but not where a container of an earlier version said so, which had not gone as far", said("made with 3.5"),
			op.StartChanged{Join: said("").join(1), Etcd: said("").join(1).Etcd, AwaitServing: true}, "made with other options than are on record", nil},
		{"never two", one().tried(1, version("3.8.0")), nil, "no quorum", []string{"CKE212 n1"}},
		{"one that fails keeps nothing waiting", three().tried(2, wrong).failed(start(three().tried(2, wrong), 2, true), 9, time.Second).running().worth(3, -1, ""),
			op.RenewCertificates{Join: formed(3).join(3)}, "", nil},
	})
}

// Source: etcd docs, upgrade guide 3.6, "Rollback": until all members have taken the step, the cluster has not.
func TestDecide_TakesAMinorVersionBackThatNotAllRun(t *testing.T) {
	half := func() *scene {
		return formed(3).running().runs(2, "3.7.3").tried(2, func(e *cke.EtcdOptions) { e.Version = "3.7.3" })
	}
	check(t, []row{
		{"one of three", half(), op.RestartMember{Join: half().join(2), Etcd: half().Spec.Options.Etcd}, "n2 runs with other version than declared", nil},
		{"the others are not taken further", half().with(func(s *scene) { s.Spec.Options.Etcd.Version = "3.5.35" }), nil, "none runs 3.5 any more", []string{"CKE305 n2"}},
		{"all of them", half().runs(1, "3.7.3").runs(3, "3.7.3"), nil, "none runs 3.6 any more; there is no way back", []string{"CKE305 n2"}},
		{"up again", half().with(func(s *scene) { s.Spec.Options.Etcd.Version = "3.7.3" }),
			op.RestartMember{Join: half().join(3), Etcd: half().with(func(s *scene) { s.Spec.Options.Etcd.Version = "3.7.3" }).Spec.Options.Etcd}, "n3 runs with other version", nil},
		{"from a patch that is too old", formed(3).running().runs(3, "3.6.10").with(func(s *scene) { s.Spec.Options.Etcd.Version = "3.7.3" }), nil,
			"a member runs 3.6.10; before 3.7 every member must run 3.6.11 or newer", []string{"CKE305 n2"}},
		{"from 3.5, too", formed(3).running().runs(1, "3.5.35").runs(2, "3.5.31").runs(3, "3.5.35").with(func(s *scene) { s.Spec.Options.Etcd.Version = "3.6.16" }).tried(1, func(e *cke.EtcdOptions) { e.Version = "3.5.35" }), nil,
			"a member runs 3.5.31; before 3.6 every member must run 3.5.32 or newer", []string{"CKE305 n1"}},
		{"while one has not told its version", formed(3).running().runs(3, "").with(func(s *scene) { s.Spec.Options.Etcd.Version = "3.7.3" }), nil, "a member has not reported its version", []string{"CKE305 n2"}},
	})
}

// Source: etcd, etcdserver.isCompatibleWithCluster.
func TestDecide_AddsNobodyWhomEtcdWouldNotLetJoin(t *testing.T) {
	declared := func(version string, told ...string) *scene {
		s := formed(4).running().unjoined(4).undeclared(1).with(func(s *scene) { s.Spec.Options.Etcd.Version = version })
		for i, v := range told {
			s.runs(i+1, v).tried(i+1, func(e *cke.EtcdOptions) { e.Version = version })
		}
		return s
	}
	add := func(s *scene) op.AddMember {
		return op.AddMember{Node: s.Spec.Nodes[3], Etcd: s.Spec.Options.Etcd}
	}
	check(t, []row{
		{"the same", declared("3.6.16", "3.6.16", "3.6.15", "3.6.16"), add(declared("3.6.16", "", "", "")), "carries no member", nil},
		{"ahead of it", declared("3.7.3", "3.6.16", "3.7.3", "3.7.3"), add(declared("3.7.3", "", "", "")), "carries no member", nil},
		{"older", declared("3.6.16", "3.7.3", "3.7.3", "3.7.3"), nil, "no member is added on n4: 3.6.16 is declared, and the members run 3.7.3 and newer", []string{"CKE305 n4"}},
		{"two ahead", declared("3.8.0", "3.6.16", "3.7.3", "3.7.3"), nil, "a member runs 3.6.16; upgrades go one minor version at a time", []string{"CKE305 n4"}},
	})
}
