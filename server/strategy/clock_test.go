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

// clocks lets the nodes' clocks be ahead of the daemon's by so many minutes; silentClock: that node does not answer.
func (s *scene) clocks(minutes ...int) *scene {
	for i, m := range minutes {
		s.node(i + 1).Clock = noon.Add(time.Duration(m) * time.Minute)
		if m == silentClock {
			s.silent(i + 1)
		}
	}
	return s
}

// at lets the time be so long after noon, by every clock.
func (s *scene) at(d time.Duration) {
	s.Seen.ObservedAt = noon.Add(d)
	for i := range s.Seen.Nodes {
		s.Seen.Nodes[i].Clock = s.Seen.ObservedAt
	}
}

const silentClock = 1 << 20

func TestReport_TellsWhichClockIsOff(t *testing.T) {
	const daemon = "CKE217 the clock of the daemon's host is "
	for _, row := range []struct {
		name   string
		clocks []int
		status cke.Truth
		reason string
		told   string // problems, one a line
	}{
		{"all agree", []int{0, 1, -1}, cke.True, "Agree", ""},
		{"within the limit", []int{10, 10, 10}, cke.True, "Agree", ""},
		{"the daemon's is behind", []int{11, 11, 11}, cke.False, "DaemonOff", daemon + "11m0s behind that of the nodes (n1, n2, n3)"},
		{"the daemon's is months ahead", []int{-200000, -200000, -200001}, cke.False, "DaemonOff", daemon + "3333h20m0s ahead of"},
		{"one node's is ahead", []int{0, 60, 0}, cke.False, "NodeOff", "CKE217 n2: its clock is 1h0m0s ahead of most others"},
		{"one node's is behind", []int{0, 0, -60}, cke.False, "NodeOff", "CKE217 n3: its clock is 1h0m0s behind most others"},
		{"the daemon's and a node's", []int{60, 60, 0}, cke.False, "DaemonOff", daemon + "1h0m0s behind that of the nodes (n1, n2, n3)\nCKE217 n3: its clock is 1h0m0s behind most others"},
		{"of two nodes, one agrees with the daemon", []int{60, 0}, cke.False, "NodeOff", "CKE217 n1: its clock is 1h0m0s ahead of most others"},
		{"of two nodes, none does", []int{60, 60}, cke.False, "DaemonOff", daemon + "1h0m0s behind that of the nodes (n1, n2)"},
		{"the only node's differs", []int{60}, cke.False, "DaemonOff", daemon + "1h0m0s behind that of the nodes (n1)"},
		{"four nodes, two and two", []int{60, 60, 0, 0}, cke.False, "NodeOff", "CKE217 n1: its clock is 1h0m0s ahead of most others\nCKE217 n2: its clock"},
		{"silent ones do not count", []int{60, silentClock, 60}, cke.False, "DaemonOff", daemon + "1h0m0s behind that of the nodes (n1, n3)"},
		{"too few", []int{0, silentClock, silentClock}, cke.Unknown, "TooFew", ""},
		{"two of three are enough", []int{0, 0, silentClock}, cke.True, "Agree", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			st := formed(len(row.clocks)).clocks(row.clocks...).report()
			if c, _ := st.Condition(cke.CondClocksAgree); c.Status != row.status || c.Reason != row.reason {
				t.Errorf("%+v", c)
			}
			var told []string
			for _, p := range st.Problems {
				if p.Code == cke.CodeClock {
					told = append(told, fmt.Sprintf("%s %s: %s", p.Code, p.Node, p.Message))
				}
			}
			got := strings.ReplaceAll(strings.Join(told, "\n"), "CKE217 : ", "CKE217 ")
			want := strings.Split(row.told, "\n")
			if len(told) != len(want) && row.told != "" || row.told == "" && told != nil {
				t.Fatalf("told %q", got)
			}
			for i, line := range strings.Split(got, "\n") {
				if !strings.HasPrefix(line, want[i]) {
					t.Errorf("told %q, want %q", line, want[i])
				}
			}
		})
	}
}

