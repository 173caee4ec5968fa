package strategy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// report is what is told of a scene by itself.
func (s *scene) report() cke.Status { return s.reportAfter(cke.Status{}) }

func (s *scene) reportAfter(prev cke.Status) cke.Status {
	return strategy.Report(s.Input, strategy.Decide(s.Input), prev)
}

// later is the same scene, seen a time later.
func (s *scene) later(d time.Duration) *scene {
	s.Seen.ObservedAt = s.Seen.ObservedAt.Add(d)
	for i := range s.Seen.Nodes {
		if c := &s.Seen.Nodes[i].Clock; !c.IsZero() {
			*c = c.Add(d)
		}
	}
	return s
}

// held lets a person have asked for a pause of half an hour.
func (s *scene) held() *scene {
	s.Requests.Hold = &cke.Hold{Reason: "new switch", By: "ann@desk", Since: noon, Until: noon.Add(30 * time.Minute)}
	return s
}

// abandonedLife lets the founding of the scene have been abandoned.
func (s *scene) abandonedLife() *scene {
	s.Identity.Incarnation.State = cke.Abandoned
	return s
}

// certified lets the members show certificates that end after so many days.
func (s *scene) certified(days ...int) *scene {
	for i, d := range days {
		s.endpoint(i + 1).CertNotAfter = noon.Add(time.Duration(d) * 24 * time.Hour)
	}
	return s
}

// indices gives the members raft indices; the first one leads.
func (s *scene) indices(index uint64, applied ...uint64) *scene {
	for i, a := range applied {
		e := s.endpoint(i + 1)
		e.RaftTerm, e.RaftIndex, e.RaftApplied = 3, index, a
	}
	return s
}

