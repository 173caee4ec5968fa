package server

import (
	"time"

	"cke"
	"cke/server/strategy"
)

// Kinds of metrics, as Prometheus names them.
const (
	gauge     = "gauge"
	counter   = "counter"
	histogram = "histogram"
)

// metric is a row of the table of metrics. A metric is added here; docs/metrics.md is made from the table.
type metric struct {
	kind, name, help string
	labels           []string
	// of adds the values that follow from the status of a cluster. Their first label, which of does not give, is the
	// cluster. nil: the value is set or counted where it happens, in metrics.go.
	of func(in *strategy.Input, s cke.Status, add add)
}

// add adds one value, with its labels after the cluster.
type add func(value float64, labels ...string)

// section is a group of rows, under a heading of the page.
type section struct {
	title string
	rows  []metric
}

func sections() []section {
	return []section{
		{"The daemon", daemonMetrics()}, {"Clusters", clusterMetrics()}, {"Members", memberMetrics()}, {"Nodes", nodeMetrics()},
		{"Operations and tasks", operationMetrics()}, {"Reboots", queueMetrics(cke.RebootQueue)}, {"Repairs", queueMetrics(cke.RepairQueue)}, {"Backups", backupMetrics()}, {"Inventory", inventoryMetrics()},
	}
}

func daemonMetrics() []metric {
	return []metric{
		{gauge, "build_info", "1, with the version of the daemon and of Go.", []string{"version", "goversion"}, nil},
		{gauge, "serving", "1 while the daemon leads clusters or waits to be elected, 0 while it waits for its store or its key.", nil, nil},
		{gauge, "leader", "1 while this daemon leads the cluster, 0 while it does not.", []string{"cluster"}, nil},
		{gauge, "clusters_led", "How many clusters this daemon leads.", nil, nil},
		{counter, "handovers_total", "Clusters that this daemon handed over to another one, by reason: prefer, balance, stop or unreachable.", []string{"reason"}, nil},
		{histogram, "store_request_seconds", "Duration of one request to the store, by method of etcd's API.", []string{"method"}, nil},
		{histogram, "observation_seconds", "Duration of one observation of a cluster.", []string{"cluster"}, nil},
		{counter, "node_connections_total", "Attempts to connect to nodes through SSH, by result: connected or failed.", []string{"cluster", "result"}, nil},
	}
}

// one is a metric with one value for each cluster.
func one(name, help string, of func(in *strategy.Input, s cke.Status) float64) metric {
	return metric{gauge, name, help, []string{"cluster"}, func(in *strategy.Input, s cke.Status, add add) { add(of(in, s)) }}
}

