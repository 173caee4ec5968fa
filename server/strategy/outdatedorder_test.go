package strategy_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// A restore that is on record, whose members before may serve, is canceled where it waited for more than an hour: clients wrote
// since it was confirmed. What an operation of it takes does not count.
func TestRestore_IsCanceledOnceItWaitedForLong(t *testing.T) {
	ran := func(ago time.Duration) func(*scene) {
		return func(s *scene) {
			s.Before.LastOperation = &cke.OperationStatus{Type: "restore", State: cke.RecordInterrupted, Time: noon.Add(-ago)}
		}
	}
	unread := func(s *scene) { s.Requests.Unread = []string{"t1"} }
	answered := func(s *scene) {
		s.Before.LastOperation = &cke.OperationStatus{Type: op.Settled{Task: cke.Task{Kind: cke.TaskRestore}}.Name(), Task: "t0", State: cke.RecordCompleted, Time: noon}
	}
	for name, c := range map[string]struct {
		change func(*scene)
		age    time.Duration
		cancels,
		waits bool
	}{
		"it was just put on record":      {age: time.Minute},
		"its daemon died 30 hours ago":   {age: 30 * time.Hour, cancels: true},
		"it ran until a moment ago":      {age: 30 * time.Hour, change: ran(time.Minute)},
		"it ran 5 hours ago":             {age: 30 * time.Hour, change: ran(5 * time.Hour), cancels: true},
		"an order was answered just now": {age: 30 * time.Hour, cancels: true, change: answered},
		"it ran a moment ago, and an order was answered since": {age: 30 * time.Hour, change: func(s *scene) {
			ran(time.Minute)(s)
			s.Before = strategy.Remembered(s.Before)
			answered(s)
		}},
		"another operation was before it":   {age: 2 * time.Hour, change: ran(5 * time.Hour), cancels: true},
		"it is paused":                      {age: 30 * time.Hour, change: func(s *scene) { s.Requests.Hold = &cke.Hold{Reason: "x"} }, waits: true},
		"a task cannot be decoded":          {age: time.Minute, change: unread, waits: true},
		"that has been so for long":         {age: 30 * time.Hour, change: unread, cancels: true},
		"a node does not answer":            {age: 30 * time.Hour, change: func(s *scene) { s.silent(3) }, cancels: true},
		"two nodes do not answer":           {age: 30 * time.Hour, change: func(s *scene) { s.silent(2, 3) }, waits: true},
		"the clock was set back":            {age: -30 * time.Hour},
		"its cluster was declared for it":   {age: 30 * time.Hour, change: func(s *scene) { s.Identity.Incarnation.Restore.Before.State = cke.Awaiting }},
		"it replaces one that never began":  {age: 30 * time.Hour, change: replaces, cancels: true},
		"a recovery, and no member has run": {age: 30 * time.Hour, change: func(s *scene) { s.Identity.Incarnation.Restore.Order.Survivor = "n1"; stays(s) }},
		"the machines before are gone": {age: 30 * time.Hour, change: func(s *scene) {
			s.Identity.Incarnation.Restore.Order.Destroyed = []string{"n1", "n2", "n3"}
			for i := range s.Seen.Nodes {
				s.Seen.Nodes[i].Containers = nil
			}
		}},
		"the volumes before are gone": {age: 30 * time.Hour, change: func(s *scene) {
			for i := range s.Seen.Nodes {
				s.Seen.Nodes[i].Containers, s.Seen.Nodes[i].Volumes = nil, nil
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := cutOffRestore()
			s.Seen.Etcd.Alarms, s.Identity.Incarnation.Restore.Stopping = nil, false
			s.Identity.Incarnation.CreatedAt = noon.Add(-c.age)
			if c.change != nil {
				c.change(s)
			}
			d := strategy.Decide(s.Input)
			_, cancels := d.Operation.(op.CancelRestore)
			_, restores := d.Operation.(op.Restore)
			if cancels != c.cancels || restores != (!c.cancels && !c.waits) || cancels && !strings.Contains(d.Reason, "ckecli restore --plan") {
				t.Errorf("%T: %s", d.Operation, d.Reason)
			}
		})
	}
}

// replaces lets a restore have taken the place of one that had started nothing.
func replaces(s *scene) {
	r := s.Identity.Incarnation.Restore
	r.Before = &cke.Incarnation{ID: "life1b", State: cke.Restoring, Restore: &cke.Restoration{ID: "t00", Before: r.Before}}
}

// What a restore, and an order whose fetch was interrupted, have worked is known whatever other operations end after that.
func TestReport_RemembersWhenARestoreWorked(t *testing.T) {
	s := cutOffRestore()
	for _, last := range []cke.OperationStatus{
		{Type: "restore", State: cke.RecordFailed, Time: noon.Add(-3 * time.Minute)},
		{Type: "begin-recovery", Task: "t1", State: cke.RecordInterrupted, Time: noon.Add(-2 * time.Minute)},
		{Type: "backup", Task: "t2", State: cke.RecordInterrupted, Time: noon.Add(-time.Minute)},
		{Type: "restore", Task: "t3", State: cke.RecordFailed, Refused: true, Time: noon.Add(-time.Second)},
		{Type: "cancel-restore", Task: "t4", State: cke.RecordFailed, Time: noon},
	} {
		s.Before.LastOperation = &last
		s.Before = strategy.Report(s.Input, strategy.Decide(s.Input), s.Before)
	}
	if o := s.Before.InterruptedOrder; !s.Before.RestoreWorkedAt.Equal(noon.Add(-3*time.Minute)) || o == nil || o.Task != "t1" {
		t.Errorf("%s, %+v", s.Before.RestoreWorkedAt, o)
	}
}

// stays lets no member have been started since the survivor of a recovery was copied.
func stays(s *scene) {
	r := s.Identity.Incarnation.Restore
	r.Ran = map[cke.JoinID]time.Time{}
	for _, n := range s.Seen.Nodes {
		for _, c := range n.Containers {
			r.Ran[c.Join] = c.StartedAt
		}
	}
}

// An order to restore whose plan was confirmed for another state is refused, once a pause is over or a daemon leads again. It is
// never carried out long after it was meant.
func TestRestore_OfAnOrderThatIsNotWhatWasConfirmed(t *testing.T) {
	now := formed(3).Seen.ObservedAt
	for name, c := range map[string]struct {
		order cke.RestoreOrder
		at    time.Time
		ran   *cke.OperationStatus
		paused,
		then, // a backup was taken
		wrongClock,
		waits bool
		says string // by the refusal; empty: it is begun, or waits for the end of the pause
	}{
		"it was just given":                     {order: cke.RestoreOrder{ShownIncarnation: "life1", ShownGeneration: 7}, at: now},
		"an earlier ckecli gave it":             {at: now.Add(-time.Minute)},
		"it waits for the end of a pause":       {at: now.Add(-5 * time.Hour), paused: true},
		"after a short pause":                   {at: now.Add(-50 * time.Minute)},
		"after a long pause":                    {at: now.Add(-5 * time.Hour), says: "for 5h0m"},
		"a recovery, after a long pause":        {order: cke.RestoreOrder{Survivor: "n1", Named: true}, at: now.Add(-5 * time.Hour), says: "for 5h0m"},
		"its fetch was interrupted just now":    {at: now.Add(-2 * time.Hour), ran: &cke.OperationStatus{Type: "begin-restore", Task: "t1", State: cke.RecordInterrupted, Time: now.Add(-time.Minute)}},
		"its fetch was interrupted hours ago":   {at: now.Add(-5 * time.Hour), ran: &cke.OperationStatus{Type: "begin-restore", Task: "t1", State: cke.RecordInterrupted, Time: now.Add(-3 * time.Hour)}, says: "for 3h0m"},
		"a backup was taken after that":         {at: now.Add(-2 * time.Hour), ran: &cke.OperationStatus{Type: "begin-restore", Task: "t1", State: cke.RecordInterrupted, Time: now.Add(-time.Minute)}, then: true},
		"that of another order was interrupted": {at: now.Add(-5 * time.Hour), ran: &cke.OperationStatus{Type: "begin-restore", Task: "t0", State: cke.RecordInterrupted, Time: now}, says: "for 5h0m"},
		"asked by a clock that is behind":       {at: now.Add(-5 * time.Hour), says: "by the daemon's it is 20"},
		"the file was set since it was read":    {order: cke.RestoreOrder{ShownGeneration: 8}, at: now, waits: true},
		"asked by a clock that is ahead":        {at: now.Add(5 * time.Hour)},
		"a recovery, asked by that clock":       {order: cke.RestoreOrder{Survivor: "n1", Named: true}, at: now.Add(11 * time.Minute), says: "is 11m ahead of the daemon's"},
		"a recovery, asked by a near one":       {order: cke.RestoreOrder{Survivor: "n1", Named: true}, at: now.Add(9 * time.Minute), says: "quorum"},
		"the cluster was restored since":        {order: cke.RestoreOrder{ShownIncarnation: "before"}, at: now, says: "was to replace incarnation before"},
		"the cluster file was replaced since":   {order: cke.RestoreOrder{ShownGeneration: 6}, at: now, says: "revision 6 of the cluster file"},
		"the daemon's clock alone is 5 h ahead": {at: now.Add(-5 * time.Hour), wrongClock: true, says: "clock"},
	} {
		t.Run(name, func(t *testing.T) {
			s := formed(3).restored()
			s.Before.LastOperation = c.ran
			if c.then {
				s.Before = strategy.Remembered(s.Before)
				s.Before.LastOperation = &cke.OperationStatus{Type: "backup", Task: "t2", State: cke.RecordCompleted, Time: now}
			}
			s.Generation = 7
			if s.Identity.Incarnation.ID != "life1" && c.order.ShownIncarnation == "life1" {
				c.order.ShownIncarnation = s.Identity.Incarnation.ID
			}
			if c.order.Survivor == "" {
				c.order.Target, c.order.Source = "file:///backups", "demo"
			}
			s.Requests.Tasks[0].Restore, s.Requests.Tasks[0].At = &c.order, c.at
			if c.paused {
				s.Requests.Hold = &cke.Hold{Reason: "a new switch"}
			}
			if c.wrongClock {
				for i := range s.Seen.Nodes {
					s.Seen.Nodes[i].Clock = now.Add(-5 * time.Hour)
				}
			}
			d := strategy.Decide(s.Input)
			refused, is := d.Operation.(op.Refuse)
			_, begun := d.Operation.(op.BeginRestore)
			switch {
			case c.says == "" && (is || begun == (c.paused || c.waits)):
				t.Errorf("%#v: %s", d.Operation, d.Reason)
			case c.says != "" && (!is || !strings.Contains(refused.Why.Error(), c.says) || refused.Why.Try == "" && !c.wrongClock):
				t.Errorf("%#v: %s", d.Operation, d.Reason)
			}
		})
	}
}
