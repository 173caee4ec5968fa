package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// n2 has run on removed files for longer than n3's volume has been gone. n2 may not go before n3 is healed; n3 may go now.
func TestDecide_ReplacesWhatCanBeReplacedOfSeveralLosses(t *testing.T) {
	auto := func(s *scene) {
		s.Spec.Policies.Replace = cke.ReplacePolicy{Mode: cke.ReplaceAuto, Grace: cke.Duration(time.Minute)}
	}
	missing := func(s *scene, i int, seen time.Duration) {
		s.Before.ObservedAt = noon
		s.Before.Members = append(s.Before.Members, cke.MemberStatus{Name: s.join(i).Node.Name(), Join: s.join(i).ID, State: "missing", Watched: cke.Duration(seen)})
	}
	for name, n2 := range map[string]time.Duration{"n2 lost its files first": 48 * time.Hour, "n3 lost its volume first": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := formed(3).wiped(3).hollow(n2, 2).with(auto)
			missing(s, 3, 24*time.Hour)
			d := strategy.Decide(s.Input)
			r, removes := d.Operation.(op.RemoveMember)
			if !removes || r.Join.Node.Name() != "n3" {
				t.Errorf("n3 is not replaced: %T: %s", d.Operation, d.Reason)
			}
		})
	}
}

// cutOffRestore is a cluster that serves while its writes are stopped for a restore whose daemon died.
func cutOffRestore() *scene {
	s := formed(3)
	before := *s.Identity.Incarnation
	inc := cke.Incarnation{ID: "life2", Token: "t2", State: cke.Restoring, ClusterID: "c2", CreatedAt: noon.Add(-time.Minute), Replaced: []string{before.ID},
		Restore: &cke.Restoration{ID: "t0", Order: cke.RestoreOrder{Target: "file:///backups", Source: "demo"}, Before: &before, Stopping: true, Stops: 1, Last: 7}}
	for i, j := range s.Identity.Joins {
		j.EndedAt = inc.CreatedAt
		s.Identity.Ended = append(s.Identity.Ended, j)
		inc.Restore.Fence = append(inc.Restore.Fence, j.ID)
		f := s.Identity.Joins[i]
		f.ID, f.Volume, f.Incarnation, f.StartedAt, f.MemberID = "new"+f.ID, "etcd-cke.new"+string(f.ID), inc.ID, time.Time{}, ""
		s.Identity.Joins[i] = f
		inc.Founders = append(inc.Founders, f)
	}
	s.Identity.Incarnation = &inc
	s.lost()
	s.Seen.Etcd.Endpoints = nil
	s.Seen.Etcd.Alarms = []cke.Alarm{cke.WriteStop(inc.ID, 1)}
	return s
}

// Another restore is ordered before anybody leads again. What it fetches may take two hours, in which clients could write.
func TestDecide_LetsClientsWriteBeforeAnotherRestore(t *testing.T) {
	if d := strategy.Decide(cutOffRestore().Input); d.Operation == nil || d.Operation.Name() != "allow-writes" {
		t.Fatalf("the scene: %T %s", d.Operation, d.Reason)
	}
	for name, change := range map[string]func(*scene){
		"it is begun":         func(*scene) {},
		"it waits for a node": func(s *scene) { s.silent(3); s.Requests.Tasks[0].At = noon },
	} {
		t.Run(name, func(t *testing.T) {
			d := strategy.Decide(cutOffRestore().restored().with(change).Input)
			if d.Operation == nil || d.Operation.Name() != "allow-writes" {
				t.Errorf("clients are not allowed to write first: %T: %s", d.Operation, d.Reason)
			}
		})
	}
}

// The alarm is in the log of a member that continued alone, and stays: the restore takes its turn. A restore that was cut off once more
// stopped writes again.
func TestDecide_ContinuesARestoreWhereAllowingWritesHadNoEffect(t *testing.T) {
	allowed := func(ago time.Duration, last string) *scene {
		s := cutOffRestore()
		s.Identity.Incarnation.Restore.Stopping = false
		s.Completed = map[string]strategy.Completion{"allow-writes ": {Count: 1, At: noon.Add(-ago)}}
		s.Before.LastOperation = &cke.OperationStatus{Type: last, State: cke.RecordCompleted, Time: noon.Add(-ago)}
		return s
	}
	for name, c := range map[string]struct {
		scene *scene
		want  string
	}{
		"right after it":                  {allowed(time.Second/2, "allow-writes"), "restore"},
		"it may have landed late":         {allowed(time.Minute, "allow-writes"), "allow-writes"},
		"the restore has had its turn":    {allowed(time.Second/2, "restore"), "allow-writes"},
		"the restore has stopped writes":  {allowed(time.Second/2, "allow-writes").with(func(s *scene) { s.Identity.Incarnation.Restore.Stopping = true }), "allow-writes"},
		"it had no effect, and waits now": {allowed(time.Second/2, "allow-writes").silent(3), ""},
	} {
		got := ""
		d := strategy.Decide(c.scene.Input)
		if d.Operation != nil {
			got = d.Operation.Name()
		}
		if got != c.want {
			t.Errorf("%s: %q: %s", name, got, d.Reason)
		}
	}
}

// A membership was begun on n4, where something else stands by now; n3 gets its member.
func TestDecide_ABegunMembershipKeepsNoOtherNodeWaiting(t *testing.T) {
	s := formed(4)
	s.Identity.Joins[3].StartedAt, s.Identity.Joins[3].MemberID = time.Time{}, ""
	s.Identity.Joins = append(s.Identity.Joins[:2:2], s.Identity.Joins[3])
	s.Seen.Etcd.Members = append(s.Seen.Etcd.Members[:2:2], cke.Member{ID: "hand", Name: "hand", PeerURLs: []string{"https://10.0.0.4:2390"}, ClientURLs: []string{"https://10.0.0.4:2389"}})
	s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Endpoints[:2:2], cke.EndpointStatus{URL: "https://10.0.0.4:2389", Serializable: true, Linearizable: true, ClusterID: "c1", MemberID: "hand", LeaderID: "m1"})
	for _, i := range []int{3, 4} {
		s.node(i).Containers, s.node(i).Volumes = nil, nil
		s.node(i).ClientPort, s.node(i).PeerPort = cke.PortClosed, cke.PortClosed
	}
	s.Spec.Policies.Foreign = cke.ForeignHold
	without := s.Input
	without.Identity.Joins = without.Identity.Joins[:2]
	if a, adds := strategy.Decide(without).Operation.(op.AddMember); !adds || a.Node.Name() != "n3" {
		t.Fatal("the scene: n3 would not get a member either if nothing was begun on n4")
	}
	d := strategy.Decide(s.Input)
	if a, adds := d.Operation.(op.AddMember); !adds || a.Node.Name() != "n3" {
		t.Errorf("n3 gets no member: %s: %T %s", d.Rule, d.Operation, d.Reason)
	}
}