func clusterMetrics() []metric {
	return []metric{
		one("observed_timestamp_seconds", "When the cluster was last observed.", func(_ *strategy.Input, s cke.Status) float64 { return unix(s.ObservedAt) }),
		{gauge, "health", "1 for the health that the cluster has, 0 for every other one.", []string{"cluster", "health"}, func(_ *strategy.Input, s cke.Status, add add) {
			for _, h := range cke.Healths() {
				add(truth(s.Health == h), string(h))
			}
		}},
		{gauge, "condition", "1 while the condition is true, 0 while it is false, -1 while it is unknown.", []string{"cluster", "condition"}, func(_ *strategy.Input, s cke.Status, add add) {
			for _, c := range s.Conditions {
				add(ofTruth[c.Status], string(c.Type))
			}
		}},
		{gauge, "condition_since_timestamp_seconds", "When the condition last changed.", []string{"cluster", "condition"}, func(_ *strategy.Input, s cke.Status, add add) {
			for _, c := range s.Conditions {
				add(unix(c.Since), string(c.Type))
			}
		}},
		{gauge, "problems", "How many problems have the code; no series for a code without problems.", []string{"cluster", "code"}, func(_ *strategy.Input, s cke.Status, add add) {
			count := map[cke.Code]int{}
			for _, p := range s.Problems {
				count[p.Code]++
			}
			for code, n := range count {
				add(float64(n), string(code))
			}
		}},
		one("members_ready", "Declared members that serve.", func(_ *strategy.Input, s cke.Status) float64 { return float64(s.Ready) }),
		one("members_declared", "Members that the cluster file declares.", func(_ *strategy.Input, s cke.Status) float64 { return float64(s.Declared) }),
		one("tolerance", "How many more voters may fail before quorum is lost; -1 without quorum, or while none can be seen.",
			func(_ *strategy.Input, s cke.Status) float64 { return float64(s.Tolerance) }),
		{gauge, "zone_can_be_lost", "1 while the zone can be lost and the cluster still serves, 0 while it cannot; no series for clusters without zones.", []string{"cluster", "zone"},
			func(_ *strategy.Input, s cke.Status, add add) {
				if s.Spread != nil {
					for _, z := range s.Spread.Zones {
						add(truth(z.CanBeLost), z.Name)
					}
				}
			}},
		{gauge, "zones_losable", "How many zones can be lost, each alone; no series for clusters without zones.", []string{"cluster"},
			func(_ *strategy.Input, s cke.Status, add add) {
				if s.Spread != nil {
					add(float64(s.Spread.Losable()))
				}
			}},
		one("quorum", "1 with a quorum, 0 without one, -1 while members that could form one cannot be seen.",
			func(_ *strategy.Input, s cke.Status) float64 { return conditionIn(s, cke.CondQuorate) }),
		one("file_revision_declared", "Newest revision of the cluster file that the leader daemon has seen.", func(_ *strategy.Input, s cke.Status) float64 { return float64(s.Generation) }),
		one("file_revision_reached", "Last revision of the cluster file that was fully applied.", func(_ *strategy.Input, s cke.Status) float64 { return float64(s.ObservedGeneration) }),
	}
}

// ofMember is a metric with one value for each membership for which the value is known.
func ofMember(name, help string, of func(m cke.MemberStatus, j cke.Join) (value float64, known bool)) metric {
	return metric{gauge, name, help, []string{"cluster", "member"}, func(in *strategy.Input, s cke.Status, add add) {
		for _, m := range s.Members {
			if j, ours := in.Identity.Join(m.Join); ours { // foreign members have any name
				if v, known := of(m, j); known {
					add(v, m.Name)
				}
			}
		}
	}}
}

func memberMetrics() []metric {
	return []metric{
		{gauge, "member_healthy", "1 while the member is healthy, 0 while it is not; by its role, - while that is unknown.", []string{"cluster", "member", "role"},
			func(in *strategy.Input, s cke.Status, add add) {
				for _, m := range s.Members {
					if _, ours := in.Identity.Join(m.Join); ours {
						add(truth(m.State == "healthy"), m.Name, m.Role)
					}
				}
			}},
		ofMember("member_lag_entries", "How many raft entries the member is behind the leader.",
			func(m cke.MemberStatus, _ cke.Join) (float64, bool) { return float64(m.Lag), m.Lag >= 0 }),
		ofMember("member_db_size_bytes", "Size of the member's database file.",
			func(m cke.MemberStatus, _ cke.Join) (float64, bool) { return float64(m.DBSize), m.DBSize > 0 }),
		ofMember("member_db_in_use_bytes", "What is in use of the member's database file.",
			func(m cke.MemberStatus, _ cke.Join) (float64, bool) { return float64(m.DBSizeInUse), m.DBSizeInUse > 0 }),
		ofMember("member_db_free_bytes", "What is free in the member's database file, and is given back by defragmentation.",
			func(m cke.MemberStatus, _ cke.Join) (float64, bool) {
				return float64(max(0, m.DBSize-m.DBSizeInUse)), m.DBSizeInUse > 0
			}),
		ofMember("member_db_quota_bytes", "Size of the database file at which the member takes no more writes.",
			func(_ cke.MemberStatus, j cke.Join) (float64, bool) { return float64(j.Etcd.Quota()), true }),
		ofMember("member_revision", "Newest revision of etcd's data that the member holds.",
			func(m cke.MemberStatus, _ cke.Join) (float64, bool) { return float64(m.Revision), m.Revision > 0 }),
		ofMember("member_certificate_expiry_timestamp_seconds", "When the member's first certificate expires.",
			func(m cke.MemberStatus, _ cke.Join) (float64, bool) {
				return unix(m.CertNotAfter), !m.CertNotAfter.IsZero()
			}),
	}
}

