package strategy_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// Requirements A5, I16, I17: without a quorum known members are started on their own data, all at once, and nothing
// else is done; above all no peer is added and nothing is founded.
// Requirement N5: unreachable and too few: no peer is added.
func TestDecide_StartsKnownMembersAndNothingElseWithoutAQuorum(t *testing.T) {
	start := func(await bool, nodes ...int) op.StartMembers {
		o := op.StartMembers{AwaitServing: await}
		for _, i := range nodes {
			o.Joins = append(o.Joins, formed(5).join(i))
		}
		return o
	}
	restarting := func(s *scene) { s.container(1).State = cke.ContainerRestarting }
	check(t, []row{
		{"all stopped", formed(3).stopped(1, 2, 3).lost(), start(true, 1, 2, 3), "quorum is lost, 0 of 3 members run and 2 are needed: n1, n2 and n3 stopped", nil},
		{"two stopped", formed(3).stopped(1, 3).lost(), start(true, 1, 3), "quorum is lost, 1 of 3", nil},
		{"one stopped, one silent", formed(3).stopped(1).silent(3).lost(), start(true, 1), "quorum is lost, 1 of 3", nil},
		{"one stopped, the others silent: too few to wait for", formed(3).stopped(1).silent(2, 3).lost(), start(false, 1), "n1 stopped; the data is there", nil},
		{"container gone, volume there", formed(3).stopped(1, 2).lost().with(func(s *scene) { s.node(1).Containers = nil }), start(true, 1, 2), "n1 and n2 stopped", nil},
		{"two silent", formed(3).silent(1, 3).lost(), nil, "it is not known whether there is a quorum: n1 and n3 do not answer; check the network", []string{"CKE201 n1", "CKE215 n2", "CKE201 n3"}},
		{"it says what a person can do, and when", formed(3).silent(1, 3).lost(), nil, "; bring members back; only if at least 2 of the 3 are gone for good: ckecli recover", []string{"CKE201 n1", "CKE215 n2", "CKE201 n3"}},
		{"of five", formed(5).silent(1, 3, 4).lost(), nil, "only if at least 3 of the 5 are gone for good: ckecli recover", []string{"CKE201 n1", "CKE215 n2", "CKE201 n3", "CKE201 n4", "CKE215 n5"}},
		{"of two", formed(2).silent(1).lost(), nil, "only if at least 1 of the 2 is gone for good: ckecli recover", []string{"CKE201 n1", "CKE215 n2"}},
		{"the only one: nothing is left to recover from", formed(1).silent(1).lost(), nil, "bring it back; if it is gone for good: ckecli restore", []string{"CKE201 n1"}},
		{"two lost their data", formed(3).emptied(1, 2).lost(), nil, "no quorum", []string{"CKE213 n1", "CKE213 n2", "CKE215 n3"}},
		{"one lost its volume, one is stopped", formed(3).wiped(1).stopped(2).lost(), start(true, 2), "quorum is lost", nil},
		{"the engine restarts one", formed(3).stopped(1, 2).lost().with(restarting), start(true, 2), "n2 stopped", nil},
		{"one is paused", formed(3).stopped(2).lost().with(func(s *scene) { s.container(1).State = cke.ContainerPaused; s.quiet(1) }), start(true, 2), "n2 stopped", nil},
		{"all run and elect", formed(3).lost(), nil, "", []string{"CKE215 n1", "CKE215 n2", "CKE215 n3"}},
		{"nodes other than declared are not founded", formed(3).silent(1, 2, 3).lost().with(func(s *scene) { s.Spec.Nodes = spec(5).Nodes[3:] }), nil, "the cluster cannot be seen from here", []string{"CKE201 n1", "CKE201 n2", "CKE201 n3"}},
	})
}