// With a clock that is wrong nothing is done that depends on the time; what brings members back is done all the same.
func TestDecide_WaitsWithWhatDependsOnAClockThatIsWrong(t *testing.T) {
	ahead := func(s *scene) { s.clocks(-200000, -200000, -200000) }
	behind := func(s *scene) { s.clocks(60, 60, 60) }
	gone := func() *scene {
		return formed(3).emptied(2).with(func(s *scene) {
			s.Spec.Policies.Replace = cke.ReplacePolicy{Mode: cke.ReplaceAuto, Grace: cke.Duration(time.Minute)}
			s.Before.ObservedAt = noon
			s.Before.Members = []cke.MemberStatus{{Name: "n2", Join: s.join(2).ID, State: "missing", Since: noon.Add(-time.Hour), Watched: cke.Duration(time.Hour)}}
		})
	}
	old := func() *scene {
		return formed(3).with(func(s *scene) {
			j := cke.Join{ID: "old", Incarnation: "life", Node: s.Spec.Nodes[0], Volume: "etcd-cke.old", EndedAt: noon.Add(-time.Hour), KeepUntil: noon.Add(-time.Minute)}
			s.end(j)
		})
	}
	window := func() *scene {
		return formed(3).running().with(func(s *scene) {
			s.Spec.Policies.Reconcile, s.Spec.Policies.Window = cke.ReconcileWindow, cke.Window{Schedule: "0 12 * * *", Duration: cke.Duration(time.Hour)}
			s.Spec.Options.Etcd.ExtraArgs = []string{"--x"}
		})
	}
	leased := func(left time.Duration) *scene {
		return formed(3).leased(2).with(func(s *scene) { s.Requests.Drains[0].Until = noon.Add(left) })
	}
	pausedUntil := func(left time.Duration) *scene {
		return formed(3).stopped(2).with(func(s *scene) { s.Requests.Hold = &cke.Hold{Reason: "tests", Until: noon.Add(left)} })
	}
	restart := op.RestartMember{Join: formed(3).join(2), Etcd: window().Spec.Options.Etcd}
	withdraw := func(s *scene) { s.Spec.Nodes = s.Spec.Nodes[:2] }
	removal := remove(formed(3), 3)
	kept := removal
	kept.Volumes = cke.VolumePolicies{OnRemoval: cke.VolumeArchive, Keep: cke.Duration(time.Hour)}
	longer := kept
	longer.Volumes.Keep = cke.Duration(2 * time.Hour)
	archive := func(s *scene) { s.Spec.Policies.Volumes = kept.Volumes }
	purge := op.PurgeVolume{Join: old().Identity.Ended[0]}
	check(t, []row{
		{"certificates are renewed", formed(3).renewable(100, 300, 300), op.RenewCertificates{Join: formed(3).join(1)}, "", nil},
		{"but not so", formed(3).renewable(100, 300, 300).with(ahead), nil, "renew-certificates waits: the clock of the daemon's host is 3333h20m0s ahead of", []string{"CKE217"}},
		{"also if none would hold", formed(3).allCertified(-1).with(behind), nil, "renew-certificates waits: the clock of the daemon's host is 1h0m0s behind", []string{"CKE217"}},
		{"members that stopped are started", formed(3).allCertified(-1).stopped(3).with(ahead), op.StartMembers{Joins: []cke.Join{formed(3).join(3)}, AwaitServing: true}, "", nil},
		{"a founding", blank(3).with(ahead), nil, "bootstrap waits: the clock", []string{"CKE217"}},
		{"the grace of lost data is over", gone(), repairing(remove(gone(), 2)), "the data of n2 is gone", nil},
		{"but nobody knows", gone().with(ahead), nil, "for how long is not known: the clock of the daemon's host", []string{"CKE213 n2"}},
		{"the window is open", window(), restart, "", nil},
		{"but nobody knows", window().with(behind), nil, "it is not known whether a maintenance window is open: the clock", nil},
		{"a volume's time is over", old(), purge, "its time is over", nil},
		{"but nobody knows", old().with(ahead), nil, "nothing to do", nil},
		{"nor while too few told theirs", old().with(func(s *scene) { s.clocks(0, 0, 0); s.node(2).Clock, s.node(3).Clock = time.Time{}, time.Time{} }), nil, "nothing to do", nil},
		{"one node's own clock keeps nothing waiting", old().clocks(0, 0, 600), purge, "its time is over", nil},
		{"a lease is over", leased(-time.Minute), op.StartMembers{Joins: []cke.Join{formed(3).join(2)}, AwaitServing: true}, "", nil},
		{"not by the nodes' clocks", leased(-time.Minute).with(ahead), nil, "", []string{"CKE112 n2"}},
		{"nor by a clock that is behind", leased(time.Minute).with(behind), nil, "", []string{"CKE112 n2"}},
		{"a pause is over", pausedUntil(-time.Minute), op.StartMembers{Joins: []cke.Join{formed(3).join(2)}, AwaitServing: true}, "", nil},
		{"not by the nodes' clocks either", pausedUntil(-time.Minute).with(ahead), nil, "paused: tests", nil},
		{"a volume is archived for an hour", formed(3).quietMembers(3).with(withdraw).with(archive), kept, "", nil},
	})
	d := strategy.Decide(formed(3).quietMembers(3).with(withdraw).with(archive).with(behind).Input)
	if diff := cmp.Diff(keeping(longer, d.Operation, longer.Volumes), d.Operation); diff != "" {
		t.Errorf("by a clock that is behind, a volume is archived for as long more (-want +got):\n%s", diff)
	}
	drain := strategy.Decide(formed(3).asked(cke.TaskDrain, "n2", "").with(behind).Input).Operation.(op.DrainNode).For
	if usual := strategy.Decide(formed(3).asked(cke.TaskDrain, "n2", "").Input).Operation.(op.DrainNode).For; drain != usual+time.Hour {
		t.Errorf("by a clock that is an hour behind, a node is leased for %s instead of %s", drain, usual)
	}
}

// An order to restore is refused by a clock that is wrong, rather than kept waiting with everything else; one whose members
// may have been started is brought to its end.
func TestDecide_ARestoreNeverWaitsForAClock(t *testing.T) {
	wrong := func(s *scene) { s.clocks(60, 60, 60) }
	d := strategy.Decide(formed(3).restored().with(wrong).Input)
	if r, ok := d.Operation.(op.Refuse); !ok || r.Why.Code != cke.CodeClock {
		t.Errorf("%+v", d)
	}
	early := formed(3).silent(3).restored()
	early.Requests.Tasks[0].At = noon.Add(time.Hour) // by the clock of the host that it was asked on
	d = strategy.Decide(early.Input)
	if r, ok := d.Operation.(op.Refuse); !ok || r.Why.Code != cke.CodeFence {
		t.Errorf("%+v", d)
	}
	begun := formed(3).with(func(s *scene) {
		s.Identity.Incarnation.State, s.Identity.Incarnation.Restore = cke.Restoring, &cke.Restoration{}
		s.Identity.Incarnation.Founders = s.Identity.Joins
	}).with(wrong)
	if d = strategy.Decide(begun.Input); d.Operation == nil || d.Operation.Name() != "finish-restore" {
		t.Errorf("%+v", d)
	}
}