func nodeMetrics() []metric {
	return []metric{
		{gauge, "node_reachable", "1 if the node answered in full when it was last observed, 0 if it did not.", []string{"cluster", "node"}, func(_ *strategy.Input, s cke.Status, add add) {
			for _, n := range s.Nodes {
				add(truth(n.Answered()), n.Node.Name())
			}
		}},
		{gauge, "node_drained", "1 while the node has a maintenance lease, or a queue reboots or repairs it and that is not late; 0 otherwise.", []string{"cluster", "node"}, func(in *strategy.Input, s cke.Status, add add) {
			for _, n := range s.Nodes {
				add(truth(strategy.TakenDown(in, n.Node)), n.Node.Name())
			}
		}},
	}
}

func operationMetrics() []metric {
	return []metric{
		{counter, "operations_total", "Operations that are over.", []string{"cluster", "operation", "state"}, nil},
		{counter, "operations_failed_total", "Operations that failed; 0 from the moment this daemon leads the cluster.", []string{"cluster"}, nil},
		{histogram, "operation_seconds", "Duration of one operation.", []string{"cluster", "operation"}, nil},
		{gauge, "operation_running", "1 while the operation runs; no series while none does.", []string{"cluster", "operation"}, func(_ *strategy.Input, s cke.Status, add add) {
			if s.Operation != nil {
				add(1, s.Operation.Type)
			}
		}},
		one("operation_started_timestamp_seconds", "When the operation that runs was started; 0 while none runs.", func(_ *strategy.Input, s cke.Status) float64 {
			if s.Operation == nil {
				return 0
			}
			return unix(s.Operation.Time)
		}),
		one("tasks_pending", "Tasks that are not over.", func(in *strategy.Input, _ cke.Status) float64 { return float64(len(in.Requests.Tasks)) }),
	}
}

// ofBackup is a metric with one value for each cluster that has a backup target.
func ofBackup(name, help string, of func(b *cke.BackupStatus, s cke.Status) float64) metric {
	return metric{gauge, name, help, []string{"cluster"}, func(_ *strategy.Input, s cke.Status, add add) {
		if s.Backup != nil {
			add(of(s.Backup, s))
		}
	}}
}

// backupWorks are the works on backups that may fail. The works of a status may be any text.
var backupWorks = []string{"take", "list", "older", "beside", "compact", "prune", "verify"}

func backupMetrics() []metric {
	return []metric{
		ofBackup("backup_ready", "1 while all that the cluster held a moment ago can be restored, as far as is known.", func(_ *cke.BackupStatus, s cke.Status) float64 {
			return max(0, conditionIn(s, cke.CondBackupReady))
		}),
		ofBackup("backup_restorable_timestamp_seconds", "Time of the newest state that can be restored; 0: none can.",
			func(b *cke.BackupStatus, s cke.Status) float64 { return unix(restorable(b, s.ObservedAt)) }),
		ofBackup("backup_full_timestamp_seconds", "When the newest full backup was started; 0 without one.", func(b *cke.BackupStatus, _ cke.Status) float64 { return unix(b.Full.At) }),
		ofBackup("backup_next_full_timestamp_seconds", "When the next full backup is due; 0: none is planned.", func(b *cke.BackupStatus, _ cke.Status) float64 { return unix(b.NextFull) }),
		ofBackup("backup_verified_timestamp_seconds", "When a backup was last restored to scratch and found correct; 0: never.", func(b *cke.BackupStatus, _ cke.Status) float64 {
			if b.Verified == nil {
				return 0
			}
			return unix(b.Verified.At)
		}),
		ofBackup("backup_next_drill_timestamp_seconds", "When the next restore drill is due; 0: none is planned.", func(b *cke.BackupStatus, _ cke.Status) float64 { return unix(b.NextVerify) }),
		{gauge, "backup_failing", "1 while the work on backups fails, 0 while it does not: take, list, older (the comparison with the identity beside the backups), beside, compact, prune, or verify, the restore drill.", []string{"cluster", "work"},
			func(_ *strategy.Input, s cke.Status, add add) {
				if s.Backup != nil {
					for _, work := range backupWorks {
						add(truth(work == "take" && s.Backup.Problem != nil || s.Backup.Trouble(work) != nil), work)
					}
				}
			}},
		ofBackup("backup_revision", "Newest revision that can be restored from the backup target.", func(b *cke.BackupStatus, _ cke.Status) float64 { return float64(b.Revision) }),
		ofBackup("backup_lag_seconds", "For how long changes have waited for the backup target.", func(b *cke.BackupStatus, _ cke.Status) float64 { return b.Lag }),
		ofBackup("backup_lag_revisions", "How many revisions the backup target is behind.", func(b *cke.BackupStatus, _ cke.Status) float64 { return float64(b.LagRevisions) }),
		ofBackup("backup_buffered_bytes", "Bytes that wait for the backup target.", func(b *cke.BackupStatus, _ cke.Status) float64 { return float64(b.Buffered) }),
	}
}