// A formed cluster whose nodes are all blank is never founded again.
func TestDecide_NeverFoundsASecondCluster(t *testing.T) {
	check(t, []row{
		{"all blank", formed(3).wiped(1, 2, 3).lost(), nil, "a second cluster is never bootstrapped under its name", []string{"CKE301"}},
		{"the only one blank", formed(1).wiped(1).lost(), nil, "a second cluster is never bootstrapped", []string{"CKE301"}},
		{"two blank, one silent", formed(3).wiped(1, 2).silent(3).lost(), nil, "no quorum", []string{"CKE213 n1", "CKE213 n2", "CKE201 n3"}},
	})
	if d := strategy.Decide(formed(3).wiped(1, 2, 3).lost().Input); !strings.Contains(d.Blockers[0].Remedy, "restore from a backup") {
		t.Errorf("%+v", d.Blockers)
	}
}

// Requirements A10 and C9: what stopped is started on its own data; what cannot be helped is named.
func TestDecide_BringsMembersBackWithAQuorum(t *testing.T) {
	start := func(i int) op.StartMembers {
		return op.StartMembers{Joins: []cke.Join{formed(3).join(i)}, AwaitServing: true}
	}
	check(t, []row{
		{"stopped", formed(3).stopped(2), start(2), "n2 stopped; the data is there", nil},
		{"container gone", formed(3).with(func(s *scene) { s.node(2).Containers = nil; s.quiet(2) }), start(2), "n2 stopped", nil},
		{"created and never started", formed(3).stopped(2).with(func(s *scene) { s.container(2).State = cke.ContainerCreated }), start(2), "n2 stopped", nil},
		{"data not known", formed(3).stopped(2).with(func(s *scene) { s.container(2).Data = cke.DataUnknown }), start(2), "n2 stopped", nil},
		{"volume gone", formed(3).wiped(2), nil, "it is never started empty: n2: volume etcd-cke.join2 is gone", []string{"CKE213 n2"}},
		{"volume empty", formed(3).emptied(2), nil, "n2: volume etcd-cke.join2 holds no write-ahead log", []string{"CKE213 n2"}},
		{"restarting", formed(3).stopped(2).with(func(s *scene) { s.container(2).State = cke.ContainerRestarting }), nil, "waiting for n2", []string{"CKE212 n2"}},
		{"paused", formed(3).with(func(s *scene) { s.container(2).State = cke.ContainerPaused; s.quiet(2) }), nil, "waiting for n2", []string{"CKE215 n2"}},
		{"silent", formed(3).silent(2), nil, "waiting for n2: its data may be intact", []string{"CKE201 n2"}},
		{"runs and does not answer", formed(3).with(func(s *scene) { s.quiet(2) }), nil, "waiting for n2", []string{"CKE215 n2"}},
		{"answers, without a leader", formed(3).with(func(s *scene) { s.endpoint(2).Linearizable = false }), nil, "waiting for n2", []string{"CKE215 n2"}},
		{"its node is silent, it serves", formed(3).with(func(s *scene) {
			s.node(2).Problem = &cke.Problem{Code: cke.CodeEngine, Node: "n2", Message: "the engine hangs"}
		}), nil, "waiting for n2", []string{"CKE204 n2"}},
		{"no room on its disk", formed(3).stopped(2).with(func(s *scene) {
			s.container(2).State, s.container(2).LastWords = cke.ContainerRestarting, "no space left on device"
		}), nil, "waiting for n2", []string{"CKE207 n2"}},
	})
}

// unlisted lets reads through the quorum succeed, and no member list have come through one.
func (s *scene) unlisted() *scene {
	s.Seen.Etcd.MembersSource = cke.MembersUnknown
	return s
}

