package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
	"cke/server/strategy/scenes"
)

// The plan that an operator confirms and the leader give one answer.
func TestRestore_PlanAndLeaderRefuseTheSame(t *testing.T) {
	told := cke.RestoreOrder{Target: "file:///backups", Source: "demo", Stored: true}
	for name, c := range map[string]struct {
		scene *scene
		order cke.RestoreOrder
		code  cke.Code // empty: it is begun
	}{
		"nothing is in the way":     {formed(3), cke.RestoreOrder{Target: "file:///backups"}, ""},
		"a stopped stranger is not": {formed(3).with(func(s *scene) { foreignDemo(s.node(2), cke.ContainerExited) }), cke.RestoreOrder{Target: "file:///backups"}, ""},
		"a node does not answer":    {formed(3).silent(3), cke.RestoreOrder{Target: "file:///backups"}, cke.CodeFence},
		"too many are left out":     {formed(3), cke.RestoreOrder{Target: "file:///backups", Without: []string{"n2", "n3"}}, cke.CodeFence},
		"a node that nobody knows":  {formed(3), cke.RestoreOrder{Target: "file:///backups", Without: []string{"n9"}}, cke.CodeConfig},
		"no control plane is left":  {formed(1), cke.RestoreOrder{Target: "file:///backups", Destroyed: []string{"n1"}}, cke.CodeConfig},
		"a survivor, with a quorum": {formed(3), cke.RestoreOrder{Survivor: "n1"}, cke.CodeCannot},
		"all can be stored":         {formed(3).with(backedUp), told, ""},
		"no target":                 {formed(3), told, cke.CodeNotStored},
		"no quorum":                 {formed(3).with(backedUp).with(func(s *scene) { s.Seen.Etcd.Quorate = false }), told, cke.CodeNotStored},
		"an etcd 3.5 that is out of space": {formed(3).with(backedUp).with(func(s *scene) {
			e := &s.Seen.Etcd.Endpoints[1]
			e.Version, e.NoSpace = "3.5.35", true
		}), told, cke.CodeNotStored},
		"an etcd 3.5 near its quota": {formed(3).with(backedUp).with(func(s *scene) {
			e := &s.Seen.Etcd.Endpoints[1]
			e.Version, e.DBSize = "3.5.35", cke.DefaultQuota-1<<20
		}), told, cke.CodeNotStored},
		"an etcd 3.5 that does not answer": {formed(3).with(backedUp).with(func(s *scene) {
			for i := range s.Seen.Etcd.Endpoints {
				s.Seen.Etcd.Endpoints[i].Version = "3.5.35"
			}
			e := &s.Seen.Etcd.Endpoints[2]
			*e = cke.EndpointStatus{Join: e.Join, URL: e.URL, Problem: "no answer"}
		}), told, cke.CodeNotStored},
		"an etcd 3.6 near its quota": {formed(3).with(backedUp).with(func(s *scene) {
			e := &s.Seen.Etcd.Endpoints[1]
			e.Version, e.NoSpace, e.DBSize = "3.6.16", true, cke.DefaultQuota-1<<20
		}), told, ""},
		"the target fails": {formed(3).with(backedUp).with(func(s *scene) {
			s.Backup.Problem = &cke.BackupTrouble{Code: cke.CodeTarget, Message: "it takes nothing"}
		}), told, cke.CodeNotStored},
	} {
		t.Run(name, func(t *testing.T) {
			if why := strategy.RestoreRefusal(c.scene.Input, c.order); codeOf(why) != c.code {
				t.Errorf("the plan says %v", why)
			}
			s := c.scene.restored()
			s.Requests.Tasks[0].Restore = &c.order
			d := strategy.Decide(s.Input)
			_, begun := d.Operation.(op.BeginRestore)
			refused, _ := d.Operation.(op.Refuse)
			if begun != (c.code == "") || refused.Why != nil && refused.Why.Code != c.code {
				t.Errorf("the leader decides %#v: %s", d.Operation, d.Reason)
			}
		})
	}
}

// Of a target that a new leader has not read yet nothing is known. An order waits for it, though not without end.
func TestRestore_WaitsUntilTheTargetIsRead(t *testing.T) {
	now := formed(3).Seen.ObservedAt
	for name, c := range map[string]struct {
		backup *cke.BackupStatus
		since  time.Duration // that the status has told it for; 0: it has not yet
		waits  bool
	}{
		"nothing is known":                 {nil, 0, true},
		"it is being read":                 {&cke.BackupStatus{}, 0, true},
		"it is being read for a while":     {&cke.BackupStatus{}, 20 * time.Second, true},
		"it hangs":                         {&cke.BackupStatus{}, time.Minute, false},
		"changes are on their way":         {&cke.BackupStatus{Known: true}, 5 * time.Second, true},
		"changes do not come":              {&cke.BackupStatus{Known: true}, time.Minute, false},
		"backups are suspended":            {&cke.BackupStatus{Idle: "paused"}, 0, false},
		"it was read, and takes no object": {&cke.BackupStatus{Problem: &cke.BackupTrouble{Code: cke.CodeTarget, Message: "full"}}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := formed(3).with(backedUp).restored()
			s.Requests.Tasks[0].Restore = &cke.RestoreOrder{Target: "file:///backups", Source: "demo", Stored: true}
			if s.Backup = c.backup; c.since > 0 {
				s.Before.Conditions = []cke.Condition{{Type: cke.CondBackupReady, Status: cke.Unknown, Since: now.Add(-c.since)}}
			}
			d := strategy.Decide(s.Input)
			_, refused := d.Operation.(op.Refuse)
			if waits := d.Operation == nil && d.Again > 0; waits != c.waits || refused == c.waits {
				t.Errorf("%#v: %s", d.Operation, d.Reason)
			}
		})
	}
}