// followed reports whether an inventory is to be followed: one that is not in use is not read, and that is no fault.
func followed(i *cke.InventoryStatus) bool { return i != nil && (i.Source != "" || i.Code != "") }

// ofInventory is a metric with one value for each cluster whose inventory is followed.
func ofInventory(name, help string, of func(i *cke.InventoryStatus) float64) metric {
	return metric{gauge, name, help, []string{"cluster"}, func(_ *strategy.Input, s cke.Status, add add) {
		if followed(s.Inventory) {
			add(of(s.Inventory))
		}
	}}
}

func inventoryMetrics() []metric {
	return []metric{
		ofInventory("inventory_up", "1 if the last read of the inventory was good, 0 if it was not, or there was none yet. Like the other gauges of inventories, only while one is followed.", func(i *cke.InventoryStatus) float64 {
			return truth(i.Hosts != nil && i.Failures == 0)
		}),
		ofInventory("inventory_last_success_timestamp_seconds", "When the inventory was last read well; 0: never.", func(i *cke.InventoryStatus) float64 { return unix(i.ReadAt) }),
		{gauge, "inventory_hosts", "Machines of the last good read, by state.", []string{"cluster", "state"}, func(_ *strategy.Input, s cke.Status, add add) {
			if followed(s.Inventory) {
				for _, state := range cke.HostStates() {
					add(float64(s.Inventory.Hosts[state]), string(state))
				}
			}
		}},
		ofInventory("inventory_candidates", "Machines of the last good read that may get a member.", func(i *cke.InventoryStatus) float64 { return float64(i.Candidates) }),
		ofInventory("inventory_change_pending", "1 while a change of the cluster file follows from the inventory and is not applied.", func(i *cke.InventoryStatus) float64 { return truth(i.Change != nil) }),
		ofInventory("inventory_change_held", "1 while a change of the cluster file would follow from the inventory, and is held back until the operator confirms it.", func(i *cke.InventoryStatus) float64 { return truth(i.Override != nil) }),
		{counter, "inventory_changes_total", "Changes of the cluster file that followed from the inventory and were stored.", []string{"cluster", "cause"}, nil},
	}
}

// restorable returns the time of the newest state that can be restored; zero: none can. While backups work, that is now
// less the lag, also in a cluster that nothing changes.
func restorable(b *cke.BackupStatus, now time.Time) time.Time {
	switch {
	case b.Full.Revision == 0:
		return time.Time{}
	case b.Known && b.Connected && !b.Resuming && b.Problem == nil && b.Idle == "":
		return now.Add(-time.Duration(max(b.Lag, b.LagMost) * float64(time.Second)))
	}
	return b.Time
}

// ofTruth is the value of a condition.
var ofTruth = map[cke.Truth]float64{cke.True: 1, cke.False: 0, cke.Unknown: -1}

func conditionIn(s cke.Status, t cke.ConditionType) float64 {
	c, _ := s.Condition(t)
	return ofTruth[c.Status]
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}