func TestReport_HealthAndSummary(t *testing.T) {
	for _, tt := range []struct {
		name    string
		scene   *scene
		health  cke.Health
		summary string
		ready   int
		// tolerance is how many more voters can be lost.
		tolerance int
	}{
		{"all serve", formed(3), cke.HealthReady, "all 3 members serve, can lose 1 more member", 3, 1},
		{"five", formed(5), cke.HealthReady, "all 5 members serve, can lose 2 more members", 5, 2},
		{"two can lose none", formed(2), cke.HealthReady, "all 2 members serve, can lose 0 more members", 2, 0},
		{"a single one", formed(1), cke.HealthReady, "its only member serves, can lose 0 more members", 1, 0},
		{"one is silent", formed(3).silent(3), cke.HealthDegraded, "quorum held, can lose 0 more members", 2, 0},
		{"one of five stopped", formed(5).stopped(2), cke.HealthDegraded, "quorum held, can lose 1 more member", 4, 1},
		{"its data is gone", formed(3).emptied(1), cke.HealthDegraded, "quorum held, can lose 0 more members", 2, 0},
		{"the node is silent and its member serves", formed(3).with(func(s *scene) {
			s.node(2).Problem = &cke.Problem{Code: cke.CodeUnreachable, Node: "n2", Message: "no answer"}
		}), cke.HealthDegraded, "quorum held, can lose 1 more member", 3, 1},
		{"two are silent", formed(3).silent(2, 3).lost(), cke.HealthUnknown, "it is not known whether there is a quorum: n2 and n3 do not answer", 0, -1},
		{"all are silent", formed(3).silent(1, 2, 3).lost(), cke.HealthUnknown, "the cluster cannot be seen from here: n1, n2 and n3 do not answer, and may serve", 0, -1},
		{"two of five are silent, three know no leader", formed(5).silent(2, 3).lost(), cke.HealthLost, "no quorum: 0 of 5 members serve, 3 needed", 0, -1},
		{"two are silent, and their nodes answer", formed(3).quietMembers(2, 3).lost(), cke.HealthUnknown, "it is not known whether there is a quorum: n2 and n3 do not answer", 0, -1},
		{"two are stopped", formed(3).stopped(2, 3).lost(), cke.HealthLost, "no quorum: 0 of 3 members serve, 2 needed", 0, -1},
		{"one is stopped, two are silent", formed(3).stopped(1).silent(2, 3).lost(), cke.HealthUnknown, "it is not known whether there is a quorum: n2 and n3 do not answer", 0, -1},
		{"one is silent, of two data is gone", formed(3).silent(1).emptied(2, 3).lost(), cke.HealthLost, "no quorum: 0 of 3 members serve, 2 needed", 0, -1},
		{"a foreign member is silent, too", formed(2).silent(2).lost().stranger("x"), cke.HealthUnknown, "it is not known whether there is a quorum: n2 and x do not answer", 0, -1},
		{"all are blank", formed(3).wiped(1, 2, 3).lost(), cke.HealthLost, "no quorum: 0 of 3 members serve, 2 needed", 0, -1},
		{"to be founded", blank(3), cke.HealthForming, "being bootstrapped", 0, -1},
		{"a node is awaited", blank(3).silent(2), cke.HealthForming, "not bootstrapped yet, waiting for n2", 0, -1},
		{"the founding failed for no node's fault", blank(3).with(func(s *scene) {
			f := strategy.Failure{Count: 1, At: noon, Error: "no entropy", Problems: []cke.Problem{{Code: cke.CodeInternal, Message: "no entropy"}}}
			s.Failures = map[string]strategy.Failure{strategy.FailureKey(s.bootstrap(false)): f}
		}), cke.HealthForming, "not bootstrapped yet: bootstrap failed once", 0, -1},
		{"under way", forming(3, true), cke.HealthForming, "being bootstrapped", 0, -1},
		{"abandoned", forming(3, true).abandonedLife(), cke.HealthForming, "being bootstrapped", 0, -1},
		{"another cluster answers", formed(3).with(func(s *scene) { s.endpoint(2).ClusterID = "c2" }), cke.HealthFrozen, "the member at https://10.0.0.2:2379 answers with cluster id c2, on record is c1", 2, 0},
		{"paused, as it should be", formed(3).held(), cke.HealthReady, "all 3 members serve, can lose 1 more member", 3, 1},
		{"paused, with a change to come", formed(3).held().with(func(s *scene) { s.Spec.Options.Etcd.ExtraArgs = []string{"--x=1"} }),
			cke.HealthDegraded, "quorum held, can lose 1 more member", 3, 1},
		{"to be deleted", formed(3).with(func(s *scene) { s.Deleting = true }), cke.HealthDeleting, "being deleted; volumes are kept", 3, 1},
		{"nothing was looked at", formed(3).with(func(s *scene) { s.Seen.Nodes, s.Seen.Etcd = nil, cke.EtcdStatus{} }), cke.HealthUnknown, "the cluster cannot be seen from here", 0, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.scene.report()
			if s.Health != tt.health || !strings.HasPrefix(s.Summary, tt.summary) || s.Ready != tt.ready || s.Tolerance != tt.tolerance {
				t.Errorf("%s %q, ready %d, tolerance %d; want %s %q, %d, %d", s.Health, s.Summary, s.Ready, s.Tolerance, tt.health, tt.summary, tt.ready, tt.tolerance)
			}
			if s.Declared != len(tt.scene.Spec.Nodes) || s.Reason == "" {
				t.Errorf("declared %d, reason %q", s.Declared, s.Reason)
			}
		})
	}
}