// Requirement I12: what the file says is intent; a running cluster that differs from it is told, not forced.
func TestDecide_StartsStoppedMembersBeforeItChangesTheList(t *testing.T) {
	check(t, []row{
		{"the list is not known: nothing is said of members", formed(3).running().unlisted().with(func(s *scene) { s.Spec = spec(4) }), nil, "no member list could be read through a quorum yet", nil},
		{"nor is anybody removed", formed(3).running().unlisted().undeclared(3), nil, "no member list could be read through a quorum yet", nil},
		{"nor is a membership ended", formed(3).running().unlisted().with(func(s *scene) { s.Seen.Etcd.Members = s.Seen.Etcd.Members[:2] }), nil, "no member list could be read through a quorum yet", nil},
		{"nor lost data replaced", formed(3).running().unlisted().wiped(3).with(func(s *scene) {
			s.Before.Members = []cke.MemberStatus{{Name: "n3", Join: s.join(3).ID, State: "missing", Watched: cke.Duration(time.Hour)}}
		}), nil, "no member list could be read through a quorum yet", nil},
		{"it is what a member alone believes", formed(3).running().unlisted().with(func(s *scene) { s.Seen.Etcd.MembersSource = cke.MembersLocal }).undeclared(3), nil, "no member list could be read through a quorum yet", nil},
		{"what stopped is started all the same", formed(3).running().unlisted().stopped(2), op.StartMembers{Joins: []cke.Join{formed(3).join(2)}, AwaitServing: true}, "n2 stopped", nil},
		{"a node more", formed(3).stopped(1).with(func(s *scene) { s.Spec = spec(4) }), op.StartMembers{Joins: []cke.Join{formed(3).join(1)}, AwaitServing: true}, "n1 stopped", nil},
	})
}

// Without a quorum nothing is decided for a person, but told: what recovering is, and when it is right.
func TestReport_NamesTheWayOutOfALostQuorum(t *testing.T) {
	for name, row := range map[string]struct {
		scene *scene
		says  string // "": nothing of it
	}{
		"two of three are silent":      {formed(3).silent(1, 2).lost(), "bring members back; only if at least 2 of the 3 are gone for good: ckecli recover"},
		"also while it is paused":      {formed(3).silent(1, 2).lost().held(), "ckecli recover"},
		"not while all run and elect":  {formed(3).lost(), ""},
		"not while one can be started": {formed(3).stopped(1).silent(2).lost(), ""},
		"not where nothing is left":    {formed(3).wiped(1, 2, 3).lost(), ""},
		"no member holds data":         {formed(3).emptied(1, 2, 3).lost(), "bring their volumes back; if they are gone for good: ckecli restore"},
		"nor the one that did not end": {formed(3).emptied(1, 2).stopped(3).marked(3).lost().judged(), "if they are gone for good: ckecli restore"},
		"one of them was never started": {formed(3).emptied(1, 2).wiped(3).lost().with(func(s *scene) { s.Identity.Joins[2].StartedAt = time.Time{} }),
			"if they are gone for good: ckecli restore"},
		"one of them may hold it":            {formed(3).emptied(1, 2).silent(3).lost(), "only if at least 2 of the 3 are gone for good: ckecli recover"},
		"one of them runs without its files": {formed(3).running().hollow(time.Minute, 1).emptied(2).wiped(3).lost(), "ckecli recover"},
		"not in a hibernated cluster":        {formed(3).stopped(1, 2, 3).lost().hibernated(), ""},
		"not in one that is deleted":         {formed(3).silent(1, 2).lost().with(func(s *scene) { s.Deleting = true }), ""},
		"not in one that has its quorum":     {formed(3).silent(1), ""},
		"two of four run, one is not ours":   {formed(3).silent(1).lost().stranger("x"), "bring members back; only if at least 2 of the 4 are gone for good: ckecli recover"},
	} {
		says := ""
		for _, p := range row.scene.report().Problems {
			if p.Code == cke.CodeNoQuorum || p.Code == cke.CodeUnseen {
				says = p.Remedy
			}
		}
		if !strings.Contains(says, row.says) || row.says == "" && says != "" {
			t.Errorf("%s: %q", name, says)
		}
	}
}

func TestDecide_CountsVotersThatItDoesNotKnow(t *testing.T) {
	check(t, []row{
		{"two of four run", formed(3).running().stopped(3).emptied(3).lost().stranger("x"), nil,
			"no quorum: 2 of 4 members run, 3 are needed; waiting for n1, n2, n3, and etcd lists foreign members: x at https://10.9.9.9:2380", []string{"CKE215 n1", "CKE215 n2", "CKE213 n3"}},
		{"a learner that runs does not count", formed(3).running().learner(3, true).silent(2).lost().with(func(s *scene) {
			s.Before.Incarnation, s.Before.Etcd = "life", cke.EtcdStatus{Members: formed(3).learner(3, true).Seen.Etcd.Members}
		}), nil,
			"it is not known whether there is a quorum: n2 does not answer; check the network between this management host and the nodes; bring members back; only if at least 1 of the 2 is gone for good: ckecli recover", []string{"CKE215 n1", "CKE201 n2", "CKE215 n3"}},
	})
}