func codeOf(e *cke.Error) cke.Code {
	if e == nil {
		return ""
	}
	return e.Code
}

func backedUp(s *scene) {
	s.Spec.Backup.Target, s.Backup = "file:///backups", scenes.SoundBackups()
}

// Writes that were stopped for a restore are let through again once it is not under way; of what etcd itself finds corrupt
// nothing is taken back.
func TestDecide_LetsClientsWriteAfterARestoreThatWasCalledOff(t *testing.T) {
	stop := cke.WriteStop("called off", 1)
	d := strategy.Decide(formed(3).with(func(s *scene) { s.Seen.Etcd.Alarms = []cke.Alarm{stop} }).Input)
	if got, is := d.Operation.(op.Disarm); !is || len(got.Alarms) != 1 || got.Alarms[0] != stop || d.Frozen != nil {
		t.Errorf("%#v: %s", d.Operation, d.Reason)
	}
	d = strategy.Decide(formed(3).with(corrupt).with(func(s *scene) { s.Seen.Etcd.Alarms = append(s.Seen.Etcd.Alarms, stop) }).Input)
	if _, is := d.Operation.(op.Disarm); is || d.Rule != "frozen" {
		t.Errorf("%s: %#v: %s", d.Rule, d.Operation, d.Reason)
	}
}

// A record without members, which a copy of the store may have, neither ends the daemon nor stops anybody.
func TestDecide_RestoresNothingWithoutMembersOnRecord(t *testing.T) {
	s := forming(3, false).wiped(1, 2, 3)
	s.Identity.Incarnation.State, s.Identity.Joins = cke.Restoring, nil
	s.Identity.Incarnation.Restore = &cke.Restoration{Order: cke.RestoreOrder{Target: "file:///x"}}
	if d := strategy.Decide(s.Input); d.Operation != nil || len(d.Blockers) != 1 || d.Blockers[0].Code != cke.CodeAwaiting {
		t.Errorf("%+v", d)
	}
}

// An order that is called off before it is on record is not carried out, and does not wait for the end of a pause for that.
func TestDecide_RefusesARestoreThatWasCalledOff(t *testing.T) {
	off := cke.Task{ID: "t2", Kind: cke.TaskCancelRestore, At: noon}
	for name, s := range map[string]*scene{"": formed(3).restored(), "paused": formed(3).restored().held()} {
		if d := strategy.Decide(s.Input); (d.Rule == "paused") != (name == "paused") {
			t.Errorf("%s, not called off: %s, %T", name, d.Rule, d.Operation)
		}
		s.Requests.Tasks = append(s.Requests.Tasks, off)
		d := strategy.Decide(s.Input)
		if r, is := d.Operation.(op.Refuse); !is || r.Task.ID != "t1" {
			t.Errorf("%s: %s, %#v", name, d.Rule, d.Operation)
		}
	}
}

// What members were ever seen to serve is not given out again, also where they were down for a while; and a restore does not forget it,
// since it may be called off.
func TestRestore_KnowsHowFarTheClusterHadCome(t *testing.T) {
	reached := &cke.Reached{ClusterID: "c1", Revision: 5000, RaftTerm: 3}
	s := formed(3).restored().with(func(s *scene) { s.Before.Reached = reached })
	for i := range s.Seen.Etcd.Endpoints {
		s.Seen.Etcd.Endpoints[i].Revision = 0
	}
	d := strategy.Decide(s.Input)
	if b, is := d.Operation.(op.BeginRestore); !is || b.Known != reached.Revision {
		t.Errorf("%#v", d.Operation)
	}
	begun := formed(3).begun().with(func(s *scene) { s.Requests.Tasks = nil })
	if st := begun.reportAfter(cke.Status{Reached: reached}); st.Reached == nil || *st.Reached != *reached {
		t.Errorf("a restore has begun: %+v", st.Reached)
	}
}

// While a restore prepares its members those before serve, and all that they acknowledge is backed up: another order that was told so is
// not refused for want of a quorum.
func TestRestore_BesideOneUnderWayStoresWhatIsWritten(t *testing.T) {
	s := formed(3).begun().with(backedUp)
	s.Requests.Tasks[0].Restore.Stored = true
	if b, is := strategy.Decide(s.Input).Operation.(op.BeginRestore); !is || !b.Serving {
		t.Errorf("%+v", strategy.Decide(s.Input))
	}
	s.Backup.Connected = false
	s.Backup.Problem = &cke.BackupTrouble{Code: cke.CodeStaleBackup}
	if r, is := strategy.Decide(s.Input).Operation.(op.Refuse); !is || r.Why.Code != cke.CodeNotStored {
		t.Errorf("%+v", strategy.Decide(s.Input))
	}
}

// An order that is refused again and again keeps no member down that a restore stopped before it was called off. A freeze, a hibernation
// and a pause do.
func TestRestore_RefusedKeepsNoMemberDown(t *testing.T) {
	refused := op.Refuse{Task: cke.Task{Kind: cke.TaskRestore}}
	for name, c := range map[string]struct {
		scene  *scene
		starts bool
	}{
		"":           {formed(3), true},
		"frozen":     {formed(3).with(corrupt), false},
		"hibernated": {formed(3).hibernated(), false},
		"paused":     {formed(3).held(), false},
	} {
		s := c.scene.with(backedUp).stopped(1, 2).lost().restored().failed(refused, 1, 0)
		s.Requests.Tasks[0].Restore.Stored = true
		d := strategy.Decide(s.Input)
		if start, starts := d.Operation.(op.StartMembers); starts != c.starts || starts && len(start.Joins) != 2 {
			t.Errorf("%s: %s: %#v: %s", name, d.Rule, d.Operation, d.Reason)
		}
	}
}