// Requirements I12, C5: the member list decides who votes, answers of its own who is healthy.
func TestReport_ToleranceCountsVotersOfTheMemberList(t *testing.T) {
	for _, tt := range []struct {
		name  string
		scene *scene
		want  int
	}{
		{"seven", formed(7), 3},
		{"seven, three down", formed(7).stopped(1, 2, 3), 0},
		{"four can lose as many as three", formed(4), 1},
		{"a stranger counts, and not as healthy", formed(3).with(func(s *scene) {
			s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, cke.Member{ID: "x", PeerURLs: []string{"https://10.9.9.9:2380"}})
		}), 0},
		{"a learner does not vote", formed(4).with(func(s *scene) {
			s.Seen.Etcd.Members[3].Learner, s.endpoint(4).Learner = true, true
		}), 1},
		{"an error of its own makes a member unhealthy", formed(3).with(func(s *scene) { s.endpoint(3).Errors = []string{"etcdserver: mvcc: database space exceeded"} }), 0},
		{"nobody told the member list", formed(3).with(func(s *scene) { s.Seen.Etcd.Members = nil }), 0},
		{"no quorum", formed(3).lost(), -1},
	} {
		if got := tt.scene.report().Tolerance; got != tt.want {
			t.Errorf("%s: tolerance %d, want %d", tt.name, got, tt.want)
		}
	}
}