// Nobody would notice before the power fails.
func TestDecide_LetsEnginesStartMembers(t *testing.T) {
	down := func(i int) func(*scene) { return func(s *scene) { s.container(i).KeptDown = true } }
	keep := func(i int) op.KeepRunning { return op.KeepRunning{Joins: []cke.Join{formed(3).join(i)}} }
	check(t, []row{
		{"a stop that was not finished", formed(3).with(down(2)), keep(2), "n2 would stay down after a crash", nil},
		{"while another one is away", formed(3).silent(3).with(down(2)), keep(2), "n2 would stay down", nil},
		{"not of a learner, whose first start it is", formed(4).running().learner(4, true).with(down(4)), op.PromoteMember{Join: formed(4).join(4)}, "", nil},
		{"not of a voter whose container could start it empty, as one that a person promoted", formed(3).with(down(2)).with(func(s *scene) { s.container(2).StartsEmpty = true }),
			op.RestartMember{Join: formed(3).join(2), Etcd: formed(3).join(2).Etcd}, "could start the member without its data", nil},
		{"not on a node that is drained", formed(3).with(down(2)).drained(2), nil, "waiting for n2", []string{"CKE112 n2"}},
		{"not while it is founded", forming(3, true).with(down(2)), forming(3, true).bootstrap(true), "", nil},
	})
}

// Whoever reads that a member's data is gone has to find how to go on: a fresh member, or, of the only one, a restore.
func TestDecide_TellsTheWayOutWhereDataIsGone(t *testing.T) {
	remedy := func(s *scene, node string) string {
		for _, p := range s.report().Problems {
			if p.Code == cke.CodeDataMissing && p.Node == node {
				return p.Remedy
			}
		}
		return ""
	}
	if got := remedy(formed(3).wiped(2), "n2"); !strings.Contains(got, "`ckecli replace n2`") {
		t.Errorf("of three: %q", got)
	}
	if got := remedy(formed(3).wiped(1, 2).lost(), "n2"); got != "bring the volume back" {
		t.Errorf("where one of three is left, which no replacement can be voted in by: %q", got)
	}
	if got := remedy(formed(3).emptied(1, 2).crashes(2).lost(), "n2"); got != "bring the volume back" {
		t.Errorf("where its engine starts it again and again: %q", got)
	}
	if got := remedy(formed(3).wiped(1, 2, 3).lost(), "n2"); !strings.Contains(got, "`ckecli restore`") || strings.Contains(got, "replace") {
		t.Errorf("where none is left: %q", got)
	}
	if got := remedy(formed(1).emptied(1).lost(), "n1"); !strings.Contains(got, "`ckecli restore`") || strings.Contains(got, "replace") {
		t.Errorf("the only one: %q", got)
	}
	if got := remedy(formed(2).emptied(1).stopped(2).marked(2).lost().judged(), "n1"); !strings.Contains(got, "`ckecli restore`") {
		t.Errorf("the only one that did not end: %q", got)
	}
	if got := remedy(formed(3).emptied(1).silent(2, 3).lost(), "n1"); got != "bring the volume back" {
		t.Errorf("while the others are silent: %q", got)
	}
	if got := remedy(formed(3).running().hollow(time.Minute, 1).silent(2, 3).lost().remembered(), "n1"); !strings.Contains(got, "do not stop it") || strings.Contains(got, "replace") {
		t.Errorf("runs on removed files while the others are silent: %q", got)
	}
	if d := strategy.Decide(formed(1).stopped(1).crashes(1).lost().Input); !strings.Contains(d.Reason, "1 is needed") {
		t.Errorf("of one: %q", d.Reason)
	}
}