// Requirements A10, D13: role, state and reason of each member.
func TestReport_TellsOfEveryMemberInAWord(t *testing.T) {
	for _, tt := range []struct {
		name  string
		scene *scene
		want  []string // "name state role ready"
	}{
		{"all serve", formed(3), []string{"n1 healthy leader true", "n2 healthy follower true", "n3 healthy follower true"}},
		{"never founded", blank(2), []string{"n1 waiting - false", "n2 waiting - false"}},
		{"never founded, and silent", blank(2).silent(1), []string{"n1 unreachable - false", "n2 waiting - false"}},
		{"an abandoned life has no members", forming(2, true).abandonedLife(), []string{"n1 waiting - false", "n2 waiting - false"}},
		{"starting", forming(1, true), []string{"n1 starting - false"}},
		{"silent", formed(3).silent(2), []string{"n1 healthy leader true", "n2 unreachable - false", "n3 healthy follower true"}},
		{"stopped", formed(3).stopped(1), []string{"n1 stopped - false", "n2 healthy follower true", "n3 healthy follower true"}},
		{"emptied", formed(3).emptied(3), []string{"n1 healthy leader true", "n2 healthy follower true", "n3 missing - false"}},
		{"wiped", formed(3).wiped(3), []string{"n1 healthy leader true", "n2 healthy follower true", "n3 missing - false"}},
		{"runs and does not answer", formed(1).with(func(s *scene) { s.quiet(1) }), []string{"n1 unhealthy - false"}},
		{"no quorum", formed(1).lost(), []string{"n1 unhealthy follower false"}},
		{"a learner is never ready", formed(2).with(func(s *scene) { s.endpoint(2).Learner, s.Seen.Etcd.Members[1].Learner = true, true }),
			[]string{"n1 healthy leader true", "n2 healthy learner false"}},
		{"not looked at", formed(1).with(func(s *scene) { s.Seen.Nodes, s.Seen.Etcd = nil, cke.EtcdStatus{} }), []string{"n1 unreachable - false"}},
		{"one that is declared no more stands last", formed(2).with(func(s *scene) { s.Spec.Nodes = s.Spec.Nodes[1:] }),
			[]string{"n2 healthy follower true", "n1 healthy leader true"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, m := range tt.scene.report().Members {
				got = append(got, fmt.Sprintf("%s %s %s %v", m.Name, m.State, m.Role, m.Ready))
				if (m.Reason == "") != (m.State == "healthy") {
					t.Errorf("%s is %s for the reason %q", m.Name, m.State, m.Reason)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
		})
	}
}

// A member of a node that is declared no more, or no control plane, makes up for none that is.
// Requirements D12, D14: the denominator is the declared size.
func TestReport_ReadyCountsDeclaredMembersOnly(t *testing.T) {
	s := formed(3).with(func(s *scene) {
		s.Spec.Nodes[2].ControlPlane = false
		s.Spec.Nodes = append(s.Spec.Nodes, cke.Node{Hostname: "n4", Address: "10.0.0.4", ControlPlane: true})
	}).report()
	c, _ := s.Condition(cke.CondAllMembersReady)
	if s.Ready != 2 || s.Declared != 3 || c.Status != cke.False || s.Health == cke.HealthReady {
		t.Errorf("%d of %d ready, %s, %+v", s.Ready, s.Declared, s.Health, c)
	}
	// A host name may change while the member keeps its own.
	s = formed(3).with(func(s *scene) { s.Spec.Nodes[2].Hostname = "renamed" }).report()
	if s.Ready != 3 {
		t.Errorf("%d ready after a change of a host name", s.Ready)
	}
}

func TestReport_LagIsUnknownWithoutALeaderToCompareWith(t *testing.T) {
	for _, tt := range []struct {
		name  string
		scene *scene
		want  []int64
	}{
		{"behind the leader", formed(3).indices(100, 100, 98, 40), []int64{0, 2, 60}},
		{"asked after the leader was", formed(3).indices(100, 100, 103, 100), []int64{0, 0, 0}},
		{"no index told", formed(3), []int64{-1, -1, -1}},
		{"the leader answers the others only", formed(3).indices(100, 100, 98, 40).silent(1), []int64{-1, 2, 60}},
		{"no leader", formed(3).indices(100, 100, 98, 40).lost(), []int64{-1, -1, -1}},
		{"one that was cut off takes itself for the leader", formed(3).indices(100, 100, 98, 40).with(func(s *scene) {
			s.endpoint(3).LeaderID, s.endpoint(3).RaftTerm, s.endpoint(3).RaftIndex = "m3", 2, 9000
		}), []int64{0, 2, 60}},
	} {
		var got []int64
		for _, m := range tt.scene.report().Members {
			got = append(got, m.Lag)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// Requirements A21, D14: each condition is a function of what was seen, and unknown is not good.
func TestReport_Conditions(t *testing.T) {
	const ready, all, quorum, id, certs, volumes, progress, pause = cke.CondReady, cke.CondAllMembersReady, cke.CondQuorate,
		cke.CondClusterIDMismatch, cke.CondCertificatesValid, cke.CondDataVolumesReady, cke.CondProgressing, cke.CondPaused
	type conds map[cke.ConditionType]string // "Status Reason"
	for _, tt := range []struct {
		name  string
		scene *scene
		want  conds
	}{
		{"all is well", formed(3).certified(300, 200, 300), conds{ready: "True AllServing", all: "True AllServing", quorum: "True LinearizableRead",
			id: "False SameID", certs: "True Valid", volumes: "True AllThere", progress: "False Done", pause: "False NotAsked"}},
		{"never founded", blank(3), conds{ready: "False Forming", all: "False SomeNotServing", quorum: "False NotFounded",
			id: "Unknown NotFounded", certs: "Unknown NotSeen", volumes: "False NotFounded", progress: "True Operation"}},
		{"being bootstrapped", forming(3, true), conds{volumes: "False NotFounded", id: "Unknown NotFounded", progress: "True Operation"}},
		{"founding waits", blank(3).silent(1), conds{progress: "False Waiting"}},
		{"founding is held back", blank(3).with(func(s *scene) { s.failed(s.bootstrap(false), 3, 0) }), conds{ready: "False Forming", progress: "False Failing"}},
		{"a failure of something else does not count", formed(3).silent(1).failed(op.CleanUp{}, 1, time.Minute), conds{progress: "False Waiting"}},
		{"a silent node", formed(3).certified(300, 300, 300).silent(2), conds{ready: "False Degraded", all: "Unknown NodeSilent",
			quorum: "True LinearizableRead", volumes: "Unknown NodeSilent", certs: "Unknown NotSeen"}},
		{"data is gone", formed(3).emptied(2), conds{volumes: "False DataMissing"}},
		{"no quorum", formed(3).silent(2, 3).lost(), conds{ready: "Unknown NotSeen", quorum: "Unknown NotSeen", all: "False SomeNotServing"}},
		{"nobody answers", formed(3).silent(1, 2, 3).lost(), conds{ready: "Unknown NotSeen", quorum: "Unknown NotSeen", all: "Unknown NodeSilent", id: "Unknown NoAnswer", volumes: "Unknown NodeSilent", progress: "False Waiting"}},
		{"two are stopped", formed(3).stopped(2, 3).lost().held(), conds{ready: "False QuorumLost", quorum: "False QuorumLost"}},
		{"blank nodes", formed(3).wiped(1, 2, 3).lost(), conds{ready: "False BlankNodes", quorum: "False QuorumLost", id: "Unknown NoAnswer"}},
		{"two clusters", formed(3).with(func(s *scene) { s.endpoint(3).ClusterID = "c2" }), conds{ready: "False Frozen", id: "True Frozen", progress: "False Frozen"}},
		{"two clusters, being deleted", formed(3).with(func(s *scene) { s.endpoint(3).ClusterID, s.Deleting = "c2", true }), conds{ready: "False Deleting", id: "True Frozen"}},
		{"paused", formed(3).held(), conds{ready: "True AllServing", progress: "False Paused", pause: "True Asked"}},
		{"paused, and a member stopped", formed(3).stopped(1).held(), conds{ready: "False Degraded", progress: "False Paused", pause: "True Asked"}},
		{"a pause that is over", formed(3).held().later(31 * time.Minute), conds{progress: "False Done", pause: "False NotAsked"}},
		{"a change waits for consent", formed(3).with(func(s *scene) {
			s.Spec.Policies.Reconcile, s.Spec.Options.Etcd.ExtraArgs = cke.ReconcileManual, []string{"--x=1"}
		}), conds{ready: "False Degraded", progress: "False Waiting"}},
		{"a certificate ends soon", formed(3).certified(300, 13, 300), conds{certs: "False Expiring", ready: "True AllServing"}},
		{"a certificate has ended", formed(3).certified(300, -1, 300), conds{certs: "False Expiring"}},
		{"one ends soon, one was not shown", formed(3).certified(300, 13), conds{certs: "False Expiring"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.scene.report()
			got, seen := conds{}, map[cke.ConditionType]bool{}
			for _, c := range s.Conditions {
				if seen[c.Type] {
					t.Errorf("%s is told twice", c.Type)
				}
				seen[c.Type] = true
				if _, asked := tt.want[c.Type]; asked {
					got[c.Type] = fmt.Sprintf("%s %s", c.Status, c.Reason)
				}
				if c.Message == "" || c.Since.IsZero() {
					t.Errorf("incomplete: %+v", c)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// Requirement D13: the time of a transition lasts as long as the state.
func TestReport_KeepsTheTimesOfTransitions(t *testing.T) {
	since := func(s cke.Status) map[string]time.Time {
		all := map[string]time.Time{}
		for _, c := range s.Conditions {
			all[string(c.Type)] = c.Since
		}
		for _, m := range s.Members {
			all[m.Name] = m.Since
		}
		for _, p := range s.Problems {
			all[p.Node+string(p.Code)] = p.Since
		}
		return all
	}
	differ := func(a, b map[string]time.Time) (names []string) {
		for name, at := range b {
			if !a[name].Equal(at) {
				names = append(names, name)
			}
		}
		return names
	}
	first := formed(3).report()
	same := formed(3).later(time.Minute).reportAfter(first)
	if d := differ(since(first), since(same)); d != nil || !same.ObservedAt.Equal(noon.Add(time.Minute)) {
		t.Errorf("nothing changed, and %v are new", d)
	}
	broken := formed(3).later(2 * time.Minute).emptied(2).reportAfter(same)
	want := map[string]bool{"n2": true, "Ready": true, "AllMembersReady": true, "DataVolumesReady": true, "n2CKE213": true}
	for _, name := range differ(since(same), since(broken)) {
		if !want[name] {
			t.Errorf("%s is new", name)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("not new: %v", want)
	}
	still := formed(3).later(3 * time.Minute).emptied(2).reportAfter(broken)
	if d := differ(since(broken), since(still)); d != nil {
		t.Errorf("nothing changed, and %v are new", d)
	}
	// Another membership on the same node has another history.
	replaced := formed(3).later(4 * time.Minute).with(func(s *scene) {
		old := s.join(3).ID
		s.Identity.Joins[2].ID, s.endpoint(3).Join, s.container(3).Join, s.node(3).Volumes[0].Join = "other", "other", "other", "other"
		if old == "other" {
			t.Fatal("the same join")
		}
	}).reportAfter(still)
	if m := replaced.Members[2]; !m.Since.Equal(noon.Add(4 * time.Minute)) {
		t.Errorf("a new member since %s", m.Since)
	}
}

func TestReport_CarriesOnWhatASilentMemberShowedLast(t *testing.T) {
	before := formed(3).certified(300, 300, 300).report()
	s := formed(3).certified(300, 300, 300).later(time.Minute).silent(2).reportAfter(before)
	if m := s.Members[1]; !m.CertNotAfter.Equal(before.Members[1].CertNotAfter) || m.CertNotAfter.IsZero() || m.Version != "" || m.Lag != -1 {
		t.Errorf("silent member %+v", m)
	}
	if c, _ := s.Condition(cke.CondCertificatesValid); c.Status != cke.True {
		t.Errorf("%+v", c)
	}
	// Time passes all the same.
	s = formed(3).later(290 * 24 * time.Hour).silent(2).reportAfter(before)
	if c, _ := s.Condition(cke.CondCertificatesValid); c.Status != cke.False || c.Reason != "Expiring" {
		t.Errorf("%+v", c)
	}
}

// Requirements D1, D11: consumers may trust observedGeneration.
func TestReport_GenerationIsReachedLastAndOnlyWhenAllIsDone(t *testing.T) {
	at := func(generation int64, s *scene) *scene {
		s.Generation = generation
		return s
	}
	for _, tt := range []struct {
		name  string
		scene *scene
		prev  int64
		want  int64
	}{
		{"all is done", at(5, formed(3)), 4, 5},
		{"a member is silent", at(5, formed(3).silent(1)), 4, 4},
		{"all is done before a pause", at(5, formed(3).held()), 4, 5},
		{"something is to be done after a pause", at(5, formed(3).stopped(1).held()), 4, 4},
		{"something is to be done", at(5, formed(3).stopped(1)), 4, 4},
		{"a member is not as declared", at(5, formed(3).with(func(s *scene) { s.Spec.Options.Etcd.ExtraArgs = []string{"--x=1"} })), 4, 4},
		{"reached once, degraded now", at(5, formed(3).silent(1)), 5, 5},
		{"frozen", at(5, formed(3).with(func(s *scene) { s.endpoint(1).ClusterID = "c2" })), 4, 4},
		{"being deleted", at(5, formed(3).with(func(s *scene) { s.Deleting = true })), 4, 4},
		{"never founded", at(1, blank(3)), 0, 0},
	} {
		s := tt.scene.reportAfter(cke.Status{ObservedGeneration: tt.prev})
		if s.ObservedGeneration != tt.want || s.Generation != tt.scene.Generation {
			t.Errorf("%s: reached generation %d, want %d", tt.name, s.ObservedGeneration, tt.want)
		}
	}
	// Not while an operation is under way, whatever the look says.
	s := strategy.Report(at(5, formed(3)).Input, strategy.Decision{Operation: op.StartMembers{}, Reason: "under way"}, cke.Status{ObservedGeneration: 4})
	if s.ObservedGeneration != 4 || s.Health == cke.HealthReady {
		t.Errorf("%s, generation %d", s.Health, s.ObservedGeneration)
	}
}

// condition is "Status Reason" of a stored condition.
func condition(s cke.Status, t cke.ConditionType) string {
	c, _ := s.Condition(t)
	return fmt.Sprintf("%s %s", c.Status, c.Reason)
}
